package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func TestNewClustersAreThoseThatNoRunWasToUpdate(t *testing.T) {
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
