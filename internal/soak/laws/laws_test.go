package laws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// The people of the tests: olga starts the run, ann and bob approve.
const (
	olga = "olga"
	ann  = "ann"
	bob  = "bob"
)

// newTestPlan is three stages of ten clusters each, three at a time, with approvals by two people
// after the first two.
func newTestPlan(t *testing.T) *stages.Plan {
	t.Helper()
	three, policy := intstr.FromInt32(3), approval.Policy{Quorums: []approval.Quorum{{Count: 2}}, ForbidStarter: true}
	var clusters []placement.Cluster
	s := stages.Strategy{Name: "long"}
	for i := range 3 {
		n := fmt.Sprint(i + 1)
		st := stages.Stage{Name: "s" + n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": n}}, MaxConcurrency: &three}
		if i == 0 {
			st.After = append(st.After, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Second}})
		}
		if i < 2 {
			st.After = append(st.After, stages.Task{Type: stages.Approval, Approval: &policy})
		}
		s.Stages = append(s.Stages, st)
		for c := range 10 {
			clusters = append(clusters, placement.Cluster{Name: fmt.Sprintf("s%s-%02d", n, c), Labels: map[string]string{"stage": n}})
		}
	}
	p, err := planner.Plan(s, stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// goodEvents are events of a run that break no law.
func goodEvents() []stages.Event {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	out := []stages.Event{
		{Type: stages.RunTaken, Epoch: 1},
		{Type: stages.RunStarted},
		{Type: stages.StageStarted, Stage: "s1"},
		{Type: stages.ClusterStarted, Stage: "s1", Cluster: "s1-00", Attempt: 1},
		{Type: stages.ClusterStarted, Stage: "s1", Cluster: "s1-01", Attempt: 1},
		{Type: stages.ClusterStarted, Stage: "s1", Cluster: "s1-02", Attempt: 1},
		{Type: stages.ClusterCompleted, Stage: "s1", Cluster: "s1-00", Attempt: 1},
		{Type: stages.WaitStarted, Stage: "s1", Until: at(10)},
		{Type: stages.WaitEnded, Stage: "s1"},
		{Type: stages.ApprovalRequested, Stage: "s1", Request: "r-after-s1", Attempt: 1},
		{Type: stages.ApprovalGiven, Stage: "s1", Request: "r-after-s1", Attempt: 1, By: ann},
		{Type: stages.ApprovalAccepted, Stage: "s1", Request: "r-after-s1", Attempt: 1, By: bob},
		{Type: stages.StageCompleted, Stage: "s1"},
		{Type: stages.RunStopping},
		{Type: stages.RunStopped},
		{Type: stages.RunResumed},
		{Type: stages.StageStarted, Stage: "s2"},
		{Type: stages.ClusterStarted, Stage: "s2", Cluster: "s2-00", Attempt: 1},
		{Type: stages.RunCompleted},
	}
	for i := range out {
		out[i].Time = at(2 + i)
	}
	return out
}

func problemsOf(p *stages.Plan, events []stages.Event) (out []string) {
	h := NewHistory("r", p)
	for _, ev := range events {
		out = append(out, h.Take(ev)...)
	}
	return out
}

// Each law about events refuses a history that violates it.
func TestABrokenHistoryIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	if out := problemsOf(p, goodEvents()); len(out) > 0 {
		t.Fatal(out)
	}
	type list = []stages.Event
	is := func(typ stages.EventType) func(stages.Event) bool {
		return func(e stages.Event) bool { return e.Type == typ }
	}
	after := func(l list, typ stages.EventType, more ...stages.Event) list {
		return slices.Insert(l, slices.IndexFunc(l, is(typ))+1, more...)
	}
	started := func(c string) stages.Event {
		return stages.Event{Type: stages.ClusterStarted, Stage: c[:2], Cluster: c, Attempt: 1}
	}
	for name, broken := range map[string]func(list) list{
		"has not ended":   func(l list) list { return slices.DeleteFunc(l, is(stages.StageCompleted)) },
		"comes again":     func(l list) list { return after(l, stages.ClusterCompleted, started("s1-01")) },
		"are in flight":   func(l list) list { return after(l, stages.WaitStarted, started("s1-03"), started("s1-04")) },
		"is RunStopping":  func(l list) list { return after(l, stages.RunStopping, started("s1-07")) },
		"is RunStopped":   func(l list) list { return slices.DeleteFunc(l, is(stages.RunResumed)) },
		"it was to last":  func(l list) list { l[slices.IndexFunc(l, is(stages.WaitEnded))].Time = time.Unix(9, 0); return l },
		"approved before": func(l list) list { l[slices.IndexFunc(l, is(stages.ApprovalAccepted))].By = ann; return l },
		"epoch 1 after 1": func(l list) list { return append(l, stages.Event{Type: stages.RunTaken, Epoch: 1}) },
		"after RunComple": func(l list) list { return append(l, started("s2-01")) },
		"goes back from":  func(l list) list { l[5].Time = time.Unix(1, 0); return l },
		"no such cluster": func(l list) list { return after(l, stages.RunResumed, started("s2-99")) },
	} {
		if out := strings.Join(problemsOf(p, broken(goodEvents())), "\n"); !strings.Contains(out, name) {
			t.Errorf("want a violation with %q, have %q", name, out)
		}
	}
}

// Each law about the state of a run refuses a state that violates it.
func TestABrokenStateIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	now := time.Unix(1000, 0)
	good := step.Step(p, step.NewRun(p, "r", "uid", approval.Identity{Name: olga}, false, now), stages.Input{Now: now}).Run
	if out := StateProblems(p, &good, &good); len(out) > 0 || len(good.Form(runstate.Key{}).InFlight) != 3 {
		t.Fatal(out, good.Form(runstate.Key{}).InFlight)
	}
	decision := func(by string) approval.Decision {
		return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: by}, Binding: approval.Binding{RunUID: "uid", Stage: "s1", When: approval.After, Attempt: 1, Plan: p.Digest}}
	}
	gate := func(d ...approval.Decision) func(*step.Run) {
		return func(r *step.Run) {
			r.Form(runstate.Key{}).Stages[0].Gates = []runstate.Gate{{When: approval.After, Type: stages.Approval, State: stages.Completed, Attempt: 1, Decisions: d}}
		}
	}
	other := decision(bob)
	other.Binding.Plan = "another"
	for name, broken := range map[string]func(*step.Run){
		"4 clusters of stage s1 are in flight": func(r *step.Run) {
			r.Form(runstate.Key{}).InFlight = append(r.Form(runstate.Key{}).InFlight, runstate.InFlight{Pos: 3, Attempt: 1})
		},
		"while the run is in stage 0":      func(r *step.Run) { r.Form(runstate.Key{}).InFlight[0].Pos = 12 },
		"let pass by 1 approvals":          gate(decision(ann)),
		"decided twice":                    gate(decision(ann), decision(ann)),
		"is bound to":                      gate(decision(ann), other),
		"the starter olga decided":         gate(decision(ann), decision(olga)),
		"went back":                        func(r *step.Run) { r.Now-- },
		"went on past its TimedWait After": func(r *step.Run) { r.Form(runstate.Key{}).Stages[0].Ended = r.Now },
	} {
		bad := good
		bad.Form(runstate.Key{}).InFlight, bad.Form(runstate.Key{}).Stages = slices.Clone(good.Form(runstate.Key{}).InFlight), slices.Clone(good.Form(runstate.Key{}).Stages)
		broken(&bad)
		if out := strings.Join(StateProblems(p, &good, &bad), "\n"); !strings.Contains(out, name) {
			t.Errorf("want a violation with %q, have %q", name, out)
		}
	}
	passed, ended := good, good
	passed.Form(runstate.Key{}).Stages, ended.State = slices.Clone(good.Form(runstate.Key{}).Stages), stages.Aborted
	gate(decision(ann), decision(bob))(&passed)
	if out := strings.Join(progressProblems(p, &passed, &good), ""); !strings.Contains(out, "was passed and is no more") {
		t.Error(out)
	}
	if out := strings.Join(progressProblems(p, &ended, &good), ""); !strings.Contains(out, "it was Aborted and is Running") {
		t.Error(out)
	}
}

// A member is a violation if its content is not in its plan, or if it changed before the gate of
// its stage.
func TestAMemberThatWasChangedTooEarlyIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	now := time.Unix(1000, 0)
	r := step.Step(p, step.NewRun(p, "r", "uid", approval.Identity{Name: olga}, false, now), stages.Input{Now: now}).Run
	for _, c := range []struct {
		cluster, revision, want string
	}{
		{"s1-00", "rev", ""}, {"s1-00", "other", "whose plan names"}, {"s2-00", "rev", "before stage s1 had ended"}, {"s9-00", "rev", "does not have it"},
	} {
		got := MemberProblem(p, &r, c.cluster, c.revision)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s at %s: %q, want %q", c.cluster, c.revision, got, c.want)
		}
	}
}
