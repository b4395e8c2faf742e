package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// AnnotationRunUID ties a run to the one run of the engine that was made for it:
// it holds the uids of both, once that was admitted. A run that has it is never
// begun again, whatever became of the engine's. In a copy of a run it means nothing.
const AnnotationRunUID = "slipway.dev/run-uid"

// IsBegun reports whether the engine's run of an object was made.
func IsBegun(run *unstructured.Unstructured) bool {
	return strings.HasPrefix(run.GetAnnotations()[AnnotationRunUID], string(run.GetUID())+"/")
}

// InitializeFailed reports whether the run was refused as it is; as in KubeFleet that
// is the end of it.
func InitializeFailed(obj *unstructured.Unstructured) bool {
	return ConditionOf(obj, ConditionInitialized).Is("False", obj.GetGeneration())
}

// HasEnded reports whether the condition Succeeded says how a run ended, in whichever generation: a hub before this one, or
// KubeFleet, may have written it.
func HasEnded(obj *unstructured.Unstructured) bool {
	status := ConditionOf(obj, ConditionSucceeded).Status
	return status == "True" || status == "False"
}

// ShowsRun tells of an object that the hub made it of a run, or that it is a copy of
// such a one: it orders none.
func ShowsRun(obj *unstructured.Unstructured) bool { return obj.GetAnnotations()[AnnotationSeal] != "" }

// StateOf returns the state that the spec of a run asks for, or absent if it names none.
func StateOf(obj *unstructured.Unstructured, absent kubefleet.State) kubefleet.State {
	if state := SpecString(obj, "state"); state != "" {
		return kubefleet.State(state)
	}
	return absent
}

// RolloutOf is how a placement says that its changes reach the clusters.
func RolloutOf(placement *unstructured.Unstructured) kubefleet.RolloutType {
	if kind := SpecString(placement, "strategy", "type"); kind != "" {
		return kubefleet.RolloutType(kind)
	}
	return kubefleet.RollingUpdate
}
