package upgrade_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// groupLabel is the label that puts a cluster into an update group.
const groupLabel = "slipway.dev/update-group"

// env is an engine that upgrades the clusters of a provider.
type env struct {
	t       *testing.T
	p       *embedded.Provider
	store   *memory.Store
	members *memory.Fleet
	source  *memory.Source
	e       *fleet.Engine
}

// upgrading runs a test with an engine that drives runs to a target.
func upgrading(t *testing.T, w embedded.State, target upgrade.Target, story func(*testing.T, *env)) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, w, target)
		stop := r.running(r.e)
		defer stop()
		story(t, r)
	})
}

func newEnv(t *testing.T, w embedded.State, target upgrade.Target) *env {
	t.Helper()
	r := &env{t: t, p: embedded.New(w, nil), store: memory.NewStore(), members: memory.NewFleet(), source: memory.NewSource()}
	for name := range w.Clusters {
		r.join(name, "")
	}
	r.aim(target)
	r.e = r.engine("one", r.store)
	err := r.e.PutPlacement(t.Context(), fleet.Placement{Name: "prod", Selectors: []snapshot.Selector{upgrade.Selector("prod")}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *env) engine(name string, store backend.Store) *fleet.Engine {
	r.t.Helper()
	e, err := fleet.New(fleet.Config{Name: name, Store: store, Inventory: r.members, Source: r.source, Updater: upgrade.NewUpdater(r.p)})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// running drives runs with e until the returned function is called.
func (r *env) running(e *fleet.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Start(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *env) join(name, group string) {
	r.members.Add(placement.Cluster{Name: name, Labels: map[string]string{groupLabel: group}})
}

// aim sets the target of the next run.
func (r *env) aim(target upgrade.Target) {
	r.t.Helper()
	obj, err := upgrade.Object("prod", target)
	if err == nil {
		err = r.source.Put(obj)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// oneByOne returns a strategy that upgrades all clusters one after the other, and tolerates the
// given number of failures.
func oneByOne(failures int) stages.Strategy {
	budget := intstr.FromInt32(int32(failures))
	return stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: new(intstr.FromInt32(1)), MaxFailures: &budget,
	}}}
}

func (r *env) create(name string, s stages.Strategy) {
	r.t.Helper()
	if _, err := r.e.CreateRun(r.t.Context(), fleet.RunSpec{Name: name, Placement: "prod", Strategy: s}); err != nil {
		r.t.Fatal(err)
	}
}

// until waits until a run is in a state.
func (r *env) until(run string, want stages.State) fleet.Status {
	r.t.Helper()
	var s fleet.Status
	for range 24 * 60 {
		var err error
		if s, err = r.e.Run(run).Status(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		if s.Run.State == want {
			return s
		}
		time.Sleep(10 * time.Second)
	}
	r.t.Fatalf("run %s is %s (%s), want %s", run, s.Run.State, s.Run.Reason, want)
	return s
}

// ended returns the final states of the clusters of a run.
func ended(s fleet.Status) map[string]stages.State {
	out := map[string]stages.State{}
	for pos, state := range s.Run.States(s.Plan) {
		out[s.Plan.Clusters[pos].Name] = state
	}
	return out
}

func (r *env) command(run string, c stages.Command) {
	r.t.Helper()
	if err := r.e.Run(run).Command(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *env) reason(run, cluster string) string {
	r.t.Helper()
	x, err := r.e.Run(run).Explain(r.t.Context(), cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	return x.Reason
}

// upgraded returns the state of a cluster after a full upgrade with an image.
func upgraded(image string) []string { return []string{"1.30.2", "1.30.2 " + image, "1.30.2 " + image} }

func (r *env) wantHas(cluster string, want []string) {
	r.t.Helper()
	c := clusterOf(r.t, r.p, cluster)
	if d := cmp.Diff(want, has(&c)); d != "" {
		r.t.Errorf("cluster %s (-want +got):\n%s", cluster, d)
	}
}

// records returns the keys of the store.
func (r *env) records() (out []string) {
	r.t.Helper()
	for rec, err := range r.store.List(r.t.Context(), "") {
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, rec.Key)
	}
	return out
}
