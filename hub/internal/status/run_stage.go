package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// stage returns the status of the stage at index i of the plan.
func (p *runBuilder) stage(i int) v1beta1.StageUpdatingStatus {
	st, run := &p.Plan.Stages[i], &p.Run.Form(runstate.Key{}).Stages[i]
	s := v1beta1.StageUpdatingStatus{
		StageName: st.Name, Clusters: make([]v1beta1.ClusterUpdatingStatus, 0, len(p.sights[i])), ClusterCounts: p.counts[i].form(),
		BeforeStageTaskStatus: p.tasks(i, approval.Before), AfterStageTaskStatus: p.tasks(i, approval.After),
		StartTime: api.SecondsOrNil(run.Started), Conditions: p.stageConditions(i),
		BeforeStageCheckStatus: gateChecks(run, approval.Before), CheckStatus: checkStatuses(run.Checks), AfterStageCheckStatus: gateChecks(run, approval.After),
	}
	if isLast(p.Plan, i) {
		s.StageName = api.DeleteStage
	}
	switch {
	case run.Ended != 0:
		s.EndTime = api.SecondsOrNil(run.Ended)
		if run.Started == 0 {
			s.StartTime = s.EndTime
		}
	case run.Started != 0 && p.Run.IsEnded():
		s.EndTime = api.SecondsOrNil(p.Run.Ended)
	}
	for _, c := range p.sights[i] {
		s.Clusters = append(s.Clusters, p.cluster(i, c))
	}
	return s
}

// stageConditions returns the conditions of a stage; none if the run has not reached it.
func (p *runBuilder) stageConditions(i int) []metav1.Condition {
	run := &p.Run.Form(runstate.Key{}).Stages[i]
	switch {
	case run.Reached == 0:
		return nil
	case run.State == stages.Completed:
		return p.stageSucceeded(run.Done, run.Ended)
	case run.State == stages.Skipped:
		return p.stageSkipped(i)
	case p.Run.State == stages.Stopping:
		return []metav1.Condition{p.isUnknown(api.ConditionProgressing, api.ReasonStageStopping,
			"Waiting for all the updating clusters to finish updating before completing the stop process", p.History.stopping)}
	case p.Run.State == stages.Stopped:
		return []metav1.Condition{p.isFalse(api.ConditionProgressing, api.ReasonStageStopped, p.stageStoppedMessage(i), p.History.stopped)}
	case p.Run.IsEnded():
		return []metav1.Condition{
			p.isFalse(api.ConditionProgressing, api.ReasonStageFailed, "Stage update aborted due to a non-recoverable error", p.Run.Ended),
			p.isFalse(api.ConditionSucceeded, api.ReasonStageFailed, p.Run.Reason, p.Run.Ended),
		}
	default:
		return []metav1.Condition{p.stageRunning(i)}
	}
}

func (p *runBuilder) stageSucceeded(done, ended stages.Instant) []metav1.Condition {
	return []metav1.Condition{
		p.isFalse(api.ConditionProgressing, api.ReasonStageSucceeded, "All clusters in the stage are updated and after-stage tasks are completed", done),
		p.isTrue(api.ConditionSucceeded, api.ReasonStageSucceeded, "Stage update completed successfully", ended),
	}
}

func (p *runBuilder) stageSkipped(i int) []metav1.Condition {
	message := "Stage skipped because it has no clusters"
	if n := p.counts[i].total; n > 0 {
		message = fmt.Sprintf("Stage skipped because its %d cluster(s) were skipped", n)
	}
	at := p.Run.Form(runstate.Key{}).Stages[i].Ended
	return []metav1.Condition{
		p.isFalse(api.ConditionProgressing, api.ReasonStageSkipped, message, at),
		p.isTrue(api.ConditionSucceeded, api.ReasonStageSkipped, message, at),
	}
}

func (p *runBuilder) stageStoppedMessage(i int) string {
	if n := p.counts[i].inFlight; n > 0 {
		return fmt.Sprintf("The stage is stopped, waiting to be resumed; %d cluster(s) had not finished in time", n)
	}
	return "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
}

func (p *runBuilder) stageRunning(i int) metav1.Condition {
	run := &p.Run.Form(runstate.Key{}).Stages[i]
	switch {
	case run.Started == 0:
		return p.isFalse(api.ConditionProgressing, api.ReasonStageWaiting,
			"Not all before-stage tasks are completed, waiting for "+awaited(run, approval.Before, "approval"), max(run.Reached, p.History.resumed))
	case run.Done != 0:
		return p.isFalse(api.ConditionProgressing, api.ReasonStageWaiting,
			"All clusters in the stage are updated, waiting for "+awaited(run, approval.After, "after-stage tasks to complete"), max(run.Done, p.History.resumed))
	default:
		return p.isTrue(api.ConditionProgressing, api.ReasonStageStarted, "Clusters in the stage started updating"+holding(run), max(run.Started, p.History.resumed))
	}
}

// tasks returns the tasks before or after a stage, whether or not the run has reached them. It
// omits the tasks of groups, because no strategy of the API has any.
func (p *runBuilder) tasks(i int, when approval.When) []v1beta1.StageTaskStatus {
	var out []v1beta1.StageTaskStatus
	for j := range p.Plan.Stages[i].Gates {
		pg := &p.Plan.Stages[i].Gates[j]
		if pg.When != when || pg.Type == stages.ScheduledStart || pg.Type == stages.CheckTask { // KubeFleet's API has no task of these types
			continue
		}
		t := v1beta1.StageTaskStatus{Type: v1beta1.StageTaskType(pg.Type)}
		if pg.Type == stages.Approval {
			t.ApprovalRequestName = p.Plan.Strategy.Requests.RequestName(p.Name, p.Plan.Stages[i].Name, "", when)
		}
		if g := reached(&p.Run.Form(runstate.Key{}).Stages[i], pg); g != nil {
			t.Conditions = p.taskConditions(p.Plan.Stages[i].Name, g)
		}
		out = append(out, t)
	}
	return out
}

// reached returns the gate of a planned task, nil if the run has not reached it.
func reached(run *runstate.StageRun, pg *stages.PlannedGate) *runstate.Gate {
	for i := range run.Gates {
		if g := &run.Gates[i]; g.When == pg.When && g.Type == pg.Type {
			return g
		}
	}
	return nil
}

func (p *runBuilder) taskConditions(stage string, g *runstate.Gate) []metav1.Condition {
	if g.Type == stages.TimedWait {
		return []metav1.Condition{p.waitCondition(g)}
	}
	object := p.requestObject()
	for _, h := range p.Blocked {
		if h.Stage == stage && h.When == g.When {
			return []metav1.Condition{p.isFalse(api.ConditionRequestCreated, p.taskReason(g, api.ReasonTaskNameTaken), h.Why, g.Opened)}
		}
	}
	out := []metav1.Condition{p.isTrue(api.ConditionRequestCreated, p.taskReason(g, api.ReasonTaskCreated), object+" is created", g.Opened)}
	switch g.State {
	case stages.Completed:
		return append(out, p.isTrue(api.ConditionRequestApproved, p.taskReason(g, api.ReasonTaskApproved), object+" is approved", g.Ended))
	case stages.Failed:
		return append(out, p.isFalse(api.ConditionRequestApproved, p.taskReason(g, api.ReasonTaskRejected), object+" is rejected"+byLast(g), g.Ended))
	case stages.Skipped:
		return append(out, p.isFalse(api.ConditionRequestApproved, p.taskReason(g, api.ReasonTaskSkipped), object+" is not needed any more", g.Ended))
	default:
		return out
	}
}

// requestObject returns the name of a request's object in messages.
func (p *runBuilder) requestObject() string {
	if p.Setting.Behaviour().TasksBySide {
		return p.scope().Kind(api.ApprovalKind)
	}
	return "ApprovalRequest object"
}

// taskReason returns a reason of a task's condition. The reason starts with the side of the stage
// if the setting says so.
func (p *runBuilder) taskReason(g *runstate.Gate, reason string) string {
	if p.Setting.Behaviour().TasksBySide {
		return string(g.When) + reason
	}
	return reason
}

// waitCondition returns the condition of a wait. Unlike in KubeFleet, the message has the end of
// the wait.
func (p *runBuilder) waitCondition(g *runstate.Gate) metav1.Condition {
	switch g.State {
	case stages.Completed:
		return p.isTrue(api.ConditionWaitElapsed, api.ReasonTaskElapsed, "Wait time elapsed", g.Ended)
	case stages.Skipped:
		return p.isFalse(api.ConditionWaitElapsed, p.taskReason(g, api.ReasonTaskSkipped), "The wait was skipped", g.Ended)
	default:
		return p.isFalse(api.ConditionWaitElapsed, api.ReasonTaskNotElapsed,
			"The wait ends at "+g.Until.Time().Format(time.RFC3339), g.Opened)
	}
}

// byLast returns the text for the author of the last decision; empty if unknown.
func byLast(g *runstate.Gate) string {
	if n := len(g.Decisions); n > 0 && g.Decisions[n-1].By.Name != "" {
		return " by " + g.Decisions[n-1].By.Name
	}
	return ""
}
