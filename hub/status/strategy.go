package status

import (
	"cmp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// applyStrategy is the API's applyStrategy, with its defaults.
type applyStrategy struct {
	Type           apply.Type           `json:"type,omitempty"`
	Comparison     drift.Comparison     `json:"comparisonOption,omitempty"`
	WhenToApply    apply.WhenToApply    `json:"whenToApply,omitempty"`
	WhenToTakeOver apply.WhenToTakeOver `json:"whenToTakeOver,omitempty"`
	CoOwnership    bool                 `json:"allowCoOwnership,omitempty"`
	ServerSide     *serverSideApply     `json:"serverSideApplyConfig,omitempty"`
}

// serverSideApply goes with the type ServerSideApply.
type serverSideApply struct {
	Force bool `json:"force"`
}

func applyStrategyOf(p *fleet.Placement) *applyStrategy {
	if p == nil {
		return nil
	}
	s := &p.ApplyStrategy
	out := &applyStrategy{
		Type:           cmp.Or(s.Type, apply.ClientSide),
		Comparison:     cmp.Or(s.ComparisonOption, drift.Partial),
		WhenToApply:    cmp.Or(s.WhenToApply, apply.Always),
		WhenToTakeOver: cmp.Or(s.WhenToTakeOver, apply.TakeOverAlways),
		CoOwnership:    p.AllowCoOwnership,
	}
	if out.Type == apply.ServerSide {
		out.ServerSide = &serverSideApply{Force: !s.RefuseConflicts}
	}
	return out
}

// updateStrategy is the spec of a ClusterStagedUpdateStrategy.
type updateStrategy struct {
	Stages           []stageConfig     `json:"stages"`
	ProgressDeadline string            `json:"progressDeadline,omitempty"`
	Rollback         *rollbackStrategy `json:"rollback,omitempty"`
}

// rollbackStrategy says when and how a run is taken back, without who approves it,
// which the requests tell.
type rollbackStrategy struct {
	Causes []stages.RollbackCause `json:"causes,omitempty"`
	New    stages.NewClusters     `json:"newClusters,omitempty"`
}

type stageConfig struct {
	Name           string                `json:"name"`
	Selector       *metav1.LabelSelector `json:"labelSelector,omitempty"`
	SortKey        string                `json:"sortingLabelKey,omitempty"`
	MaxConcurrency *intstr.IntOrString   `json:"maxConcurrency,omitempty"`
	MaxFailures    *intstr.IntOrString   `json:"maxFailures,omitempty"`
	Before         []stageTask           `json:"beforeStageTasks,omitempty"`
	After          []stageTask           `json:"afterStageTasks,omitempty"`
	kubefleet.StageChecks
}

type stageTask struct {
	Type stages.TaskType `json:"type"`
	Wait string          `json:"waitTime,omitempty"`
}

// updateStrategyOf is the strategy that a plan froze, in the words of the API.
// What that has no words for, which a strategy of the API cannot have either, is
// left out.
func updateStrategyOf(s *stages.Strategy) *updateStrategy {
	out := &updateStrategy{Stages: make([]stageConfig, len(s.Stages))}
	if s.ProgressDeadline > 0 {
		out.ProgressDeadline = durationText(s.ProgressDeadline)
	}
	if b := s.Rollback; b != nil {
		out.Rollback = &rollbackStrategy{Causes: b.Causes, New: b.New}
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		out.Stages[i] = stageConfig{
			Name: st.Name, Selector: st.Selector, SortKey: st.SortKey, MaxConcurrency: st.MaxConcurrency, MaxFailures: st.MaxFailures,
			Before: stageTasks(st.Before), After: stageTasks(st.After), StageChecks: kubefleet.StageChecksOf(st),
		}
	}
	return out
}

func stageTasks(tasks []stages.Task) []stageTask {
	var out []stageTask
	for _, t := range tasks {
		if t.Type == stages.ScheduledStart || t.Type == stages.CheckTask { // checks are a list of their own
			continue
		}
		task := stageTask{Type: t.Type}
		if t.Type == stages.TimedWait {
			task.Wait = durationText(t.Wait)
		}
		out = append(out, task)
	}
	return out
}

// durationText is a duration in the units that the API takes, which are not smaller
// than seconds.
func durationText(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	return d.String()
}
