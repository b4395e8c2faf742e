package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// explains checks the state of a cluster in an explanation, and the reasons for its wait.
func explains(t *testing.T, e *fleet.Engine, run, cluster string, state stages.State, want ...string) {
	t.Helper()
	quiet()
	x, err := e.Run(run).Explain(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	text := x.Reason
	for _, a := range x.Waiting {
		text += "; " + string(a.Kind) + " " + a.Name + " " + a.Message
	}
	if x.State != state || x.Run != run || x.Cluster != cluster {
		t.Errorf("%s in run %s is %s, want %s: %s", cluster, run, x.State, state, text)
	}
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%s in run %s: %q, want %q in it", cluster, run, text, part)
		}
	}
	if terminal := state == stages.Completed || state == stages.Failed || state == stages.Skipped; terminal == (len(x.Waiting) > 0) {
		t.Errorf("%s in run %s is %s and waits for %v", cluster, run, state, x.Waiting)
	}
}

// Explain returns the reasons for a cluster's wait in every state.
func TestExplainEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		defer running(t, e)()
		ctx := t.Context()
		w.capture(e, "v0")
		spec := fleet.RunSpec{Name: "r", Placement: ep, Index: new(0), Strategy: tutorialStrategy(), Hold: true}
		spec.Strategy.Profile = stages.ClusterUpdate
		spec.Strategy.Stages[1].MaxFailures = percent("100%")
		create(t, e, spec)
		explains(t, e, "r", "member2", stages.NotStarted, "the run is NotStarted", "Start r")

		w.fleet.Hang("member2", true)
		create(t, e, fleet.RunSpec{Name: "first", Placement: ep, Index: new(0), Strategy: tutorialStrategy()})
		quiet()
		explains(t, e, "first", "member2", stages.Running, "in flight", "Observation member2")
		if err := e.Run("r").Delete(ctx, forced); err != nil {
			t.Fatal(err)
		}
		spec.Hold = false
		create(t, e, spec)
		time.Sleep(10 * time.Second)
		explains(t, e, "r", "member2", stages.NotStarted, "the run is Pending", "Run first waits for run first")

		if err := e.Run("first").Delete(ctx, forced); err != nil {
			t.Fatal(err)
		}
		w.fleet.Hang("member2", false)
		w.fleet.SetDown("member2", true)
		time.Sleep(time.Minute)
		explains(t, e, "r", "member2", stages.Pending, "to be started again", "cannot be reached")
		w.fleet.SetDown("member2", false)
		time.Sleep(30 * time.Second)
		explains(t, e, "r", "member2", stages.Completed, "it was read back and is healthy")
		explains(t, e, "r", "member1", stages.NotStarted, "stage staging is not done", "Time staging timed wait")

		w.fleet.Cluster("member3").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		if err := e.Run("r").Command(ctx, stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "member1", By: approval.Identity{Name: "ann"}, Message: "broken"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		explains(t, e, "r", "member1", stages.Skipped, "skipped by ann: broken")
		explains(t, e, "r", "member3", stages.Failed, "the store is down")
		if _, err := e.Run("r").Explain(ctx, "member9"); err == nil || !strings.Contains(err.Error(), "member9 is not in the plan") {
			t.Errorf("a cluster that is not there: %v", err)
		}
		if _, err := e.Run("missing").Explain(ctx, "member1"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}
