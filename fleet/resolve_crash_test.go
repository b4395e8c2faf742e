package fleet_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// ranked returns an environment of clusters a to e, of which a has the most nodes.
func ranked(t *testing.T) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "value"))
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.fleet.Add(placement.Cluster{Name: name})
	}
	w.rank("a", "b", "c", "d", "e")
	return w
}

// rank gives the clusters nodes, the first one the most.
func (w *engineEnv) rank(names ...string) {
	for i, name := range names {
		w.fleet.Report(name, func(c *placement.Cluster) {
			c.Properties = map[string]resource.Quantity{"nodes": *resource.NewQuantity(int64(100-i), resource.DecimalSI)}
		})
	}
}

// most returns a placement on the n clusters with the most nodes.
func most(n int) fleet.Placement {
	p := web()
	p.Policy = policyOf([]string{"prefer=nodes"})
	p.Policy.Type, p.Policy.NumberOfClusters = placement.PickN, &n
	return p
}

func toAll(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: "web", Strategy: stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}}
}

// bringsTo returns the clusters that a run updates.
func bringsTo(s fleet.Status) (out []string) {
	for _, c := range s.Plan.Clusters {
		if c.Revision >= 0 {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Whichever write of a run's creation is the last of a process, the planned clusters of the run
// stay picked, even if other clusters have become better since.
func TestPickNSurvivesACrash(t *testing.T) {
	for n, done := 1, false; !done; n += apart(3) {
		synctest.Test(t, func(t *testing.T) {
			w, ctx := ranked(t), t.Context()
			plan := faulty.NewPlan(faulty.CrashAfter(n))
			dies := w.engine(plan.Store(w.store), "dies")
			_ = dies.PutPlacement(ctx, most(2))
			_, _ = dies.CreateRun(ctx, toAll("first"))
			done = !plan.Crashed()
			w.rank("e", "d", "c", "b", "a")
			e := w.engine(w.store, "lives")
			defer running(t, e)()
			w.declare(e, most(2))
			if _, err := e.Run("first").Status(ctx); err != nil {
				must(e.CreateRun(ctx, toAll("first")))(t)
			}
			first := bringsTo(endOf(t, e, "first"))
			w.rank("b", "c", "d", "e", "a")
			w.declare(e, most(4))
			second := bringsTo(must(e.CreateRun(ctx, toAll("second")))(t))
			for _, c := range first {
				if !slices.Contains(second, c) {
					t.Errorf("crash after write %d: %v was picked, and then %v", n, first, second)
				}
			}
			if d := must(viewOf(t, e, "web").Selection(ctx))(t); len(first) != 2 || !slices.Equal(d.Clusters, second) {
				t.Errorf("crash after write %d: %v, %v, and the selection is %v", n, first, second, d.Clusters)
			}
		})
	}
}

// The same for a catch-up run, whose plan does not list the other picked clusters, and with a
// collection in between.
func TestACatchUpOfPickNSurvivesACrash(t *testing.T) {
	for n, done := 1, false; !done; n++ {
		synctest.Test(t, func(t *testing.T) {
			w, ctx := ranked(t), t.Context()
			e := w.engine(w.store, "lives")
			stop := running(t, e)
			defer func() { stop() }()
			w.declare(e, most(2))
			spec := toAll("first")
			spec.Hold = true
			must(e.CreateRun(ctx, spec))(t)
			for _, spec.Name = range []string{"spare-0", "spare-1", "spare-2"} {
				must(e.CreateRun(ctx, spec))(t)
			}
			w.fleet.Remove("b")
			command(t, e, "first", stages.Start)
			endOf(t, e, "first")
			stop()
			plan := faulty.NewPlan(faulty.CrashAfter(n))
			catchUp := func(e *fleet.Engine) error {
				_, err := e.Run("first").CatchUp(context.WithoutCancel(ctx), "second", approval.Identity{})
				return err
			}
			_ = catchUp(w.engine(plan.Store(w.store), "dies"))
			done = !plan.Crashed()
			w.rank("e", "d", "c", "a")
			e = w.engine(w.store, "lives again")
			for _, spare := range []string{"spare-0", "spare-1", "spare-2"} { // each deletion collects garbage
				if err := e.Run(spare).Delete(ctx, forced); err != nil {
					t.Fatal(err)
				}
			}
			stop = running(t, e)
			if _, err := e.Run("second").Status(ctx); err != nil {
				if err := catchUp(e); err != nil {
					t.Fatal(err)
				}
			}
			second := bringsTo(endOf(t, e, "second"))
			want := append([]string{"a"}, second...)
			w.rank("d", "c", "e", "a")
			if d := must(e.Placement("web").Resolve(ctx))(t); len(second) != 1 || !slices.Equal(d.Clusters, want) {
				t.Errorf("crash after write %d: the run goes to %v, and %v are picked", n, second, d.Clusters)
			}
		})
	}
}
