package status

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// withoutOurs removes the fields that the tutorial's status does not have from a run's status, and
// fails if one is missing.
func withoutOurs(t *testing.T, status map[string]any) {
	t.Helper()
	for _, field := range []string{"appliedStrategy", "resourceSnapshotIndexUsed", "clusterCounts", "planDigest", "summary"} {
		if _, ok := status[field]; !ok {
			t.Errorf("the status has no %s", field)
		}
		delete(status, field)
	}
	delete(status, "startedBy") // if known
	for _, st := range status["stagesStatus"].([]any) {
		delete(st.(map[string]any), "clusterCounts")
	}
}

func TestStatusOfARunEqualsTheTutorial(t *testing.T) {
	got := tutorialRig(t).status()
	withoutOurs(t, got)
	if diff := cmp.Diff(golden(t, "tutorial-run-waiting.yaml")["status"], any(got)); diff != "" {
		t.Errorf("(-tutorial +got):\n%s", diff)
	}
}

func TestStatusRebuiltFromTheJournalIsEqual(t *testing.T) {
	r := tutorialRig(t)
	before := r.status()
	r.now = r.now.Add(time.Hour)
	if diff := cmp.Diff(before, r.status()); diff != "" {
		t.Errorf("an hour later (-before +after):\n%s", diff)
	}
}

func TestStatusWithoutHistoryHasAllConditionsAndTimes(t *testing.T) {
	r := tutorialRig(t)
	with := r.status()
	r.facts.History = nil
	without := r.status()
	ignoreTimes(with)
	eachTime(without, func(at string) {
		if at < "2025-07-22T21:28:08Z" {
			t.Errorf("a condition is of %s, before the run", at)
		}
	})
	ignoreTimes(without)
	if diff := cmp.Diff(with, without); diff != "" {
		t.Errorf("(-with history +without):\n%s", diff)
	}
}

// eachTime calls do with every lastTransitionTime in v.
func eachTime(v any, do func(string)) {
	switch v := v.(type) {
	case map[string]any:
		if at, ok := v["lastTransitionTime"].(string); ok {
			do(at)
		}
		for _, e := range v {
			eachTime(e, do)
		}
	case []any:
		for _, e := range v {
			eachTime(e, do)
		}
	}
}

// ignoreTimes removes every time from v.
func ignoreTimes(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(name string, _ any) bool {
			return name == "lastTransitionTime" || name == "startTime" || name == "endTime"
		})
		for _, e := range v {
			ignoreTimes(e)
		}
	case []any:
		for _, e := range v {
			ignoreTimes(e)
		}
	}
}

func TestCompletedRunStatus(t *testing.T) {
	r := tutorialRig(t)
	r.decide("21:33:00", approval.Approve)
	s := r.status()
	wantTold(t, "run", s["conditions"],
		"Initialized=True UpdateRunInitializedSuccessfully: ClusterStagedUpdateRun initialized successfully",
		"Progressing=False UpdateRunSucceeded: All stages are completed",
		"Succeeded=True UpdateRunSucceeded: All stages are completed successfully")
	canary := stageAt(s, 1)
	wantTold(t, "canary", canary["conditions"],
		"Progressing=False StageUpdatingSucceeded: All clusters in the stage are updated and after-stage tasks are completed",
		"Succeeded=True StageUpdatingSucceeded: Stage update completed successfully")
	task := canary["afterStageTaskStatus"].([]any)[0].(map[string]any)
	wantTold(t, "task", task["conditions"],
		"ApprovalRequestCreated=True AfterStageTaskApprovalRequestCreated: ClusterApprovalRequest is created",
		"ApprovalRequestApproved=True AfterStageTaskApprovalRequestApproved: ClusterApprovalRequest is approved")
	if at := since(t, s["conditions"], "Succeeded"); at != "21:33:00" {
		t.Errorf("succeeded at %s", at)
	}
	deletion := s["deletionStageStatus"].(map[string]any)
	wantTold(t, "deletion", deletion["conditions"],
		"Progressing=False StageUpdatingSucceeded: All clusters in the stage are updated and after-stage tasks are completed",
		"Succeeded=True StageUpdatingSucceeded: Stage update completed successfully")
}

func stageAt(status map[string]any, i int) map[string]any {
	return status["stagesStatus"].([]any)[i].(map[string]any)
}

// The reasons and messages of a run depend on the compatibility setting. Its requests keep the
// names that they had at the start of the run.
func TestConditionTextsFollowTheSetting(t *testing.T) {
	r := tutorialRig(t)
	r.facts.Setting = compat.KubeFleet018
	status := r.status()
	if got := told(t, status["conditions"])[0]; got != "Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully" {
		t.Error(got)
	}
	task := stageAt(status, 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	wantTold(t, "task", task["conditions"], "ApprovalRequestCreated=True StageTaskApprovalRequestCreated: ApprovalRequest object is created")
	if task["approvalRequestName"] != "example-run-canary" {
		t.Errorf("request %v", task["approvalRequestName"])
	}
	r.decide("21:40:00", approval.Reject)
	task = stageAt(r.status(), 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	if got := told(t, task["conditions"])[1]; got != "ApprovalRequestApproved=False StageTaskApprovalRequestRejected: ApprovalRequest object is rejected by ann" {
		t.Error(got)
	}
	r.facts.Namespace, r.facts.Setting = "web", ""
	if got := told(t, r.status()["conditions"])[0]; got != "Initialized=True UpdateRunInitializedSuccessfully: StagedUpdateRun initialized successfully" {
		t.Error(got)
	}
}

func TestTheEngineNamesTheObjectOfARequest(t *testing.T) {
	r := tutorialRig(t)
	task := stageAt(r.status(), 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	open := step.Requests(r.plan, &r.run)
	if len(open) != 1 || open[0].Name != task["approvalRequestName"] {
		t.Errorf("the engine asks for %+v, and the status of the run names %v", open, task["approvalRequestName"])
	}
	if waiting := step.Waiting(r.plan, &r.run); len(waiting) != 1 || waiting[0].Name != task["approvalRequestName"] {
		t.Errorf("the run waits for %+v", waiting)
	}
}

// If a run is initialized later than its creation because its placement or its strategy was
// missing, it uses the content at the time of initialization, and says so.
func TestLateInitializationReportsTheTimeOfItsContent(t *testing.T) {
	for late, want := range map[time.Duration]string{
		-time.Hour:       "",
		0:                "",
		10 * time.Second: "",
		90 * time.Minute: ", 1h30m0s after it was created: what it brings, its clusters and its strategy are of 2025-07-22T21:28:08Z",
	} {
		r := tutorialRig(t)
		want = told(t, r.status()["conditions"])[0] + want
		r.facts.Made = r.run.Created.Time().Add(-late)
		if got := told(t, r.status()["conditions"])[0]; got != want {
			t.Errorf("%s late: %q, want %q", late, got, want)
		}
	}
}

func TestTheNamespacedTwinsSayTheSame(t *testing.T) {
	r := tutorialRig(t)
	r.facts.Namespace = "web"
	s := r.status()
	if got := told(t, s["conditions"])[0]; got != "Initialized=True UpdateRunInitializedSuccessfully: StagedUpdateRun initialized successfully" {
		t.Error(got)
	}
	task := stageAt(s, 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	wantTold(t, "task", task["conditions"], "ApprovalRequestCreated=True AfterStageTaskApprovalRequestCreated: ApprovalRequest is created")
}

func TestARunOnHoldIsOnlyInitialized(t *testing.T) {
	s, clusters := tutorial()
	r := newRig(t, "10:00:00", s, true, clusters...)
	r.step("", stages.Input{})
	status := r.status()
	initialized := "Initialized=True UpdateRunInitializedSuccessfully: ClusterStagedUpdateRun initialized successfully"
	wantTold(t, "run", status["conditions"], initialized)
	if got := stageAt(status, 0)["conditions"]; got != nil {
		t.Errorf("a stage that was not reached has conditions %v", got)
	}
	task := stageAt(status, 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	if diff := cmp.Diff(map[string]any{"type": "Approval", "approvalRequestName": "example-run-canary"}, task); diff != "" {
		t.Error(diff)
	}
	r.facts.Policy = -1
	if index, ok := r.status()["policySnapshotIndexUsed"]; ok {
		t.Errorf("policy index %v", index)
	}
	r.facts.State = v1beta1.StateStop
	wantTold(t, "with state Stop", r.status()["conditions"], initialized,
		"Progressing=False UpdateRunStopped: The update run has been stopped")
}

func TestAQueuedRunNamesTheRunItWaitsFor(t *testing.T) {
	s, clusters := tutorial()
	r := newRig(t, "10:00:00", s, false, clusters...)
	r.step("10:00:01", stages.Input{Blocked: "n.web.other"})
	r.step("10:00:09", stages.Input{Blocked: "n.web.other"})
	got := r.status()["conditions"]
	if line := told(t, got)[1]; line != "Progressing=False UpdateRunWaiting: The updateRun is waiting for updateRun other of the same placement to end" {
		t.Error(line)
	}
	if at := since(t, got, "Progressing"); at != "10:00:01" {
		t.Errorf("since %s", at)
	}
	r.facts.History = nil
	if at := since(t, r.status()["conditions"], "Progressing"); at != "10:00:00" {
		t.Errorf("without history, since %s", at)
	}
}

func TestReasonsOfUnsuccessfulRuns(t *testing.T) {
	once := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	for name, tc := range map[string]struct {
		do     func(r *rig)
		reason string
		why    string
	}{
		"failed": {func(r *rig) {
			o := r.observation("a")
			o.Failed, o.Message = true, "image \x1b[2Knot found"
			r.step("10:01:00", stages.Input{Observations: []stages.Observation{o}})
		}, "UpdateRunFailed", "1 cluster of stage all has failed, and none may"},
		"aborted": {func(r *rig) {
			r.command("10:01:00", stages.Command{Verb: stages.Abort, By: approval.Identity{Name: "sam"}})
		}, "UpdateRunAborted", "aborted by sam"},
		"superseded": {func(r *rig) {
			r.command("10:01:00", stages.Command{Verb: stages.Supersede, Message: "r2"})
			r.step("10:01:30", stages.Input{})
		}, "UpdateRunSuperseded", "superseded by run r2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "10:00:00", once, false, named("a", "b")...)
			r.step("", stages.Input{})
			tc.do(r)
			s := r.status()
			got := told(t, s["conditions"])
			if len(got) != 3 || !strings.HasPrefix(got[1], "Progressing=False "+tc.reason+": ") || got[2] != "Succeeded=False "+tc.reason+": "+tc.why {
				t.Errorf("run: %q", got)
			}
			wantTold(t, "stage", stageAt(s, 0)["conditions"],
				"Progressing=False StageUpdatingFailed: Stage update aborted due to a non-recoverable error",
				"Succeeded=False StageUpdatingFailed: "+tc.why)
			if end := stageAt(s, 0)["endTime"]; end == nil || end == "2025-07-22T10:00:00Z" {
				t.Errorf("the stage ended at %v", end)
			}
		})
	}
}

func TestStatusOfEmptyAndSkippedStages(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "empty", Selector: inStage("none"), After: []stages.Task{{Type: stages.Approval}}},
		{Name: "passed", Selector: inStage("one")},
		{Name: "last", Selector: inStage("two")},
	}}
	r := newRig(t, "10:00:00", s, true,
		placement.Cluster{Name: "a", Labels: map[string]string{"environment": "one"}},
		placement.Cluster{Name: "a2", Labels: map[string]string{"environment": "one"}},
		placement.Cluster{Name: "b", Labels: map[string]string{"environment": "two"}})
	r.command("10:00:30", stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "passed", By: approval.Identity{Name: "sam"}})
	r.command("10:01:00", stages.Command{Verb: stages.Start})
	got := r.status()
	for i, message := range []string{"Stage skipped because it has no clusters", "Stage skipped because its 2 cluster(s) were skipped"} {
		st := stageAt(got, i)
		wantTold(t, "stage", st["conditions"],
			"Progressing=False StageUpdatingSkippedNoClusters: "+message, "Succeeded=True StageUpdatingSkippedNoClusters: "+message)
		if st["startTime"] != "2025-07-22T10:01:00Z" || st["endTime"] != st["startTime"] {
			t.Errorf("from %v to %v", st["startTime"], st["endTime"])
		}
	}
	skipped := stageAt(got, 1)["clusters"].([]any)[0].(map[string]any)
	wantTold(t, "cluster", skipped["conditions"], "Succeeded=False ClusterUpdatingSkipped: skipped by sam")
	if at := since(t, skipped["conditions"], "Succeeded"); at != "10:00:30" {
		t.Errorf("skipped at %s", at)
	}
	r.finish("10:02:00", "b")
	if got := told(t, r.status()["conditions"])[2]; got != "Succeeded=True UpdateRunSucceeded: All stages are completed successfully; 0 cluster(s) failed, 2 cluster(s) were skipped" {
		t.Error(got)
	}
}

func TestGatesBeforeAStageWaitAndAreNamedAfterIt(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything(), Before: []stages.Task{{Type: stages.Approval}}}}}
	r := newRig(t, "10:00:00", s, false, named("a")...)
	r.step("", stages.Input{})
	got := r.status()
	if line := told(t, got["conditions"])[1]; line != "Progressing=False UpdateRunWaiting: The updateRun is waiting for before-stage tasks in stage all to complete" {
		t.Error(line)
	}
	st := stageAt(got, 0)
	wantTold(t, "stage", st["conditions"], "Progressing=False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval")
	task := st["beforeStageTaskStatus"].([]any)[0].(map[string]any)
	if task["approvalRequestName"] != "example-run-before-all" {
		t.Errorf("request %v", task["approvalRequestName"])
	}
	wantTold(t, "task", task["conditions"], "ApprovalRequestCreated=True BeforeStageTaskApprovalRequestCreated: ClusterApprovalRequest is created")
	r.decide("10:05:00", approval.Approve)
	if at := since(t, r.status()["conditions"], "Progressing"); at != "10:05:00" {
		t.Errorf("progressing since %s", at)
	}
}

// No strategy of the API has gates of groups or scheduled starts. The status of a run with such
// gates shows nothing for them that KubeFleet would misread.
func TestGatesMissingInTheAPIAreNotShown(t *testing.T) {
	asks := []stages.Task{{Type: stages.Approval}}
	s := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: everything(), After: asks,
		Before: []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "10:30"}}},
		Groups: []stages.Group{{Name: "g", Selector: everything(), Before: asks}},
	}}}
	r := newRig(t, "10:00:00", s, false, named("a")...)
	r.step("", stages.Input{})
	r.step("10:30:00", stages.Input{})
	open := step.Requests(r.plan, &r.run)
	if len(open) != 1 || open[0].Name != "example-run-before-all-g" || len(RequestsOfStages(open)) != 0 {
		t.Errorf("%v", open)
	}
	got := r.status()
	if st := stageAt(got, 0); st["beforeStageTaskStatus"] != nil || len(st["afterStageTaskStatus"].([]any)) != 1 {
		t.Errorf("%v", st)
	}
	if out := updateStrategyOf(&s); out.Stages[0].BeforeStageTasks != nil || len(out.Stages[0].AfterStageTasks) != 1 {
		t.Errorf("%v", out)
	}
}

func TestARejectedRequestSaysByWhom(t *testing.T) {
	r := tutorialRig(t)
	r.decide("21:31:00", approval.Reject)
	s := r.status()
	task := stageAt(s, 1)["afterStageTaskStatus"].([]any)[0].(map[string]any)
	if got := told(t, task["conditions"])[1]; got != "ApprovalRequestApproved=False AfterStageTaskApprovalRequestRejected: ClusterApprovalRequest is rejected by ann" {
		t.Error(got)
	}
	if got := told(t, s["conditions"])[2]; got != "Succeeded=False UpdateRunFailed: request example-run-canary was rejected by ann" {
		t.Error(got)
	}
}

// The reason of a run whose rollback was refused names no rollback run, and a run whose rollback has
// another name than it asked for names that run.
func TestARunThatIsNotRolledBackSaysSo(t *testing.T) {
	for want, facts := range map[string]fleet.Rollback{
		"; the run is not rolled back: it has not changed any cluster": {Refused: "it has not changed any cluster"},
		"; the run is rolled back by run another: it was rejected":     {By: "another"},
	} {
		r := tutorialRig(t)
		r.decide("21:31:00", approval.Reject)
		r.run.Form(runstate.Key{}).RollbackRequest = &stages.RollbackRequest{Cause: stages.OnCommand, Run: "example-run-rollback", Message: "it was rejected"}
		r.facts.Rollback.Engine = facts
		if got := told(t, r.status()["conditions"])[2]; !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestARunThatIsRolledBackSaysSo(t *testing.T) {
	r := tutorialRig(t)
	r.decide("21:31:00", approval.Reject)
	r.run.Form(runstate.Key{}).RollbackRequest = &stages.RollbackRequest{Cause: stages.OnCommand, Run: "example-run-rollback", Message: "it was rejected"}
	got := told(t, r.status()["conditions"])[2]
	if want := "; the run is rolled back by run example-run-rollback: it was rejected"; !strings.HasSuffix(got, want) {
		t.Errorf("%v, want %s at its end", got, want)
	}
}

func TestWaitConditionHasEndAndSkip(t *testing.T) {
	s, clusters := tutorial()
	r := newRig(t, "10:00:00", s, false, clusters...)
	r.step("", stages.Input{})
	r.finish("10:00:10", "member2")
	task := func() any {
		return stageAt(r.status(), 0)["afterStageTaskStatus"].([]any)[0].(map[string]any)["conditions"]
	}
	wantTold(t, "wait", task(), "WaitTimeElapsed=False AfterStageTaskWaitTimeNotElapsed: The wait ends at 2025-07-22T10:01:10Z")
	r.command("10:00:20", stages.Command{Verb: stages.Skip, Scope: stages.SkipAfterWait, Name: "staging"})
	wantTold(t, "wait", task(), "WaitTimeElapsed=False AfterStageTaskSkipped: The wait was skipped")
}

func TestClustersThatAreCleanedAreInTheDeletionStage(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	r := newRig(t, "10:00:00", s, false, append(named("a"), placement.Cluster{Name: "left", Labels: map[string]string{"gone": "yes"}})...)
	r.step("", stages.Input{})
	r.finish("10:01:00", "a")
	got := r.status()
	if n := len(got["stagesStatus"].([]any)); n != 1 || got["policyObservedClusterCount"] != 1.0 {
		t.Errorf("%d stages, %v clusters observed", n, got["policyObservedClusterCount"])
	}
	deletion := got["deletionStageStatus"].(map[string]any)
	if deletion["stageName"] != "kubernetes-fleet.io/deleteStage" {
		t.Errorf("stage %v", deletion["stageName"])
	}
	left := deletion["clusters"].([]any)[0].(map[string]any)
	wantTold(t, "left", left["conditions"], "Started=True ClusterUpdatingStarted: Cluster update started")
	wantTold(t, "stage", deletion["conditions"], "Progressing=True StageUpdatingStarted: Clusters in the stage started updating")
}

// A cluster that had left when the run was planned is in the deletion stage by its name, and
// completes with the run.
func TestClustersThatLeftAreInTheDeletionStage(t *testing.T) {
	for _, cleaned := range []bool{false, true} {
		clusters := named("m")
		if cleaned {
			clusters = append(clusters, placement.Cluster{Name: "n", Labels: map[string]string{"gone": "yes"}})
		}
		r := newRig(t, "10:00:00", stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything()}}}, false, clusters...)
		left := *r.plan
		left.Left = []string{"a", "z"}
		r.facts.Plan = &left
		names := func() (out []string) {
			for _, c := range r.status()["deletionStageStatus"].(map[string]any)["clusters"].([]any) {
				c := c.(map[string]any)
				out = append(out, c["clusterName"].(string))
				if conditions := c["conditions"]; conditions != nil {
					out = append(out, told(t, conditions)...)
				}
			}
			return out
		}
		r.step("", stages.Input{})
		want := []string{"a", "z"}
		if cleaned {
			want = []string{"a", "n", "z"}
		}
		if diff := cmp.Diff(want, names()); diff != "" {
			t.Errorf("before the run has ended:\n%s", diff)
		}
		r.finish("10:01:00", "m")
		if cleaned {
			r.finish("10:02:00", "n")
		}
		const message = "The cluster has left: what it has is left there"
		done := []string{"Started=True ClusterUpdatingStarted: " + message, "Succeeded=True ClusterUpdatingSucceeded: " + message}
		want = append([]string{"a"}, done...)
		if cleaned {
			want = append(want, "n", "Started=True ClusterUpdatingStarted: Cluster update started", "Succeeded=True ClusterUpdatingSucceeded: Cluster update completed successfully")
		}
		want = append(append(want, "z"), done...)
		if diff := cmp.Diff(want, names()); diff != "" {
			t.Errorf("after the run has ended:\n%s", diff)
		}
		if n := r.status()["policyObservedClusterCount"]; n != 1.0 {
			t.Errorf("%v clusters are observed", n)
		}
		r.facts.Listed = 1
		if got := names(); slices.Contains(got, "a") {
			t.Errorf("there is no room, and %q are listed", got)
		}
	}
}

func TestARunThatCannotBePlannedTellsEveryProblem(t *testing.T) {
	at := stages.At(clock(t, "10:00:00"))
	err := errors.New("plan: [stages[0].name: wrong, stages[1].name: wrong too]" + strings.Repeat("x", 1<<20))
	got := told(t, jsonOf(t, InitializeFailed(api.ClusterScope, 3, at, err))["conditions"])
	if len(got) != 1 || !strings.HasPrefix(got[0], "Initialized=False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: plan: [stages[0].name: wrong, stages[1].name: wrong too]") {
		t.Errorf("%.300q", got)
	}
	if len(got[0]) > 32768 {
		t.Errorf("the message has %d bytes", len(got[0]))
	}
	wantTold(t, "again", jsonOf(t, Initializing(api.ClusterScope, 3, at, errors.New("timeout")))["conditions"],
		"Initialized=Unknown UpdateRunInitializing: the updateRun is tried again: timeout")
	wantTold(t, "forgotten", jsonOf(t, Forgotten(api.ClusterScope, 3, at, errors.New("gone")))["conditions"],
		"Succeeded=Unknown UpdateRunForgotten: gone")
}
