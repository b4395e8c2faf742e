package step

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
)

// Each test of this file is for a known defect of another system, and shows that this one does not
// have it. So do the scripts p6-wait-survives-stop, relabelled-mid-run and stale-observations.

// fourClusters is an environment with four clusters and a strategy of one stage, and a run.
func fourClusters(stage string, rest ...string) *scriptEnv {
	w := newScriptEnv()
	w.setClusters("m1 tier=a\nm2 tier=a\nm3 tier=b\nm4 tier=b\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, " + stage + "}]\n" + strings.Join(rest, "\n"))
	w.say("plan", "start")
	return w
}

// says checks the end of the output of the last directive.
func (w *scriptEnv) says(t *testing.T, want string, directives ...string) {
	t.Helper()
	if got := w.say(directives...); !strings.HasSuffix(got, want+"\n") {
		t.Errorf("%s:\n%swant\n%s", directives, got, want)
	}
}

// An approval is bound to the run, the plan and the attempt, not to a name.
func TestAnApprovalIsBoundToRunPlanAndAttempt(t *testing.T) {
	w := fourClusters("maxConcurrency: 4, beforeStageTasks: [{type: Approval}]")
	for _, other := range []string{"uid=uid-other", "plan=other", "attempt=2"} {
		if got := w.say("approve all when=Before by=bob " + other); !strings.Contains(got, "CommandRefused Decide by=bob") {
			t.Errorf("%s: %s", other, got)
		}
	}
	w.says(t, "Running: apply m1#1 apply m2#1 apply m3#1 apply m4#1", "approve all when=Before by=bob")
	// A decision on a request that is not open yet is refused.
	w = fourClusters("afterStageTasks: [{type: Approval}]")
	if got := w.say("approve all by=bob"); !strings.Contains(got, "CommandRefused") {
		t.Error(got)
	}
}

// A cluster that keeps failing loses its slot if the strategy limits its time or its attempts.
func TestAClusterThatKeepsFailingReleasesItsSlot(t *testing.T) {
	w := fourClusters("maxFailures: 4", "attempts: 2", "backoff: 1s")
	w.says(t, "Running: wake 1s", "observe m1 failed")
	w.says(t, "Running: apply m1#2", "step t=1s")
	w.says(t, "Running: apply m2#1", "observe m1 failed")
	w = fourClusters("maxFailures: 4", "progressDeadline: 7m")
	w.says(t, "Running: apply m1#1 wake 7m0s", "observe m1 sent")
	w.says(t, "Running: apply m2#1 wake 14m0s", "step t=7m")
}

// The reason of a Stopping run stays its author, whatever clusters in flight report.
func TestAStoppingRunKeepsItsReason(t *testing.T) {
	w := fourClusters("maxConcurrency: 2")
	want := `Stopping "stopped by ann": apply m1#1 apply m2#1 wake 5m0s`
	w.says(t, want, "stop by=ann")
	w.says(t, want, "observe m1 lost m2 sent t=4m")
}

// A limit that is greater than the fleet is not clamped, and 0 at once is
// refused rather than all. TestRounding has the whole table.
func TestLimitsAreNotClamped(t *testing.T) {
	w := fourClusters("maxConcurrency: 4, maxFailures: 10", "attempts: 1")
	if got := w.say("plan"); !strings.HasPrefix(got, "all concurrency=4 failures=10\n") || !strings.Contains(got, "warning: stage all never fails") {
		t.Error(got)
	}
	w.says(t, "Completed", "observe m1 failed m2 failed m3 failed m4 failed")
	for _, none := range []string{"0", "0%"} {
		w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: " + none + "}]")
		if got := w.say("plan"); !strings.Contains(got, "stages[0].maxConcurrency: Invalid value") {
			t.Errorf("%s: %s", none, got)
		}
	}
}

// A duration is read exactly or refused: no value is mistaken for another.
func TestDurationsAreReadStrictly(t *testing.T) {
	for _, text := range []string{`"1h|"`, `"h"`, `"x5m"`, `1.5`} {
		var s stages.Strategy
		if err := json.Unmarshal([]byte(`{"progressDeadline": `+text+`}`), &s); err == nil {
			t.Errorf("%s was read as %s", text, s.ProgressDeadline.Duration)
		}
	}
	for _, d := range []time.Duration{-time.Second, 366 * 24 * time.Hour} {
		s := stages.Strategy{Stages: []stages.Stage{{Name: "all"}}, ProgressDeadline: metav1.Duration{Duration: d}}
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "progressDeadline: Invalid value") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// A cluster whose deadline has passed loses its slot, but its effects may continue and count: with
// a strict budget no other cluster starts in its place.
func TestAClusterPastItsDeadlineReleasesItsSlot(t *testing.T) {
	w := fourClusters("maxConcurrency: 2, maxFailures: 2, strictFailures: true", "progressDeadline: 1m")
	w.says(t, "Running: apply m1#1 apply m2#1 wake 1m0s", "observe m1 sent m2 sent")
	if got := w.say("step t=1m"); strings.Contains(got, "Started") || !strings.Contains(got, "\nFailed ") {
		t.Error(got)
	}
}

// A cluster that no stage selects, or that several do, is an error of the plan.
func TestEveryClusterIsInOneStage(t *testing.T) {
	w := fourClusters("maxConcurrency: 1")
	w.setStrategy("stages: [{name: a, labelSelector: {matchLabels: {tier: a}}}]")
	if got := w.say("plan"); !strings.Contains(got, "m3") || !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
	w.setStrategy("stages: [{name: a, labelSelector: {matchLabels: {tier: a}}}, {name: all, labelSelector: {}}]")
	if got := w.say("plan"); !strings.Contains(got, "m1") || !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
}

// The run stores the number of attempts and the time of the next one: another message, a stop or a
// restart does not reset them.
func TestTheRunKeepsAttemptsAndBackoffs(t *testing.T) {
	w := fourClusters("maxFailures: 4", "attempts: 4", "backoff: 10s", "maxBackoff: 1h")
	w.says(t, "Running: wake 10s", "observe m1 failed msg=first")
	w.says(t, "Running: apply m1#2", "reload", "step t=10s")
	w.says(t, "Running: wake 30s", "observe m1 failed msg=second")
	w.says(t, "Running: apply m1#3", "reload", "step t=20s")
	w.says(t, `Stopped "stopped by ann"`, "observe m1 failed msg=third", "stop by=ann")
	w.says(t, "Running: apply m1#4", "reload", "resume by=ann t=1s")
	w.says(t, "Running: apply m2#1", "observe m1 failed msg=fourth")
}

// A run is written as a whole, by one writer. Requests of people are commands, each carried out
// once. A step with a command and a report is one change.
func TestCommandsDoNotOverwriteTheRun(t *testing.T) {
	w := fourClusters("maxConcurrency: 2")
	in := stages.Input{Observations: []stages.Observation{w.cur.observation("m1", "healthy")}, Commands: []stages.Command{{ID: "1", Verb: stages.Stop}}}
	w.step(in)
	if r := w.cur.r; r.State != stages.Stopping || r.form.Stages[0].Groups[0].Completed != 1 {
		t.Errorf("the run is %s, and %d have completed", r.State, r.form.Stages[0].Groups[0].Completed)
	}
	for range 3 {
		w.step(in)
		if w.cur.last.Changed {
			t.Errorf("delivered again: %v", w.cur.last.Events)
		}
	}
}

// The deadline of a cluster does not run while the run is stopped.
func TestADeadlineStandsStillWhileTheRunIsStopped(t *testing.T) {
	w := fourClusters("maxFailures: 4", "attempts: 3", "progressDeadline: 10m")
	w.says(t, "Running: wake 1s", "observe m1 failed")
	w.says(t, `Stopped "stopped by ann"`, "stop by=ann")
	w.says(t, "Running: apply m1#2 wake 5h10m0s", "resume by=ann t=5h")
}

// Clusters in flight can exceed a budget that is not strict, as in Azure, but not a strict one.
// Percentages of both are resolved once, in the plan.
func TestOnlyAStrictBudgetIsABound(t *testing.T) {
	soft := fourClusters("maxConcurrency: 4, maxFailures: 25%", "profile: ClusterUpdate")
	soft.says(t, `Failed "2 clusters of stage all have failed, and 1 may"`, "observe m1 failed m2 failed m3 failed m4 failed")
	if n := soft.cur.r.form.Stages[0].Groups[0].Failed; n != 4 {
		t.Errorf("%d have failed", n)
	}
	strict := fourClusters("maxConcurrency: 4, maxFailures: 25%, strictFailures: true", "profile: ClusterUpdate")
	strict.say("observe m1 failed m2 failed m3 failed m4 failed")
	if r := &strict.cur.r; r.State != stages.Failed || r.form.Stages[0].Groups[0].Failed != 1 {
		t.Errorf("the run is %s, and %d have failed", r.State, r.form.Stages[0].Groups[0].Failed)
	}
}

// The budget applies to all clusters of the plan, and one more failure ends the run. A strict
// budget is reached but not exceeded.
func TestABudgetCountsAllClustersOfTheStage(t *testing.T) {
	w := fourClusters("maxFailures: 50%", "attempts: 1")
	w.say("skip cluster m4")
	w.says(t, "Running: apply m2#1", "observe m1 failed")
	w.says(t, "Running: apply m3#1", "observe m2 failed")
	w.says(t, `Failed "3 clusters of stage all have failed, and 2 may"`, "observe m3 failed")
	w = fourClusters("maxFailures: 50%, strictFailures: true", "attempts: 1")
	w.say("observe m1 failed")
	w.says(t, `Failed "2 clusters of stage all have failed, which is all that may: no other can be started, and not all have been"`, "observe m2 failed")
}

// A failed cluster loses its slot. A missing limit means one cluster, not all of them.
func TestAMissingLimitIsOneCluster(t *testing.T) {
	w := fourClusters("maxFailures: 4", "attempts: 1")
	w.says(t, "Running: apply m2#1", "observe m1 failed")
	for _, none := range []string{"0", "0%", "many", `""`} {
		w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: " + none + "}]")
		if got := w.say("plan"); !strings.Contains(got, "stages[0].maxConcurrency: Invalid value") {
			t.Errorf("%s: %s", none, got)
		}
	}
}
