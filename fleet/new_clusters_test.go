package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// bringingUp brings up all clusters without objects at once, and updates the others one after the
// other.
func bringingUp(name string, index int) fleet.RunSpec {
	spec := specOf(name, index)
	spec.Strategy = stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Groups: []stages.Group{
		{Name: "new", New: true, MaxConcurrency: percent("100%")},
		{Name: "update", Selector: &metav1.LabelSelector{}},
	}}}}
	return spec
}

// newIn returns the clusters that are new in the plan of a run.
func newIn(s fleet.Status) string {
	var names []string
	for _, g := range s.Plan.Stages[0].Groups {
		for _, c := range s.Plan.Clusters[g.First : g.First+g.Len] {
			if g.New {
				names = append(names, c.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

// A cluster is new until the admission of a run that updates it, whether the run has begun with it
// or not. New clusters are brought up although one of them fails.
func TestNewClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(*fleet.Placement) {})
		w.capture(e, "v0")
		w.refusing("member1", true)
		if got, want := newIn(must(e.CreateRun(t.Context(), bringingUp("first", 0)))(t)), "member1 member2 member3"; got != want {
			t.Errorf("new are %q at first, want %q", got, want)
		}
		w.fleet.Add(placement.Cluster{Name: "member4"})
		if got := newIn(must(e.CreateRun(t.Context(), bringingUp("second", 0)))(t)); got != "member4" {
			t.Errorf("new are %q behind a run that has not begun, want member4", got)
		}
		defer running(t, e)()
		quiet()
		for _, cluster := range []string{"member2", "member3"} {
			if got := w.value(cluster); got != "v0" {
				t.Errorf("%s holds %q", cluster, got)
			}
		}
		w.refusing("member1", false)
		if s := endOf(t, e, "second"); s.Run.State != stages.Completed {
			t.Fatalf("second is %s", s.Run.State)
		}
		if got := newIn(must(e.CreateRun(t.Context(), bringingUp("third", 0)))(t)); got != "" {
			t.Errorf("new are %q at the end", got)
		}
		endOf(t, e, "third")
		w.fleet.Add(placement.Cluster{Name: "member5"})
		if got := newIn(must(e.Run("third").CatchUp(t.Context(), "late", approval.Identity{Name: "ann"}))(t)); got != "member5" {
			t.Errorf("new are %q in the run that catches up, want member5", got)
		}
	})
}

// unprovenFirst updates all clusters one after the other, the unproven ones first.
func unprovenFirst(name string, index int) fleet.RunSpec {
	spec := specOf(name, index)
	spec.Strategy = stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Groups: []stages.Group{
		{Name: "update", Selector: &metav1.LabelSelector{}, UnprovenFirst: true},
	}}}}
	return spec
}

// orderIn returns the clusters of a plan in its order.
func orderIn(s fleet.Status) string {
	var names []string
	for _, c := range s.Plan.Clusters {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// A cluster that a run changed and did not prove is the first of the next plan that begins with
// unproven clusters, while that run is under way and after it has ended. A proof ends that.
func TestUnprovenClustersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(*fleet.Placement) {})
		w.capture(e, "v0")
		defer running(t, e)()
		create := func(name string, index int, want string) {
			t.Helper()
			if got := orderIn(must(e.CreateRun(t.Context(), unprovenFirst(name, index)))(t)); got != want {
				t.Errorf("%s has the clusters %q, want %q", name, got, want)
			}
		}
		abort := func(name string) {
			t.Helper()
			if err := e.Run(name).Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
				t.Fatal(err)
			}
			endOf(t, e, name)
		}
		create("complete", 0, "member1 member2 member3")
		endOf(t, e, "complete")
		w.capture(e, "v1")
		w.fleet.Cluster("member2").Refuse(func(*unstructured.Unstructured) error { return errors.New("not admitted") })
		create("stuck", 1, "member1 member2 member3")
		quiet()
		create("behind", 1, "member2 member1 member3")
		abort("behind")
		abort("stuck")
		create("after", 1, "member2 member1 member3")
		quiet()
		abort("after")
		create("again", 1, "member2 member1 member3") // it had this snapshot already
		w.fleet.Cluster("member2").Refuse(nil)
		endOf(t, e, "again")
		create("last", 1, "member1 member2 member3")
	})
}

// While an unproven cluster cannot be reached, its slot is kept: no other cluster is changed.
func TestAnUnreachableUnprovenClusterKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(*fleet.Placement) {})
		w.capture(e, "v0")
		defer running(t, e)()
		must(e.CreateRun(t.Context(), unprovenFirst("complete", 0)))(t)
		endOf(t, e, "complete")
		w.capture(e, "v1")
		w.fleet.Cluster("member1").Refuse(func(*unstructured.Unstructured) error { return errors.New("not admitted") })
		must(e.CreateRun(t.Context(), unprovenFirst("stuck", 1)))(t)
		quiet()
		w.fleet.SetDown("member1", true)
		w.capture(e, "v2")
		if err := e.Run("stuck").Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		endOf(t, e, "stuck")
		must(e.CreateRun(t.Context(), unprovenFirst("next", 2)))(t)
		quiet()
		if got := w.value("member2"); got != "v0" {
			t.Errorf("member2 holds %q while member1, which may be unavailable, cannot be reached", got)
		}
		x, err := e.Run("next").Explain(t.Context(), "member2")
		if err != nil || !strings.Contains(x.Reason, "keeps 1 of its slots") {
			t.Errorf("the reason of member2 is %q, %v", x.Reason, err)
		}
		w.fleet.SetDown("member1", false)
		w.fleet.Cluster("member1").Refuse(nil)
		if s := endOf(t, e, "next"); s.Run.State != stages.Completed {
			t.Fatalf("next is %s: %s", s.Run.State, s.Run.Reason)
		}
		if got := w.value("member2"); got != "v2" {
			t.Errorf("member2 holds %q at the end", got)
		}
	})
}
