package step

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// play carries out directives of a script and returns the output of the last one.
func (w *scriptEnv) play(directives ...string) (out string) {
	for _, d := range directives {
		out = w.do(scriptBlock{directive: d})
	}
	return out
}

// azureEnv has two groups that wait at gates, a wait after their stage, and a second stage. Cluster
// a3 is skipped before anything else happens.
func azureEnv(t *testing.T) *scriptEnv {
	t.Helper()
	w := newScriptEnv()
	w.setClusters("a1 g=a\na2 g=a\na3 g=a\nb1 g=b\nb2 g=b\nc1 g=c\n")
	said := w.setStrategy(`
profile: ClusterUpdate
stages:
- name: one
  labelSelector: {matchExpressions: [{key: g, operator: In, values: [a, b]}]}
  groups:
  - name: a
    labelSelector: {matchLabels: {g: a}}
    beforeGroupTasks: [{type: Approval}, {type: ScheduledStart, schedule: {time: "02:00"}}]
  - name: b
    labelSelector: {matchLabels: {g: b}}
    beforeGroupTasks: [{type: Approval}]
  afterStageTasks: [{type: TimedWait, waitTime: 1h}]
- name: two
  labelSelector: {matchLabels: {g: c}}
`)
	if said += w.play("plan"); strings.Contains(said, "rror") {
		t.Fatal(said)
	}
	w.play("start hold", "skip cluster a3 by=eve")
	return w
}

// azureStates are directives that lead to each of the eight states of an Azure update run.
var azureStates = map[stages.State][]string{
	stages.NotStarted: nil,
	stages.Pending:    {"resume by=eve"},
	stages.Running:    {"resume by=eve", "approve one group=b when=Before"},
	stages.Stopping:   {"resume by=eve", "approve one group=b when=Before", "stop by=eve"},
	stages.Stopped:    {"resume by=eve", "approve one group=b when=Before", "stop by=eve", "observe b1 healthy"},
	stages.Failed:     {"resume by=eve", "approve one group=b when=Before", "observe b1 failed"},
	stages.Skipped:    {"skip stage one by=eve", "skip stage two by=eve", "resume by=eve"},
	stages.Completed: {
		"resume by=eve", "approve one group=b when=Before", "approve one group=a when=Before", "complete one/a by=eve", "auto wake",
	},
}

// azureCommands are all commands of an Azure update run.
var azureCommands = map[string]string{
	"start":               "resume by=ann",
	"stop":                "stop by=ann",
	"skip Member":         "skip cluster a1 by=ann",
	"skip Group":          "skip group a by=ann",
	"skip Stage":          "skip stage one by=ann",
	"skip AfterStageWait": "skip wait one by=ann",
	"complete-gate":       "complete a by=ann",
	"approve":             "approve one group=a when=Before by=ann",
	"reject":              "reject one group=a when=Before by=ann",
	"retry":               "retry by=ann",
	"abort":               "abort by=ann",
}

const (
	azureEnded   = "!the run has ended"
	azureFlying  = "!clusters are in flight"
	azureUnasked = "!there is no open request Before group a of stage one"
	azureEnding  = "!the run is ending"
)

// azureTable has the result of every command in every state: the next state or, after an
// exclamation mark, the reason of the refusal.
var azureTable = map[stages.State]map[string]string{
	stages.NotStarted: {
		"start": "Pending", "stop": "!the run has not started",
		"skip Member": "NotStarted", "skip Group": "NotStarted", "skip Stage": "NotStarted", "skip AfterStageWait": "NotStarted",
		"complete-gate": "!no scheduled start is open before a", "approve": azureUnasked, "reject": azureUnasked,
		"retry": "!the run has not started", "abort": "Aborted",
	},
	stages.Pending: {
		"start": "!it has been started already", "stop": "Stopped",
		"skip Member": "Pending", "skip Group": "Pending", "skip Stage": "Running", "skip AfterStageWait": "Pending",
		"complete-gate": "Pending", "approve": "Pending", "reject": "Failed",
		"retry": "Pending", "abort": "Aborted",
	},
	stages.Running: {
		"start": "!it has been started already", "stop": "Stopping",
		"skip Member": "Running", "skip Group": "Running", "skip Stage": "Running", "skip AfterStageWait": "Running",
		"complete-gate": "Running", "approve": "Running", "reject": "Stopping",
		"retry": "Running", "abort": "Aborted",
	},
	stages.Stopping: {
		"start": azureFlying, "stop": "!it has been stopped already",
		"skip Member": azureFlying, "skip Group": azureFlying, "skip Stage": azureFlying, "skip AfterStageWait": azureFlying,
		"complete-gate": "Stopping", "approve": "Stopping", "reject": "Stopping",
		"retry": azureFlying, "abort": "Aborted",
	},
	stages.Stopped: {
		"start": "Running", "stop": "!it has been stopped already",
		"skip Member": "Stopped", "skip Group": "Stopped", "skip Stage": "Stopped", "skip AfterStageWait": "Stopped",
		"complete-gate": "Stopped", "approve": "Stopped", "reject": "Failed",
		"retry": "Running", "abort": "Aborted",
	},
	stages.Failed: {
		"start": "Running", "stop": "!the run has failed",
		"skip Member": "Failed", "skip Group": "Failed", "skip Stage": "Failed", "skip AfterStageWait": "Failed",
		"complete-gate": azureEnding, "approve": azureEnding, "reject": azureEnding,
		"retry": "Running", "abort": "Aborted",
	},
	stages.Skipped: {
		"start": azureEnded, "stop": azureEnded,
		"skip Member": azureEnded, "skip Group": azureEnded, "skip Stage": azureEnded, "skip AfterStageWait": azureEnded,
		"complete-gate": azureEnded, "approve": azureEnded, "reject": azureEnded,
		"retry": azureEnded, "abort": azureEnded,
	},
	stages.Completed: {
		"start": azureEnded, "stop": azureEnded,
		"skip Member": azureEnded, "skip Group": azureEnded, "skip Stage": azureEnded, "skip AfterStageWait": azureEnded,
		"complete-gate": azureEnded, "approve": azureEnded, "reject": azureEnded,
		"retry": azureEnded, "abort": azureEnded,
	},
}

// In every state, every command either leads to the state in the table or is refused with a typed
// error. A second delivery changes nothing.
func TestTheAzureStateTable(t *testing.T) {
	for state, way := range azureStates {
		for command, directive := range azureCommands {
			want, ok := azureTable[state][command]
			if !ok {
				t.Errorf("the table does not say what becomes of %s when it is %s", state, command)
			}
			t.Run(string(state)+"/"+command, func(t *testing.T) {
				w := azureEnv(t)
				w.play(way...)
				w.play("reload")
				if got := w.cur.r.Outline(w.cur.plan).Run; got != state {
					t.Fatalf("the run is %s, not %s", got, state)
				}
				checkCell(t, w, directive, state, want)
			})
		}
	}
}

func checkCell(t *testing.T, w *scriptEnv, directive string, state stages.State, want string) {
	t.Helper()
	var sent []stages.Command
	w.sent = func(c stages.Command) { sent = append(sent, c) }
	p, was := w.cur.plan, w.cur.r
	out := w.play(directive)
	refused := strings.Contains(out, string(stages.CommandRefused))
	if err := Allowed(p, &was, sent[0]); (err != nil) != refused {
		t.Errorf("Allowed says %v, and Step:\n%s", err, out)
	} else if reason, is := strings.CutPrefix(want, "!"); is {
		var e *stages.RefusedError
		if !errors.As(err, &e) || e.Verb != sent[0].Verb || e.State != state || !strings.Contains(e.Reason, reason) {
			t.Errorf("the error is %v, want one in %s with %q", err, state, reason)
		}
		want = string(state)
	}
	if got := w.cur.r.Outline(p).Run; string(got) != want {
		t.Errorf("the run is %s, want %s:\n%s", got, want, out)
	}
	if again := Step(p, reloaded(w.cur.r), stages.Input{Now: w.now, Commands: sent}); again.Changed || len(again.Events) > 0 {
		t.Errorf("delivered again it changed something: %v", again.Events)
	}
}

func TestARefusalNamesTheCommandTheStateAndTheReason(t *testing.T) {
	ended := &stages.RefusedError{Verb: stages.Stop, State: stages.Completed, Reason: "the run has ended as Completed"}
	if diff := cmp.Diff("command Stop is refused: the run has ended as Completed", ended.Error()); diff != "" {
		t.Error(diff)
	}
	w := azureEnv(t)
	err := Allowed(w.cur.plan, &w.cur.r, stages.Command{Verb: stages.Stop})
	if diff := cmp.Diff("command Stop is refused, the run is NotStarted: the run has not started", err.Error()); diff != "" {
		t.Error(diff)
	}
	for name, tt := range map[string]struct {
		c    stages.Command
		want string
	}{
		"no such verb":    {stages.Command{Verb: "Dance"}, "there is no command Dance"},
		"no such scope":   {stages.Command{Verb: stages.Skip, Scope: "Gate", Name: "one"}, "cannot skip a Gate"},
		"no such member":  {stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "x"}, "the plan has no cluster x"},
		"no such group":   {stages.Command{Verb: stages.Skip, Scope: stages.SkipGroup, Name: "x"}, "the plan has no group x"},
		"no such stage":   {stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "x"}, "the plan has no stage x"},
		"no such wait":    {stages.Command{Verb: stages.Skip, Scope: stages.SkipAfterWait, Name: "x"}, "the plan has no stage x"},
		"no such gate":    {stages.Command{Verb: stages.CompleteGate, Name: "x"}, "the plan has no group x"},
		"a stage's gate":  {stages.Command{Verb: stages.CompleteGate, Name: "two"}, "no scheduled start is open before two"},
		"no decision":     {stages.Command{Verb: stages.Decide}, "the command has no decision"},
		"another stage":   {stages.Command{Verb: stages.Decide, Decision: &approval.Decision{Binding: approval.Binding{Stage: "two", When: approval.After}}}, "no open request After stage two"},
		"supersede may":   {stages.Command{Verb: stages.Supersede}, ""},
		"an abort always": {stages.Command{Verb: stages.Abort}, ""},
	} {
		err := Allowed(w.cur.plan, &w.cur.r, tt.c)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that has ended blocks no other run. A Supersede can arrive after the end, from an engine
// that did not know about it. It needs no action, so no event reports it, in every profile and for
// every way to end.
func TestASupersedeOfARunThatHasEndedChangesNothing(t *testing.T) {
	for name, end := range map[string][]string{
		"superseded": {"resume", "supersede for=next"}, "aborted": {"resume", "abort by=eve"},
		"completed": {"skip stage one by=eve", "skip stage two by=eve", "resume"},
	} {
		for _, profile := range []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow} {
			t.Run(name+"/"+string(profile), func(t *testing.T) {
				w := azureEnv(t)
				w.strategy.Profile = profile
				w.play("plan", "start hold")
				w.play(end...)
				if !w.cur.r.Final(w.cur.plan) {
					t.Fatalf("the run is %s", w.cur.r.State)
				}
				before := w.cur.r.State
				if out := w.play("supersede for=late"); strings.Contains(out, string(stages.CommandRefused)) || w.cur.r.State != before {
					t.Errorf("it was %s, and now: %s", before, out)
				}
				if err := Allowed(w.cur.plan, &w.cur.r, stages.Command{Verb: stages.Supersede, Message: "late"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// In the other profiles a command that asks for the current state has no effect.
func TestOnlyClusterUpdateRefusesCommandsWithoutEffect(t *testing.T) {
	for _, profile := range []stages.Profile{stages.Staged, stages.Workflow} {
		w := azureEnv(t)
		w.strategy.Profile = profile
		w.play("plan", "start", "approve one group=b when=Before")
		for _, directive := range []string{"resume", "stop", "stop", "skip cluster b2", "resume", "stop", "observe b1 healthy", "stop", "resume"} {
			if out := w.play(directive); strings.Contains(out, string(stages.CommandRefused)) {
				t.Errorf("%s: %s: %s", profile, directive, out)
			}
		}
	}
}

// A decision without a binding, or by another identity than its command, is refused.
func TestDecisionsThatContradictTheirCommand(t *testing.T) {
	w := azureEnv(t)
	w.play(azureStates[stages.Running]...)
	cmd := stages.Command{Verb: stages.Decide, Name: "one", Decision: &approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}}
	refused, is := errors.AsType[*stages.RefusedError](Allowed(w.cur.plan, &w.cur.r, cmd))
	if !is || !strings.Contains(refused.Reason, "decision.binding is missing") {
		t.Errorf("the refusal is %v", refused)
	}
	// A host that authenticates By must not let the caller name another approver in the decision.
	cmd.By.Name = "eve"
	refused, is = errors.AsType[*stages.RefusedError](Allowed(w.cur.plan, &w.cur.r, cmd))
	if !is || !strings.Contains(refused.Reason, `the command is by "eve", and its decision by "ann"`) {
		t.Errorf("the refusal is %v", refused)
	}
}
