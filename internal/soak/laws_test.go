package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

func newTestEnvironment(t *testing.T) *environment {
	t.Helper()
	w := newEnvironment(setup{dir: t.TempDir(), engines: 1})
	if err := w.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// newTestPlan is the plan of the story.
func newTestPlan(t *testing.T) *stages.Plan {
	t.Helper()
	var clusters []placement.Cluster
	for _, r := range storyClusters() {
		clusters = append(clusters, placement.Cluster{Name: r.Name, Labels: r.Labels})
	}
	p, err := stages.NewPlan(threeStages(), stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// told are events of a run that break no law.
func told() []stages.Event {
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
		{Type: stages.ApprovalRequested, Stage: "s1", Request: "r-s1", Attempt: 1},
		{Type: stages.ApprovalGiven, Stage: "s1", Request: "r-s1", Attempt: 1, By: ann},
		{Type: stages.ApprovalAccepted, Stage: "s1", Request: "r-s1", Attempt: 1, By: bob},
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
	h := newHistory("r", p)
	for _, ev := range events {
		out = append(out, h.take(ev)...)
	}
	return out
}

// Each law about events refuses a history in which it is broken.
func TestABrokenHistoryIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	if out := problemsOf(p, told()); len(out) > 0 {
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
		if out := strings.Join(problemsOf(p, broken(told())), "\n"); !strings.Contains(out, name) {
			t.Errorf("want a violation with %q, have %q", name, out)
		}
	}
}

// Each law about the state of a run refuses one in which it is broken.
func TestABrokenStateIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	now := time.Unix(1000, 0)
	good := stages.Step(p, stages.NewRun(p, "r", "uid", approval.Identity{Name: olga}, false, now), stages.Input{Now: now}).Run
	if out := stateProblems(p, &good, &good); len(out) > 0 || len(good.InFlight) != 3 {
		t.Fatal(out, good.InFlight)
	}
	decision := func(by string) approval.Decision {
		return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: by}, Binding: approval.Binding{RunUID: "uid", Stage: "s1", When: approval.After, Attempt: 1, Plan: p.Digest}}
	}
	gate := func(d ...approval.Decision) func(*stages.Run) {
		return func(r *stages.Run) {
			r.Stages[0].Gates = []stages.Gate{{When: approval.After, Type: stages.Approval, State: stages.Completed, Attempt: 1, Decisions: d}}
		}
	}
	other := decision(bob)
	other.Binding.Plan = "another"
	for name, broken := range map[string]func(*stages.Run){
		"4 clusters of stage s1 are in flight": func(r *stages.Run) { r.InFlight = append(r.InFlight, stages.InFlight{Pos: 3, Attempt: 1}) },
		"while the run is in stage 0":          func(r *stages.Run) { r.InFlight[0].Pos = 12 },
		"let pass by 1 approvals":              gate(decision(ann)),
		"decided twice":                        gate(decision(ann), decision(ann)),
		"is bound to":                          gate(decision(ann), other),
		"the starter olga decided":             gate(decision(ann), decision(olga)),
		"went back":                            func(r *stages.Run) { r.Now-- },
		"went on past its TimedWait After":     func(r *stages.Run) { r.Stages[0].Ended = r.Now },
	} {
		bad := good
		bad.InFlight, bad.Stages = slices.Clone(good.InFlight), slices.Clone(good.Stages)
		broken(&bad)
		if out := strings.Join(stateProblems(p, &good, &bad), "\n"); !strings.Contains(out, name) {
			t.Errorf("want a violation with %q, have %q", name, out)
		}
	}
	passed, ended := good, good
	passed.Stages, ended.State = slices.Clone(good.Stages), stages.Aborted
	gate(decision(ann), decision(bob))(&passed)
	if out := strings.Join(progressProblems(p, &passed, &good), ""); !strings.Contains(out, "was passed and is no more") {
		t.Error(out)
	}
	if out := strings.Join(progressProblems(p, &ended, &good), ""); !strings.Contains(out, "it was Aborted and is Running") {
		t.Error(out)
	}
}

// A member that has what its plan does not name, or was touched before the gate
// of its stage, is a violation.
func TestAMemberThatWasTouchedTooEarlyIsAViolation(t *testing.T) {
	t.Parallel()
	p := newTestPlan(t)
	now := time.Unix(1000, 0)
	r := stages.Step(p, stages.NewRun(p, "r", "uid", approval.Identity{Name: olga}, false, now), stages.Input{Now: now}).Run
	for _, c := range []struct {
		cluster, revision, want string
	}{
		{"s1-00", "rev", ""}, {"s1-00", "other", "whose plan names"}, {"s2-00", "rev", "before stage s1 had ended"}, {"s9-00", "rev", "does not have it"},
	} {
		got := memberProblem(p, &r, c.cluster, ledger{Revision: c.revision})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s at %s: %q, want %q", c.cluster, c.revision, got, c.want)
		}
	}
}

// An object that is changed twice by one attempt is a violation, also when the
// process was another one in between.
func TestAnObjectChangedTwiceIsAViolation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, value := range []string{"one", "two"} {
		w := newEnvironment(setup{dir: dir})
		if err := w.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.settle(t.Context(), []resident{{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		changeMember(t, w, value)
		if err := w.twice(t.Context()); err != nil {
			t.Fatal(err)
		}
		if broken := w.laws.err() != nil; broken != (i == 1) {
			t.Errorf("after %s: %v", value, w.laws.err())
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// changeMember applies a setting as attempt 1 of a run, which is in the ledger.
func changeMember(t *testing.T, w *environment, value string) {
	t.Helper()
	c, err := w.dialer().Dial(t.Context(), placement.Cluster{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	meta := func(o map[string]any) map[string]any { return map[string]any{"metadata": o} }
	for _, obj := range []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "name": ledgerNamespace},
		{"apiVersion": "v1", "kind": "ConfigMap", "namespace": ledgerNamespace, "name": "web", "data": map[string]any{"ledger": `{"runUID":"uid","run":"r","attempt":1}`}},
	} {
		full := meta(map[string]any{"name": obj["name"]})
		if ns, ok := obj["namespace"]; ok {
			full = meta(map[string]any{"name": obj["name"], "namespace": ns})
			full["data"] = obj["data"]
		}
		full["apiVersion"], full["kind"] = obj["apiVersion"], obj["kind"]
		apply(t, c, &unstructured.Unstructured{Object: full})
	}
	apply(t, c, setting("web", value))
	apply(t, c, setting("web", value)) // what changes nothing does not count
}

func apply(t *testing.T, c backend.Conn, obj *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "slipway/web"}); err != nil {
		t.Fatal(err)
	}
}
