package kubefleet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// StrategySpecOf returns a strategy as a type of the API. It omits fields that the API does not
// have; a strategy from the API never has them.
func StrategySpecOf(s *stages.Strategy) *v1beta1.UpdateStrategySpec {
	out := &v1beta1.UpdateStrategySpec{Stages: make([]v1beta1.StageConfig, len(s.Stages))}
	out.ProgressDeadline = duration(s.ProgressDeadline.Duration)
	out.UnreachableDeadline = duration(s.UnreachableDeadline.Duration)
	out.Rollback = rollback.FormOf(s.Rollback)
	for i := range s.Stages {
		st := &s.Stages[i]
		out.Stages[i] = v1beta1.StageConfig{
			Name: st.Name, LabelSelector: st.Selector, MaxConcurrency: st.MaxConcurrency, MaxFailures: st.MaxFailures,
			BeforeStageTasks: stageTasks(st.Before), AfterStageTasks: stageTasks(st.After),
			BeforeStageChecks: ChecksOf(checksOfTasks(st.Before)), AfterStageChecks: ChecksOf(checksOfTasks(st.After)),
			Checks: ChecksOf(st.Checks), ClusterChecks: ChecksOf(st.ClusterChecks),
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
		task := v1beta1.StageTask{Type: v1beta1.StageTaskType(t.Type), Approval: rollback.ApprovalOf(t.Approval)}
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
