package api

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// AnnotationRunUID ties the object of a run to the one engine run that was created for it. It holds
// the UIDs of both, once the engine run was admitted. A run with this annotation is never begun
// again, even if the engine run is gone. In a copy of the object it has no effect.
const AnnotationRunUID = "slipway.dev/run-uid"

// IsBegun reports whether the engine run of an object was created.
func IsBegun(run *unstructured.Unstructured) bool {
	return strings.HasPrefix(run.GetAnnotations()[AnnotationRunUID], string(run.GetUID())+"/")
}

// InitializeFailed reports whether the run was refused, in this generation of its spec or in an
// earlier one.
func InitializeFailed(obj *unstructured.Unstructured) bool {
	return ConditionOf(obj, ConditionInitialized).Status == "False"
}

// HasEnded reports whether the condition Succeeded gives the outcome of a run. It accepts any
// generation, because an earlier hub or KubeFleet may have written the condition.
func HasEnded(obj *unstructured.Unstructured) bool {
	status := ConditionOf(obj, ConditionSucceeded).Status
	return status == "True" || status == "False"
}

// ShowsRun reports whether the hub created the object to show a run, or the object is a copy of
// such an object. It requests no run.
func ShowsRun(obj *unstructured.Unstructured) bool { return obj.GetAnnotations()[AnnotationSeal] != "" }

// NewRun returns a run. It has no index rather than an empty one, which is what the Go type writes.
func NewRun(in Scope, spec *v1beta1.UpdateRunSpec) (*unstructured.Unstructured, error) {
	u, err := New(in.GVK(RunKind), spec)
	if err == nil && spec.ResourceSnapshotIndex == "" {
		unstructured.RemoveNestedField(u.Object, "spec", "resourceSnapshotIndex")
	}
	return u, err
}

// RunOfRequest returns the name of the run of an approval request.
func RunOfRequest(request *unstructured.Unstructured) string {
	return SpecString(request, "parentStageRollout") // for each request of all runs, so nothing else is decoded
}

// PlacementOf returns the name of the placement of a run.
func PlacementOf(run *unstructured.Unstructured) string {
	return Spec[v1beta1.UpdateRunSpec](run).PlacementName
}

// StateOf returns the state that the spec of a run asks for, or absent if it names none.
func StateOf(obj *unstructured.Unstructured, absent v1beta1.State) v1beta1.State {
	return cmp.Or(Spec[v1beta1.UpdateRunSpec](obj).State, absent)
}

// RolloutOf returns the rollout type of a placement, by default RollingUpdate.
func RolloutOf(placement *unstructured.Unstructured) v1beta1.RolloutStrategyType {
	return cmp.Or(Spec[v1beta1.PlacementSpec](placement).Strategy.Type, v1beta1.RollingUpdateRolloutStrategyType)
}
