package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// A summary of a run agrees with its status and its plan.
func TestSummaryAgreesWithStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clusters = 150
		w := newSmallEnv(t, clusters)
		e := w.newEngine(fleet.Config{Name: "engine"})
		w.declare(e, smallPlacement("b"))
		w.declare(e, smallPlacement("a"))
		defer running(t, e)()
		for i := 0; i < clusters; i += 2 { // more failures than a record holds itself
			w.refusing(fmt.Sprintf("c%02d", i), true)
		}
		failing := allAtOnce(clusters)
		failing.Attempts, failing.Name = 1, "all-at-once"
		failing.Stages[0].MaxFailures = new(intstr.FromInt32(clusters))
		w.create(e, fleet.RunSpec{Name: "run-2", Placement: "a", Strategy: failing})
		if _, err := e.Run("run-2").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "run-1", Placement: "a", Strategy: failing, Hold: true, Title: "a title"})
		w.create(e, fleet.RunSpec{Name: "run-3", Placement: "b", Strategy: failing, Hold: true})
		settle()
		got, err := e.Runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range got {
			names = append(names, s.Name)
			status, err := e.Run(s.Name).Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			count := map[stages.State]int{}
			for _, state := range status.Run.States(status.Plan) {
				count[state]++
			}
			r := &status.Run
			want := fleet.RunSummary{
				Name: r.Name, UID: r.UID, Placement: r.Placement, Strategy: "all-at-once", Title: status.Title, State: r.State, Hold: r.Hold, Reason: r.Reason, Stage: s.Stage,
				Index: status.Plan.Index, Clusters: clusters, Completed: count[stages.Completed], Failed: count[stages.Failed], Skipped: count[stages.Skipped],
				Created: r.Created.Time(), Started: r.Started.Time(), Ended: r.Ended.Time(), Holder: status.Holder,
			}
			if s != want {
				t.Errorf("%s:\n got %+v\nwant %+v", s.Name, s, want)
			}
			if r.Form(runstate.Key{}).Stage < len(status.Plan.Stages) && s.Stage != status.Plan.Stages[r.Form(runstate.Key{}).Stage].Name {
				t.Errorf("%s: stage %q", s.Name, s.Stage)
			}
		}
		if !slices.Equal(names, []string{"run-2", "run-1", "run-3"}) {
			t.Errorf("runs %v", names)
		}
		if got[0].Failed != clusters/2 {
			t.Errorf("run-2: %+v", got[0])
		}
		one, err := e.Placement("b").Runs(t.Context())
		if err != nil || len(one) != 1 || one[0].Name != "run-3" {
			t.Errorf("of placement b: %+v, %v", one, err)
		}
		if _, err := e.Placement("other").Runs(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("of a placement that is not there: %v", err)
		}
		edit(t, w.store, "run/run-1", damage)
		got, err = e.Placement("a").Runs(t.Context())
		if err != nil || len(got) != 2 || !strings.Contains(got[1].Problem, "run/run-1") || got[1].Name != "run-1" || got[1].Placement != "a" || got[0].Problem != "" {
			t.Errorf("a damaged record: %+v, %v", got, err)
		}
	})
}
