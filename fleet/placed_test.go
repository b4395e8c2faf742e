package fleet_test

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// placedOn yields the clusters of [fleet.PlacementView.Placed], or the error of an unreadable
// placement.
func placedOn(t testing.TB, e *fleet.Engine, name string) iter.Seq2[fleet.PlacedCluster, error] {
	return func(yield func(fleet.PlacedCluster, error) bool) {
		v, err := e.Placement(name).View(t.Context())
		if err != nil {
			yield(fleet.PlacedCluster{}, err)
			return
		}
		v.Placed(t.Context())(yield)
	}
}

// viewOf returns the current view of a placement.
func viewOf(t testing.TB, e *fleet.Engine, name string) *fleet.PlacementView {
	t.Helper()
	v, err := e.Placement(name).View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// irreversible returns the indexes of the snapshots that are marked.
func irreversible(t testing.TB, e *fleet.Engine, name string) []int {
	t.Helper()
	return viewOf(t, e, name).Irreversible()
}

// wantPlaced checks the snapshots of clusters. It ignores times and digests, but checks that they
// are set if a kept run brought the cluster anything.
func (w *engineEnv) wantPlaced(known bool, want ...fleet.PlacedCluster) {
	w.t.Helper()
	var got []fleet.PlacedCluster
	for c, err := range placedOn(w.t, w.newEngine(fleet.Config{Name: "observer"}), ep) {
		if err != nil {
			w.t.Fatal(err)
		}
		if has := c.Revision != "" && (!c.Since.IsZero() || c.Run != ""); c.Index >= 0 && has != known {
			w.t.Errorf("%s: what it got is known: %v, want %v: %+v", c.Name, has, known, c)
		}
		got = append(got, c)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(fleet.PlacedCluster{}, "UID", "Revision", "Since", "Policy")); d != "" {
		w.t.Errorf("placed (-want +got):\n%s", d)
	}
}

// The content of clusters is known during a run, after its end, and after it is forgotten.
func TestPlacedDuringAndAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.RunHistory = 1 })
		w.wantPlaced(true)
		w.capture(e, "v0")
		defer running(t, e)()
		ranTo(t, e, specOf("first", 0), stages.Completed)
		at := func(name string, index, tried int, run string, state stages.State) fleet.PlacedCluster {
			return fleet.PlacedCluster{Name: name, Index: index, Tried: tried, Run: run, State: state}
		}
		all0 := []fleet.PlacedCluster{at("member1", 0, 0, "", ""), at("member2", 0, 0, "", ""), at("member3", 0, 0, "", "")}
		w.wantPlaced(true, all0...)
		held := specOf("held", 0)
		held.Hold = true
		must(e.CreateRun(t.Context(), held))(t)
		w.wantPlaced(true, all0...)
		w.capture(e, "v1")
		w.fleet.Cluster("member2").Refuse(func(o *unstructured.Unstructured) error {
			if o.GetName() == "test-cm" {
				return errors.New("not admitted")
			}
			return nil
		})
		must(e.CreateRun(t.Context(), specOf("second", 1)))(t)
		time.Sleep(time.Minute)
		w.wantPlaced(true, at("member1", 1, 1, "second", stages.Completed), at("member2", 0, 1, "second", stages.Running), at("member3", 0, 0, "second", stages.NotStarted))
		w.fleet.Cluster("member2").Refuse(nil)
		endOf(t, e, "second")
		time.Sleep(time.Minute)
		all1 := []fleet.PlacedCluster{at("member1", 1, 1, "", ""), at("member2", 1, 1, "", ""), at("member3", 1, 1, "", "")}
		w.wantPlaced(true, all1...)
		if err := e.Run("second").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		w.wantPlaced(false, all1...)
	})
}

// A cleaned cluster has nothing from then on. A cluster that the run could not clean keeps its
// binding.
func TestPlacedAfterACleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		p := tutorialPlacement()
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member2"}}
		w.declare(e, p)
		w.fleet.Hang("member3", true)
		must(e.CreateRun(t.Context(), specOf("second", 0)))(t)
		time.Sleep(time.Minute)
		var names []string
		for c, err := range placedOn(t, e, ep) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Index >= 0 {
				names = append(names, c.Name)
			}
		}
		if d := cmp.Diff([]string{"member2", "member3"}, names); d != "" {
			t.Errorf("while it is cleaned:\n%s", d)
		}
		endOf(t, e, "second")
		time.Sleep(time.Minute)
		w.wantPlaced(true, fleet.PlacedCluster{Name: "member2"}, fleet.PlacedCluster{Name: "member3"})
	})
}

// The policy is that of the last run that proved a cluster's content, even after its record is
// deleted. A change of the number of clusters makes no new policy.
func TestPolicyOfTheLastProvenRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		policies := func() (out []int) {
			for c, err := range placedOn(t, e, ep) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, c.Policy)
			}
			return out
		}
		if d := cmp.Diff([]int{1, 1, 1}, policies()); d != "" {
			t.Error(d)
		}
		p := tutorialPlacement()
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member2", "member3"}}
		w.declare(e, p)
		must(e.Placement(ep).Resolve(t.Context()))(t)
		if d := cmp.Diff([]int{1, 1, 1}, policies()); d != "" {
			t.Errorf("before another run:\n%s", d)
		}
		w.fleet.Hang("member3", true)
		must(e.CreateRun(t.Context(), specOf("second", 0)))(t)
		time.Sleep(time.Minute)
		during := policies()
		w.fleet.Hang("member3", false)
		endOf(t, e, "second")
		time.Sleep(time.Minute)
		if err := e.Run("second").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]int{2, 2, 2}, policies()); d != "" || !slices.Contains(during, 2) {
			t.Errorf("during the run %v, after it:\n%s", during, d)
		}
	})
}

// The UID and the digest come from the plan that brought the cluster its content.
func TestPlacedHasUIDAndDigestOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		s := must(e.Run("first").Status(t.Context()))(t)
		for c, err := range placedOn(t, e, ep) {
			pos, ok := s.Plan.Position(c.Name)
			if err != nil || !ok || c.UID != s.Plan.Clusters[pos].UID || c.Revision != s.Plan.Revisions[0] || c.Since.After(s.Run.Ended.Time()) {
				t.Errorf("%+v, %v", c, err)
			}
		}
		for _, err := range placedOn(t, w.engine(w.store, "two"), "none") {
			if !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("of no placement: %v", err)
			}
		}
	})
}
