package step

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// skipCell is a cell of the table of skips: a target and its state.
type skipCell struct {
	target string
	state  stages.State
	// way leads to the state. Then skip is the command, and says its output.
	way  []string
	skip string
	says string
	// shows is part of the outline and the states right after the command.
	shows []string
	// then are the directives that follow, and ends is the output of the last one.
	then []string
	ends string
}

const (
	skipHeld = "start hold"
	skipOpen = "approve one group=a when=Before" // the gates before group a
	skipEnd  = "approve one group=b"             // the gates after group b
)

// skipFailed leads to a run in which b1 has failed, more than the budget allows.
var skipFailed = []string{"start", "observe b1 failed"}

// skipDone leads to a run whose first stage has ended.
var skipDone = []string{"start", skipOpen, "auto", skipEnd, "step t=1h"}

func skipMemberCells() []skipCell {
	const skip = "skip cluster b1 by=ann"
	return []skipCell{
		{
			"Member", stages.NotStarted,
			[]string{skipHeld},
			skip, `ClusterSkipped one b b1 "skipped by ann"`,
			[]string{"b1=Skipped b2=NotStarted"},
			[]string{"resume"},
			"ClusterStarted one b b2",
		},
		{
			"Member", stages.Pending,
			[]string{"start", "observe b1 unreachable"},
			skip, `ClusterSkipped one b b1 "skipped by ann"`,
			[]string{"b1=Skipped b2=Running"},
			[]string{"observe b2 healthy", "step t=1h"},
			"Running",
		},
		{ // the attempt continues, does not fail, and then the group continues
			"Member", stages.Running,
			[]string{"start"},
			skip, "Running: apply b1#1",
			[]string{"b1=Running b2=NotStarted"},
			[]string{"observe b1 failed"},
			"ClusterSkipped one b b1 \"skipped in flight; its last attempt failed: quota exceeded\"\n0s ClusterStarted one b b2",
		},
		{
			"Member", stages.Failed, skipFailed, skip, "ClusterSkipped one b b1",
			[]string{"b1=Skipped b2=NotStarted"},
			[]string{"resume"},
			"RunResumed #2\n0s ClusterStarted one b b2 #1",
		},
		{
			"Member", stages.Completed,
			[]string{"start", "observe b1 healthy"},
			skip, "CommandRefused Skip by=ann \"cluster b1 has ended already\"",
			[]string{"b1=Completed b2=Running"},
			[]string{skip},
			"CommandRefused",
		},
		{
			"Member", stages.Skipped,
			[]string{skipHeld, skip},
			skip, "CommandRefused Skip by=ann \"cluster b1 has ended already\"",
			[]string{"b1=Skipped b2=NotStarted"},
			[]string{skip},
			"CommandRefused",
		},
	}
}

func skipGroupCells() []skipCell {
	return []skipCell{
		{
			"Group", stages.NotStarted,
			[]string{skipHeld},
			"skip group a by=ann", "ClusterSkipped one a count=2",
			[]string{"a Skipped Before:Approval=Skipped", "a1=Skipped a2=Skipped"},
			[]string{"resume", "auto", skipEnd},
			"WaitStarted one", // and no approval is requested about a
		},
		{
			"Group", stages.Pending,
			[]string{"start"},
			"skip group a by=ann", "ClusterSkipped one a count=2",
			[]string{"a Skipped Before:Approval=Skipped", "b Running", "a1=Skipped a2=Skipped"},
			[]string{"auto", skipEnd},
			"WaitStarted one",
		},
		{ // clusters in flight finish
			"Group", stages.Running,
			[]string{"start"},
			"skip group b by=ann", "ClusterSkipped one b b2",
			[]string{"b Running", "b1=Running b2=Skipped"},
			[]string{"observe b1 healthy", "outline"},
			"b Skipped After:Approval=Skipped",
		},
		{
			"Group", stages.Failed, skipFailed, "skip group b by=ann", "ClusterSkipped one b b1",
			[]string{"b Skipped", "b1=Skipped b2=Skipped"},
			[]string{"resume", skipOpen, "auto"},
			"WaitStarted one",
		},
		{
			"Group", stages.Completed, skipDone, "skip group b by=ann", "CommandRefused Skip by=ann \"group b has ended already\"",
			[]string{"b Completed", "b1=Completed b2=Completed"},
			[]string{"outline"},
			"b Completed",
		},
		{
			"Group", stages.Skipped,
			[]string{skipHeld, "skip group a"},
			"skip group a by=ann", "NotStarted",
			[]string{"a Skipped", "a1=Skipped a2=Skipped"},
			[]string{"outline"},
			"a Skipped",
		},
	}
}

func skipStageCells() []skipCell {
	const skip = "skip stage one by=ann"
	return []skipCell{
		{ // with the wait after it
			"Stage", stages.NotStarted,
			[]string{skipHeld},
			skip, "ClusterSkipped one b count=2",
			[]string{"one Skipped After:TimedWait=Skipped", "a Skipped Before:Approval=Skipped"},
			[]string{"resume"},
			"StageSkipped one\n0s ApprovalRequested two",
		},
		{
			"Stage", stages.Pending, append(slices.Clone(skipDone), "approve two when=Before", "auto", "approve two"), "skip stage three by=ann", "ClusterSkipped three d1",
			[]string{"three Skipped Before:TimedWait=Skipped"},
			[]string{"outline"},
			"Completed",
		},
		{ // the rest is skipped, and then it is the next stage's turn at once
			"Stage", stages.Running,
			[]string{"start"},
			skip, "ClusterSkipped one b b2",
			[]string{"one Running", "a Skipped", "b1=Running"},
			[]string{"observe b1 healthy"},
			"StageCompleted one count=1\n0s ApprovalRequested two",
		},
		{
			"Stage", stages.Failed, skipFailed, skip, "ClusterSkipped one b b1",
			[]string{"one Failed", "b1=Skipped"},
			[]string{"resume"},
			"ApprovalRequested two",
		},
		{
			"Stage", stages.Completed, skipDone, skip, "CommandRefused Skip by=ann \"stage one has ended already\"",
			[]string{"one Completed", "b1=Completed"},
			[]string{"outline"},
			"one Completed",
		},
		{
			"Stage", stages.Skipped,
			[]string{"start", "skip stage one", "observe b1 healthy"},
			skip, "CommandRefused Skip by=ann \"stage one has ended already\"",
			[]string{"one Skipped"},
			[]string{"outline"},
			"one Skipped",
		},
	}
}

func skipWaitCells() []skipCell {
	const skip = "skip wait one by=ann"
	finish := []string{skipOpen, "auto", skipEnd}
	return []skipCell{
		{
			"AfterStageWait", stages.NotStarted,
			[]string{skipHeld},
			skip, "NotStarted",
			[]string{"one NotStarted After:TimedWait=Skipped"},
			append([]string{"resume"}, finish...), "StageCompleted one",
		},
		{
			"AfterStageWait", stages.Pending,
			[]string{"start", "skip group b", "observe b1 healthy"},
			skip, "Running",
			[]string{"one Pending After:TimedWait=Skipped"},
			[]string{skipOpen, "auto"},
			"StageCompleted one",
		},
		{
			"AfterStageWait", stages.Running, append([]string{"start"}, finish...), skip, "StageCompleted one count=4",
			[]string{"one Completed After:TimedWait=Skipped"},
			[]string{"waiting"},
			"waits for Decision run-before-two",
		},
		{
			"AfterStageWait", stages.Failed, skipFailed, skip, "Failed",
			[]string{"one Failed After:TimedWait=Skipped"},
			append([]string{"resume"}, finish...), "StageCompleted one",
		},
		{
			"AfterStageWait", stages.Completed, skipDone, skip, `CommandRefused Skip by=ann "the wait after stage one has ended already"`,
			[]string{"one Completed After:TimedWait=Completed"},
			[]string{"outline"},
			"one Completed",
		},
		{
			"AfterStageWait", stages.Skipped,
			[]string{"start", "skip stage one", "observe b1 healthy"},
			skip, "CommandRefused",
			[]string{"one Skipped After:TimedWait=Skipped"},
			[]string{"outline"},
			"one Skipped",
		},
	}
}

func skipEnv(t *testing.T) *scriptEnv {
	t.Helper()
	w := newScriptEnv()
	w.setClusters("a1 g=a\na2 g=a\nb1 g=b\nb2 g=b\nc1 g=c\nd1 g=d\n")
	said := w.setStrategy(`
profile: ClusterUpdate
stages:
- name: one
  labelSelector: {matchExpressions: [{key: g, operator: In, values: [a, b]}]}
  groups:
  - {name: a, labelSelector: {matchLabels: {g: a}}, beforeGroupTasks: [{type: Approval}]}
  - {name: b, labelSelector: {matchLabels: {g: b}}, afterGroupTasks: [{type: Approval}]}
  afterStageTasks: [{type: TimedWait, waitTime: 1h}]
- {name: two, labelSelector: {matchLabels: {g: c}}, beforeStageTasks: [{type: Approval}], afterStageTasks: [{type: Approval}]}
- {name: three, labelSelector: {matchLabels: {g: d}}, beforeStageTasks: [{type: TimedWait, waitTime: 1h}]}
`)
	if said += w.play("plan"); strings.Contains(said, "rror") {
		t.Fatal(said)
	}
	return w
}

func TestTheSkipTable(t *testing.T) {
	for _, cells := range [][]skipCell{skipMemberCells(), skipGroupCells(), skipStageCells(), skipWaitCells()} {
		for _, c := range cells {
			t.Run(c.target+"/"+string(c.state), func(t *testing.T) {
				w := skipEnv(t)
				w.play(c.way...)
				if out := w.play(c.skip); !strings.Contains(out, c.says) {
					t.Errorf("%s says, without %q:\n%s", c.skip, c.says, out)
				}
				now := w.play("outline") + w.play("state")
				for _, want := range c.shows {
					if !strings.Contains(now, want) {
						t.Errorf("the run has come to, without %q:\n%s", want, now)
					}
				}
				w.play("reload")
				if out := w.play(c.then...); !strings.Contains(out, c.ends) {
					t.Errorf("%q says, without %q:\n%s", c.then, c.ends, out)
				}
			})
		}
	}
}

// A gate cannot be skipped alone: it is completed, or its stage or group is skipped.
func TestAGateCannotBeSkippedAlone(t *testing.T) {
	for state, way := range map[stages.State][]string{
		stages.NotStarted: {skipHeld}, stages.Pending: {"start"}, stages.Running: {"start", skipOpen}, stages.Failed: skipFailed, stages.Completed: skipDone,
	} {
		t.Run(string(state), func(t *testing.T) {
			w := skipEnv(t)
			w.play(way...)
			before := w.play("state")
			c := stages.Command{ID: "gate", Verb: stages.Skip, Scope: "Gate", Name: "a", By: approval.Identity{Name: "ann"}}
			out := w.step(stages.Input{Commands: []stages.Command{c}})
			if !strings.Contains(out, "cannot skip a Gate") || w.play("state") != before {
				t.Errorf("%s%s", out, w.play("state"))
			}
		})
	}
}
