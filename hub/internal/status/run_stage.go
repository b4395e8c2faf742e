package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// stageBuilder builds the status of a stage.
type stageBuilder struct {
	*runBuilder
	planned  *stages.PlannedStage
	run      *runstate.StageRun
	count    *clusterCounts
	clusters []v1beta1.ClusterUpdatingStatus
	// removes reports that it is the removal stage.
	removes bool
}

// stage returns the status of the stage at index i of the plan.
func (p *runBuilder) stage(i int) v1beta1.StageUpdatingStatus {
	b := &stageBuilder{
		runBuilder: p, planned: &p.Plan.Stages[i], run: &p.Run.Form(runstate.Key{}).Stages[i], count: &p.counts[i],
		clusters: make([]v1beta1.ClusterUpdatingStatus, 0, len(p.listing.byStage[i])), removes: isLast(p.Plan, i),
	}
	for _, c := range p.listing.byStage[i] {
		b.clusters = append(b.clusters, p.cluster(i, c))
	}
	return b.status()
}

func (b *stageBuilder) status() v1beta1.StageUpdatingStatus {
	s := v1beta1.StageUpdatingStatus{
		StageName: b.planned.Name, Clusters: b.clusters, ClusterCounts: b.count.form(),
		BeforeStageTaskStatus: b.tasks(approval.Before), AfterStageTaskStatus: b.tasks(approval.After),
		StartTime: api.SecondsOrNil(b.run.Started), Conditions: b.stageConditions(),
		BeforeStageCheckStatus: gateChecks(b.run, approval.Before), CheckStatus: checkStatuses(b.run.Checks), AfterStageCheckStatus: gateChecks(b.run, approval.After),
	}
	if b.removes {
		s.StageName = api.DeleteStage
	}
	switch {
	case b.run.Ended != 0:
		s.EndTime = api.SecondsOrNil(b.run.Ended)
		if b.run.Started == 0 {
			s.StartTime = s.EndTime
		}
	case b.run.Started != 0 && b.Run.IsEnded():
		s.EndTime = api.SecondsOrNil(b.Run.Ended)
	}
	return s
}

// stageConditions returns the conditions of a stage; none if the run has not reached it.
func (b *stageBuilder) stageConditions() []metav1.Condition {
	switch {
	case b.run.Reached == 0:
		return nil
	case b.run.State == stages.Completed:
		return b.stageSucceeded(b.run.Done, b.run.Ended)
	case b.run.State == stages.Skipped:
		return b.skipped()
	case b.Run.State == stages.Stopping:
		return []metav1.Condition{b.isUnknown(api.ConditionProgressing, api.ReasonStageStopping,
			"Waiting for all the updating clusters to finish updating before completing the stop process", b.History.stopping)}
	case b.Run.State == stages.Stopped:
		return []metav1.Condition{b.isFalse(api.ConditionProgressing, api.ReasonStageStopped, b.stopped(), b.History.stopped)}
	case b.Run.IsEnded():
		return []metav1.Condition{
			b.isFalse(api.ConditionProgressing, api.ReasonStageFailed, "Stage update aborted due to a non-recoverable error", b.Run.Ended),
			b.isFalse(api.ConditionSucceeded, api.ReasonStageFailed, b.Run.Reason, b.Run.Ended),
		}
	default:
		return []metav1.Condition{b.inProgress()}
	}
}

// stageSucceeded returns the conditions of a stage whose clusters are done, and which ended then or
// later.
func (t conditions) stageSucceeded(done, ended stages.Instant) []metav1.Condition {
	return []metav1.Condition{
		t.isFalse(api.ConditionProgressing, api.ReasonStageSucceeded, "All clusters in the stage are updated and after-stage tasks are completed", done),
		t.isTrue(api.ConditionSucceeded, api.ReasonStageSucceeded, "Stage update completed successfully", ended),
	}
}

func (b *stageBuilder) skipped() []metav1.Condition {
	message := "Stage skipped because it has no clusters"
	if n := b.count.total; n > 0 {
		message = fmt.Sprintf("Stage skipped because its %d cluster(s) were skipped", n)
	}
	return []metav1.Condition{
		b.isFalse(api.ConditionProgressing, api.ReasonStageSkipped, message, b.run.Ended),
		b.isTrue(api.ConditionSucceeded, api.ReasonStageSkipped, message, b.run.Ended),
	}
}

func (b *stageBuilder) stopped() string {
	if n := b.count.inFlight; n > 0 {
		return fmt.Sprintf("The stage is stopped, waiting to be resumed; %d cluster(s) had not finished in time", n)
	}
	return "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
}

func (b *stageBuilder) inProgress() metav1.Condition {
	switch {
	case b.run.Started == 0:
		return b.isFalse(api.ConditionProgressing, api.ReasonStageWaiting,
			"Not all before-stage tasks are completed, waiting for "+awaited(b.run, approval.Before, "approval"), max(b.run.Reached, b.History.resumed))
	case b.run.Done != 0:
		return b.isFalse(api.ConditionProgressing, api.ReasonStageWaiting,
			"All clusters in the stage are updated, waiting for "+awaited(b.run, approval.After, "after-stage tasks to complete"), max(b.run.Done, b.History.resumed))
	default:
		return b.isTrue(api.ConditionProgressing, api.ReasonStageStarted, "Clusters in the stage started updating"+holding(b.run), max(b.run.Started, b.History.resumed))
	}
}
