package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// tasks returns the tasks before or after a stage, whether or not the run has reached them. It
// omits the tasks of groups, because no strategy of the API has any.
func (b *stageBuilder) tasks(when approval.When) []v1beta1.StageTaskStatus {
	var out []v1beta1.StageTaskStatus
	for j := range b.planned.Gates {
		pg := &b.planned.Gates[j]
		if pg.When != when || pg.Type == stages.ScheduledStart || pg.Type == stages.CheckTask { // KubeFleet's API has no task of these types
			continue
		}
		t := v1beta1.StageTaskStatus{Type: v1beta1.StageTaskType(pg.Type)}
		if pg.Type == stages.Approval {
			t.ApprovalRequestName = b.Plan.Strategy.Requests.RequestName(b.Name, b.planned.Name, "", when)
		}
		if g := reached(b.run, pg); g != nil {
			t.Conditions = b.taskConditions(g)
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

func (b *stageBuilder) taskConditions(g *runstate.Gate) []metav1.Condition {
	if g.Type == stages.TimedWait {
		return []metav1.Condition{b.waitCondition(g)}
	}
	object := b.requestObject()
	for _, h := range b.Blocked {
		if h.Stage == b.planned.Name && h.When == g.When {
			return []metav1.Condition{b.isFalse(api.ConditionRequestCreated, b.taskReason(g, api.ReasonTaskNameTaken), h.Why, g.Opened)}
		}
	}
	out := []metav1.Condition{b.isTrue(api.ConditionRequestCreated, b.taskReason(g, api.ReasonTaskCreated), object+" is created", g.Opened)}
	switch g.State {
	case stages.Completed:
		return append(out, b.isTrue(api.ConditionRequestApproved, b.taskReason(g, api.ReasonTaskApproved), object+" is approved", g.Ended))
	case stages.Failed:
		return append(out, b.isFalse(api.ConditionRequestApproved, b.taskReason(g, api.ReasonTaskRejected), object+" is rejected"+byLast(g), g.Ended))
	case stages.Skipped:
		return append(out, b.isFalse(api.ConditionRequestApproved, b.taskReason(g, api.ReasonTaskSkipped), object+" is not needed any more", g.Ended))
	default:
		return out
	}
}

// requestObject returns the name of a request's object in messages.
func (b *stageBuilder) requestObject() string {
	if b.Setting.Behaviour().TasksBySide {
		return b.scope().Kind(api.ApprovalKind)
	}
	return "ApprovalRequest object"
}

// taskReason returns a reason of a task's condition. The reason starts with the side of the stage
// if the setting says so.
func (b *stageBuilder) taskReason(g *runstate.Gate, reason string) string {
	if b.Setting.Behaviour().TasksBySide {
		return string(g.When) + reason
	}
	return reason
}

// waitCondition returns the condition of a wait. Unlike in KubeFleet, the message has the end of
// the wait.
func (b *stageBuilder) waitCondition(g *runstate.Gate) metav1.Condition {
	switch g.State {
	case stages.Completed:
		return b.isTrue(api.ConditionWaitElapsed, api.ReasonTaskElapsed, "Wait time elapsed", g.Ended)
	case stages.Skipped:
		return b.isFalse(api.ConditionWaitElapsed, b.taskReason(g, api.ReasonTaskSkipped), "The wait was skipped", g.Ended)
	default:
		return b.isFalse(api.ConditionWaitElapsed, api.ReasonTaskNotElapsed,
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
