package fleet_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// tolerant updates all clusters at once, and tolerates failures of all of them.
func tolerant(name string, index int) fleet.RunSpec {
	spec := specOf(name, index)
	spec.Strategy.Attempts = 1
	spec.Strategy.Stages[0].MaxConcurrency = percent("100%")
	spec.Strategy.Stages[0].MaxFailures = percent("100%")
	return spec
}

func names(s fleet.Status) (out []string) {
	for _, c := range s.Plan.Clusters {
		out = append(out, c.Name)
	}
	return out
}

// A catch-up run updates the clusters that failed, were skipped or joined, and no other cluster. It
// brings them the same content as the first run, although the source and the overrides have changed
// since.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "frozen")} })
		defer running(t, e)()
		ctx := t.Context()
		w.capture(e, "v0")
		w.fleet.Cluster("member1").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		spec := tolerant("first", 0)
		spec.Hold = true
		create(t, e, spec)
		if err := e.Run("first").Command(ctx, stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "member2"}); err != nil {
			t.Fatal(err)
		}
		quiet()
		refused(t, w.store, "catching up with a run that has not ended", func() error {
			_, err := e.Run("first").CatchUp(ctx, "early", approval.Identity{Name: "ann"})
			return err
		}, "run first has not ended")
		quiet()
		command(t, e, "first", stages.Start)
		first := endOf(t, e, "first")
		w.fleet.Cluster("member1").Refuse(nil)
		w.fleet.Add(placement.Cluster{Name: "member4", Labels: map[string]string{"environment": "canary"}})
		w.fleet.Add(placement.Cluster{Name: "member5", Labels: map[string]string{"environment": "staging"}})
		w.capture(e, "v1")
		if err := e.PutPlacement(ctx, tutorialPlacement()); err != nil { // without the override
			t.Fatal(err)
		}
		for what, try := range map[string]func() error{
			"run missing does not exist":     func() error { _, err := e.Run("missing").CatchUp(ctx, "c", approval.Identity{}); return err },
			"run first exists already":       func() error { _, err := e.Run("first").CatchUp(ctx, "first", approval.Identity{}); return err },
			"a lowercase RFC 1123 subdomain": func() error { _, err := e.Run("first").CatchUp(ctx, "No Name", approval.Identity{}); return err },
		} {
			refused(t, w.store, what, try, what)
		}
		s := must(e.Run("first").CatchUp(ctx, "second", approval.Identity{Name: "ann"}))(t)
		if d := cmp.Diff([]string{"member1", "member2", "member4", "member5"}, names(s)); d != "" {
			t.Errorf("clusters of the catch-up run:\n%s", d)
		}
		if s.Plan.Snapshot != first.Plan.Snapshot || s.Plan.Index != 0 || s.Run.Starter.Name != "ann" {
			t.Errorf("the target is another one: %+v", s.Plan)
		}
		if s := endOf(t, e, "second"); s.Run.State != stages.Completed {
			t.Fatalf("second is %s", s.Run.State)
		}
		for cluster, want := range map[string]string{"member1": "frozen", "member2": "v0", "member3": "frozen", "member4": "frozen", "member5": "v0"} {
			if got := w.value(cluster); got != want {
				t.Errorf("%s holds %s, want %s", cluster, got, want)
			}
		}
		ranTo(t, e, specOf("whole", 0), stages.Completed)
		err := refused(t, w.store, "nothing to catch up", func() error {
			_, err := e.Run("whole").CatchUp(ctx, "third", approval.Identity{})
			return err
		}, "run third, catching up with run whole", "no cluster failed, was skipped or joined")
		if errors.Is(err, backend.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A catch-up run needs the snapshot. If it was dropped, the error names the existing snapshots.
func TestCatchUpOfADroppedSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit = 1 })
		defer running(t, e)()
		w.capture(e, "v0")
		w.fleet.Cluster("member1").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		create(t, e, tolerant("first", 0))
		endOf(t, e, "first")
		w.fleet.Cluster("member1").Refuse(nil)
		for i, value := range []string{"v1", "v2", "v3"} {
			w.capture(e, value)
			ranTo(t, e, specOf("run-"+value, i+1), stages.Completed)
		}
		quiet()
		w.fleet.Add(placement.Cluster{Name: "member4"})
		refused(t, w.store, "a dropped snapshot", func() error {
			_, err := e.Run("first").CatchUp(t.Context(), "late", approval.Identity{})
			return err
		}, "example-placement-0-snapshot does not exist", "the indexes 2, 3")
	})
}

// The plan of a catch-up run has the selection that picked its clusters: the selection of the
// previous run if no cluster joined, and otherwise the newest.
func TestACatchUpHasTheDecisionOfItsClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		defer running(t, e)()
		w.capture(e, "v0")
		w.failsAt("member1", "v0")
		create(t, e, tolerant("first", 0))
		first := endOf(t, e, "first")
		catchUp := func(run, name string) (fleet.Status, string) {
			s := must(e.Run(run).CatchUp(t.Context(), name, approval.Identity{}))(t)
			endOf(t, e, name)
			return s, must(viewOf(t, e, ep).Selection(t.Context()))(t).Digest
		}
		if s, _ := catchUp("first", "missed"); s.Plan.Selection != first.Plan.Selection {
			t.Errorf("no cluster joined, and the selection is %s, not %s", s.Plan.Selection, first.Plan.Selection)
		}
		w.fleet.Add(placement.Cluster{Name: "member4"})
		s, newest := catchUp("first", "joined")
		if s.Plan.Selection == first.Plan.Selection || s.Plan.Selection != newest {
			t.Errorf("member4 joined, and the decision is %s; the newest is %s, that of the run before %s", s.Plan.Selection, newest, first.Plan.Selection)
		}
	})
}
