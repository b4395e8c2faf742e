package status

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/kubefleet"
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
func RollbackObject(f *RollbackObjectFacts) *unstructured.Unstructured {
	spec := map[string]any{
		"placementName": f.Placement, "stagedRolloutStrategyName": f.Strategy, "state": string(stateShown(f.Run)),
	}
	if index := brought(f.Plan, f.Snapshots); index >= 0 {
		spec["resourceSnapshotIndex"] = indexText(index)
	}
	in := api.Scope(f.Namespace != "")
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(in.GVK(api.RunKind))
	u.SetNamespace(f.Namespace)
	u.SetName(f.Name)
	u.SetFinalizers([]string{api.FinalizerRun})
	u.SetLabels(map[string]string{api.LabelRollbackOf: f.Of})
	u.SetAnnotations(map[string]string{api.AnnotationSeal: f.Seal})
	return u
}

// stateShown returns the spec.state for the object of an existing run.
func stateShown(run *step.Run) kubefleet.State {
	if run.State == stages.Stopped || run.State == stages.Stopping && run.Ending == stages.Stopped {
		return kubefleet.Stop
	}
	return kubefleet.RunState
}
