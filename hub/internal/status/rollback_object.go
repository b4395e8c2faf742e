package status

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// RollbackObjectFacts are the input of [RollbackObject].
type RollbackObjectFacts struct {
	// Name and Namespace identify the object.
	Name, Namespace string
	// Of, Placement and Strategy are the names of other objects; Of is the run that is rolled back.
	Of, Placement, Strategy string
	// Seal proves that the hub made the object.
	Seal string
	Run  *step.Run
	Plan *stages.Plan
	// Snapshots are the kept snapshots of the placement, ascending.
	Snapshots []snapshot.Snapshot
}

// RollbackObject returns the object of a rollback run that the engine created. People see the run
// by it, and can stop it.
func RollbackObject(f *RollbackObjectFacts) (*unstructured.Unstructured, error) {
	u, err := api.NewRun(api.Scope(f.Namespace != ""), &v1beta1.UpdateRunSpec{
		PlacementName: f.Placement, StagedUpdateStrategyName: f.Strategy, State: stateShown(f.Run),
		ResourceSnapshotIndex: indexText(brought(f.Plan, f.Snapshots)),
	})
	if err != nil {
		return nil, err
	}
	u.SetNamespace(f.Namespace)
	u.SetName(f.Name)
	u.SetFinalizers([]string{api.FinalizerRun})
	u.SetLabels(map[string]string{api.LabelRollbackOf: f.Of})
	u.SetAnnotations(map[string]string{api.AnnotationSeal: f.Seal})
	return u, nil
}

// stateShown returns the spec.state for the object of an existing run.
func stateShown(run *step.Run) v1beta1.State {
	if run.State == stages.Stopped || run.State == stages.Stopping && run.Ending == stages.Stopped {
		return v1beta1.StateStop
	}
	return v1beta1.StateRun
}
