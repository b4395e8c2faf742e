package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// heldPlan updates five clusters and then cleans two.
func heldPlan(t *testing.T) *stages.Plan {
	t.Helper()
	p, err := planner.Plan(
		stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
		stages.Target{Placement: "p", Index: 7, Snapshot: "snapshot", Selection: "selection", Default: "rev", Remove: map[string]string{"leaver": "", "stuck": ""}},
		[]placement.Cluster{{Name: "done"}, {Name: "failed"}, {Name: "flying"}, {Name: "gone"}, {Name: "unreached"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// heldRun returns a run that has reached all clusters of the first stage except the last.
func heldRun(p *stages.Plan) *step.Run {
	r := &step.Run{UID: "uid", Placement: p.Placement, Plan: p.Digest, State: stages.Running, Started: 1}
	*r.Form(runstate.Key{}) = runstate.Form{
		Stages: []runstate.StageRun{
			{State: stages.Running, Reached: 1, Started: 1, Groups: []runstate.GroupRun{{Next: 4, Completed: 1, Failed: 1, Skipped: 1}}},
			{State: stages.NotStarted},
		},
		InFlight: []runstate.InFlight{{Pos: 2, Attempt: 1, Phase: stages.Applying}},
		Unsuccessful: []runstate.Unsuccessful{
			{First: 1, Last: 1, State: stages.Failed},
			{First: 3, Last: 3, State: stages.Skipped, Gone: true},
		},
	}
	return r
}

// cleanedRun returns a run that has reached all clusters; the last one failed.
func cleanedRun(p *stages.Plan) *step.Run {
	ended := func(completed, failed int) runstate.StageRun {
		return runstate.StageRun{State: stages.Completed, Reached: 1, Started: 1, Ended: 1, Groups: []runstate.GroupRun{{
			Next: completed + failed, Completed: completed, Failed: failed, Reached: 1, Done: 1, Ended: 1,
		}}}
	}
	r := &step.Run{UID: "uid", Placement: p.Placement, Plan: p.Digest, State: stages.Completed, Started: 1}
	*r.Form(runstate.Key{}) = runstate.Form{
		Stage: 2, Stages: []runstate.StageRun{ended(5, 0), ended(1, 1)},
		Unsuccessful: []runstate.Unsuccessful{{First: 6, Last: 6, State: stages.Failed}},
	}
	return r
}

func result(p *stages.Plan, r *step.Run) *Result {
	out := ResultOf(p, r)
	out.Policy = 4
	return &out
}

func heldBefore() Bindings {
	return Bindings{
		"done": {3, 5, "", 2, true}, "failed": {3, 5, "", 2, true}, "flying": {3, 5, "", 2, true}, "gone": {3, 5, "", 2, true}, "unreached": {3, 5, "", 2, true},
		"leaver": {3, 5, "", 2, true}, "stuck": {3, 5, "", 2, true}, "other": {2, 2, "", 1, false},
	}
}

// A cluster that a run began and skipped may have parts of its snapshot although nothing was
// reported as sent: a superseded run skips a cluster whose apply is under way. The binding
// of a cluster that the run never began does not change.
func TestASkippedClusterMayHaveParts(t *testing.T) {
	plan := heldPlan(t)
	r := heldRun(plan)
	form := r.Form(runstate.Key{})
	form.InFlight = nil
	form.Unsuccessful = []runstate.Unsuccessful{{First: 1, Last: 1, State: stages.Failed}, {First: 2, Last: 2, State: stages.Skipped, Attempts: 1}, {First: 3, Last: 3, State: stages.Skipped, Gone: true}}
	form.Stages[0].Groups[0].Skipped = 2
	if err := r.Check(plan); err != nil {
		t.Fatal(err)
	}
	held := heldBefore()
	if held.take(result(plan, r), nil); held["flying"] != (Binding{3, 7, "", 2, true}) {
		t.Errorf("the skipped cluster has %v", held["flying"])
	}
	form.Unsuccessful[1].Attempts = 0
	held = heldBefore()
	if held.take(result(plan, r), nil); held["flying"] != heldBefore()["flying"] {
		t.Errorf("the cluster that was never begun has %v", held["flying"])
	}
}

// After a run has ended, a cluster has the snapshot that the run proved; without a proof it may
// have the snapshot that the run tried, besides the earlier proven snapshot. The result of a
// deleted run is uncertain.
func TestPossibleContentsAfterARun(t *testing.T) {
	plan := heldPlan(t)
	held, cleaned := heldRun(plan), cleanedRun(plan)
	for _, run := range []*step.Run{held, cleaned} {
		if err := run.Check(plan); err != nil {
			t.Fatal(err)
		}
	}
	was, got, maybe := Binding{3, 5, "", 2, true}, Binding{7, 7, "rev", 4, false}, Binding{3, 7, "", 2, true}
	for what, c := range map[string]struct {
		do    func(Bindings) bool
		want  Bindings
		inUse []int
	}{
		"stopped in the first stage": {func(r Bindings) bool { return r.take(result(plan, held), nil) }, Bindings{
			"done": got, "failed": maybe, "flying": maybe, "gone": {None, None, "", 0, false}, "unreached": was,
			"leaver": was, "stuck": was, "other": {2, 2, "", 1, false},
		}, []int{2, 3, 5, 7}},
		"ended": {func(r Bindings) bool { return r.take(result(plan, cleaned), nil) }, Bindings{
			"done": got, "failed": got, "flying": got, "gone": got, "unreached": got,
			"stuck": was, "other": {2, 2, "", 1, false},
		}, []int{2, 3, 5, 7}},
		"ended, and another run is to update what it cleaned": {func(r Bindings) bool {
			return r.take(result(plan, cleaned), map[string]bool{"leaver": true})
		}, Bindings{
			"done": got, "failed": got, "flying": got, "gone": got, "unreached": got,
			"leaver": {None, None, "", 0, false}, "stuck": was, "other": {2, 2, "", 1, false},
		}, []int{2, 3, 5, 7}},
		"deleted": {func(r Bindings) bool { return r.markAttempted(result(plan, held)) }, Bindings{
			"done": maybe, "failed": maybe, "flying": maybe, "gone": maybe, "unreached": was,
			"leaver": was, "stuck": was, "other": {2, 2, "", 1, false},
		}, []int{2, 3, 5, 7}},
		"deleted, and its record cannot be read": {func(r Bindings) bool { return r.markAttempted(result(plan, nil)) }, Bindings{
			"done": maybe, "failed": maybe, "flying": maybe, "gone": maybe, "unreached": maybe,
			"leaver": was, "stuck": was, "other": {2, 2, "", 1, false},
		}, []int{2, 3, 5, 7}},
	} {
		r := heldBefore()
		if !c.do(r) {
			t.Errorf("%s: nothing is new", what)
		}
		if d := cmp.Diff(c.want, r); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
		if d := cmp.Diff(c.inUse, r.InUse()); d != "" {
			t.Errorf("%s: in use:\n%s", what, d)
		}
	}
	leaving := *plan
	leaving.Left = []string{"other", "unknown"}
	if r := heldBefore(); !r.take(result(&leaving, cleaned), nil) || r["other"] != (Binding{None, None, "", 0, false}) || len(r) != len(heldBefore())-1 {
		t.Errorf("a run that completed leaves %v", r)
	}
	if r := heldBefore(); !r.take(result(&leaving, held), nil) || r["other"] != (Binding{2, 2, "", 1, false}) {
		t.Errorf("a run that did not complete leaves %v", r)
	}
	r := Bindings{"done": {7, 7, "rev", 4, false}}
	quiet := heldRun(plan)
	quiet.Form(runstate.Key{}).Unsuccessful, quiet.Form(runstate.Key{}).InFlight = nil, nil
	quiet.Form(runstate.Key{}).Stages[0].Groups[0] = runstate.GroupRun{Next: 1, Completed: 1}
	if r.take(result(plan, quiet), nil) || len(r) != 1 {
		t.Errorf("a run that brought what there was changes the bindings: %v", r)
	}
	if r.markAllAttempted(8); r["done"] != (Binding{7, 8, "rev", 4, true}) {
		t.Errorf("in doubt: %v", r)
	}
}
