package status

import (
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// applyStrategyOf returns the apply strategy of a placement, with the API's defaults.
func applyStrategyOf(p *fleet.Placement) *v1beta1.ApplyStrategy {
	if p == nil {
		return nil
	}
	return kubefleet.ApplyStrategyOf(p)
}

// updateStrategyOf returns the strategy in a plan as a type of the API, without the approvers of
// rollbacks and tasks, because the requests name them.
func updateStrategyOf(s *stages.Strategy) *v1beta1.UpdateStrategySpec {
	out := kubefleet.StrategySpecOf(s)
	if out.Rollback != nil {
		out.Rollback.Approval = nil
	}
	for i := range out.Stages {
		for j := range out.Stages[i].BeforeStageTasks {
			out.Stages[i].BeforeStageTasks[j].Approval = nil
		}
		for j := range out.Stages[i].AfterStageTasks {
			out.Stages[i].AfterStageTasks[j].Approval = nil
		}
	}
	return out
}
