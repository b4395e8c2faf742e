package status

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// applyStrategyOf returns the apply strategy of a placement, with the API's defaults.
func applyStrategyOf(p *fleet.Placement) *v1beta1.ApplyStrategy {
	if p == nil {
		return nil
	}
	s := &p.ApplyStrategy
	out := &v1beta1.ApplyStrategy{
		Type:             v1beta1.ApplyStrategyType(cmp.Or(s.Type, apply.ClientSide)),
		ComparisonOption: v1beta1.ComparisonOptionType(cmp.Or(s.ComparisonOption, drift.Partial)),
		WhenToApply:      v1beta1.WhenToApplyType(cmp.Or(s.WhenToApply, apply.Always)),
		WhenToTakeOver:   v1beta1.WhenToTakeOverType(cmp.Or(s.WhenToTakeOver, apply.TakeOverAlways)),
		AllowCoOwnership: p.AllowCoOwnership,
	}
	if out.Type == v1beta1.ApplyStrategyTypeServerSideApply {
		out.ServerSideApplyConfig = &v1beta1.ServerSideApplyConfig{ForceConflicts: !s.RefuseConflicts}
	}
	return out
}

// updateStrategyOf returns the strategy in a plan as a type of the API. It omits fields that the
// API does not have; a strategy from the API never has them. It also omits the approvers of
// rollbacks and tasks, because the requests name them.
func updateStrategyOf(s *stages.Strategy) *v1beta1.UpdateStrategySpec {
	out := &v1beta1.UpdateStrategySpec{Stages: make([]v1beta1.StageConfig, len(s.Stages))}
	if s.ProgressDeadline.Duration > 0 {
		out.ProgressDeadline = &metav1.Duration{Duration: s.ProgressDeadline.Duration}
	}
	if b := s.Rollback; b != nil {
		out.Rollback = &v1beta1.RollbackConfig{NewClusters: v1beta1.RollbackOfNewClusters(b.New)}
		for _, cause := range b.Causes {
			out.Rollback.Causes = append(out.Rollback.Causes, v1beta1.RollbackCause(cause))
		}
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		out.Stages[i] = v1beta1.StageConfig{
			Name: st.Name, LabelSelector: st.Selector, MaxConcurrency: st.MaxConcurrency, MaxFailures: st.MaxFailures,
			BeforeStageTasks: stageTasks(st.Before), AfterStageTasks: stageTasks(st.After),
			BeforeStageChecks: kubefleet.ChecksOf(checksOfTasks(st.Before)), AfterStageChecks: kubefleet.ChecksOf(checksOfTasks(st.After)),
			Checks: kubefleet.ChecksOf(st.Checks), ClusterChecks: kubefleet.ChecksOf(st.ClusterChecks),
		}
		if st.SortKey != "" {
			out.Stages[i].SortingLabelKey = &st.SortKey
		}
	}
	return out
}

// stageTasks returns the tasks that the API has types for.
func stageTasks(tasks []stages.Task) []v1beta1.StageTask {
	var out []v1beta1.StageTask
	for _, t := range tasks {
		if t.Type == stages.ScheduledStart || t.Type == stages.CheckTask { // the API has a separate list of checks
			continue
		}
		task := v1beta1.StageTask{Type: v1beta1.StageTaskType(t.Type)}
		if t.Type == stages.TimedWait {
			task.WaitTime = &metav1.Duration{Duration: t.Wait.Duration}
		}
		out = append(out, task)
	}
	return out
}

// checksOfTasks returns the checks of all tasks.
func checksOfTasks(tasks []stages.Task) (out []check.Check) {
	for i := range tasks {
		out = append(out, tasks[i].Checks...)
	}
	return out
}
