package status

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// RollbackObjectFacts are what the object of a run is made of that the engine made
// to take another one back.
type RollbackObjectFacts struct {
	// Name and Namespace are those of the object.
	Name, Namespace string
	// Of, Placement and Strategy are the names of those objects, Of that of the run
	// which is taken back.
	Of, Placement, Strategy string
	// Seal says that the hub made it.
	Seal string
	Run  *step.Run
	Plan *stages.Plan
	// Snapshots are those of the placement that are kept, ascending.
	Snapshots []snapshot.Snapshot
}

// RollbackObject is the object by which people see such a run, and stop it.
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

// stateShown is the state that an object declares which is made of a run.
func stateShown(run *step.Run) kubefleet.State {
	if run.State == stages.Stopped || run.State == stages.Stopping && run.Ending == stages.Stopped {
		return kubefleet.Stop
	}
	return kubefleet.RunState
}
