package clusterapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// TestARunUpgradesOneClusterAfterTheOther covers the whole path: a run of the engine, the updater,
// the provider, an API server, and a simulated Cluster API. One cluster has a topology, another has
// none, and a third is already at the target.
func TestARunUpgradesOneClusterAfterTheOther(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("one", true, "md-0")
	c.cluster("two", false, "md-0")
	c.cluster("zen", false)
	c.patch("KubeadmControlPlane", "zen-cp", tree{"spec": tree{"version": "v1.31.2"}})
	c.settle("zen")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer cancel()

	target := upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.31.2"}
	members := memory.NewFleet()
	for _, name := range []string{"one", "two", "zen"} {
		members.Add(placement.Cluster{Name: name})
	}
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Source: upgrade.Source("prod", target), Poll: 50 * time.Millisecond,
		Updater: upgrade.NewUpdater(c.provider(c.conn, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "prod", Selectors: []snapshot.Selector{upgrade.Selector("prod")}}); err != nil {
		t.Fatal(err)
	}
	one := intstr.FromInt32(1)
	spec := fleet.RunSpec{Name: "up", Placement: "prod", Strategy: stages.Strategy{
		Profile: stages.ClusterUpdate, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &one}},
	}}
	if _, err := engine.CreateRun(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := engine.Run("up").Command(ctx, stages.Command{ID: "go", Verb: stages.Start}); err != nil {
		t.Fatal(err)
	}
	playing.Go(func() { _ = engine.Start(ctx) })
	playing.Go(func() { c.play(ctx, "one", "two") })
	status, err := engine.Run("up").Wait(ctx)
	if err != nil || status.Run.State != stages.Completed {
		t.Fatalf("the run is %s (%s), %v", status.Run.State, status.Run.Reason, err)
	}
	c.expect("one", "one-cp=v1.31.2 one-md-0-x7k2p=v1.31.2")
	c.expect("two", "two-cp=v1.31.2 two-md-0=v1.31.2")
	if got := eventsOf(t, engine); got != "one started, one done, two started, two done, zen started, zen skipped" {
		t.Fatalf("it went %s", got)
	}
}

// play moves clusters until ctx ends.
func (c *capi) play(ctx context.Context, clusters ...string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, name := range clusters {
			c.step(name)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// eventsOf describes the course of a run, cluster by cluster.
func eventsOf(t *testing.T, e *fleet.Engine) string {
	t.Helper()
	follow, err := e.Placement("prod").Follow("")
	if err != nil {
		t.Fatal(err)
	}
	words := map[stages.EventType]string{
		stages.ClusterStarted: "started", stages.ClusterCompleted: "done", stages.ClusterSkipped: "skipped", stages.ClusterFailed: "failed",
	}
	var out []string
	for ev, err := range follow.Past(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if word := words[ev.Type]; word != "" {
			out = append(out, ev.Cluster+" "+word)
		}
	}
	return strings.Join(out, ", ")
}
