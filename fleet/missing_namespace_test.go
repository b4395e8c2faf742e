package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// An object whose namespace is not selected causes a warning of the plan. If a cluster does not
// have the namespace either, the cluster's message names it, and the run continues after it exists.
func TestANamespaceThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) {
			p.Selectors = []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}}
		})
		spec := fleet.RunSpec{Name: "r", Placement: ep, Strategy: oneStage()}
		want := []string{"namespace test-namespace of ConfigMap.v1 test-namespace/test-cm is not selected: a cluster without it cannot be updated; select Namespace test-namespace too, unless something else creates it"}
		if diff := cmp.Diff(want, must(e.Preview(t.Context(), spec))(t).Plan.Warnings); diff != "" {
			t.Errorf("preview: %s", diff)
		}
		if diff := cmp.Diff(want, must(e.CreateRun(t.Context(), spec))(t).Plan.Warnings); diff != "" {
			t.Errorf("run: %s", diff)
		}
		defer running(t, e)()
		time.Sleep(time.Minute)
		x := must(e.Run("r").Explain(t.Context(), "member1"))(t)
		if len(x.Waiting) != 1 || !strings.Contains(x.Waiting[0].Message, "namespace test-namespace is missing on the cluster: select it too, or create it there") {
			t.Errorf("%+v", x)
		} else if attempt := x.Waiting[0].Message; strings.Contains(attempt, "tried again after 1m") {
			t.Errorf("it is tried again after the longest wait: %s", attempt)
		}
		for _, name := range []string{"member1", "member2", "member3"} {
			if err := w.fleet.Cluster(name).Update(namespace("test-namespace")); err != nil {
				t.Fatal(err)
			}
		}
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Errorf("the run is %s", s.Run.State)
		}
	})
	w, e := declared(t, nil)
	w.capture(e, "v")
	if p := must(e.Preview(t.Context(), fleet.RunSpec{Placement: ep, Strategy: oneStage()}))(t).Plan; len(p.Warnings) > 0 {
		t.Errorf("with its namespace: %q", p.Warnings)
	}
}
