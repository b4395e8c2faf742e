// Package once decides which objects do their work once, such as Jobs, and how they ended. The
// engine must not apply such an object again because it is gone: see package member.
package once

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Class says whether an object does its work once.
type Class int

const (
	// Lasting is an object that stays, and must be there.
	Lasting Class = iota
	// Once is an object that does its work once and stays until a client deletes it.
	Once
	// Expiring is an object that does its work once and that a controller deletes afterwards.
	Expiring
)

// End is how an object ended.
type End string

// The ends. An object that runs, or whose end was not seen, has none.
const (
	Succeeded End = "Succeeded"
	Failed    End = "Failed"
)

// ClassOf returns the class of an object by its kind and its spec. A Job with a time to live is
// Expiring, and so is an object of another kind that has such a field at the top of its spec. Kinds
// that a controller or a pruner deletes by its own configuration are Expiring without a field: runs
// of Tekton and of Argo Workflows, backups and restores of Velero, migrations and exports of
// KubeVirt. A CertificateSigningRequest is Once, because its controller deletes it even if nobody
// has approved it.
func ClassOf(obj *unstructured.Unstructured) Class {
	gvk := obj.GroupVersionKind()
	spec, _ := obj.Object["spec"].(map[string]any)
	switch gvk.Group {
	case "":
		if policy := spec["restartPolicy"]; gvk.Kind == "Pod" && (policy == "Never" || policy == "OnFailure") {
			return Once
		}
		return Lasting
	case "argoproj.io", "tekton.dev":
		if slices.Contains(pruned[gvk.Group], gvk.Kind) {
			return Expiring
		}
		return Lasting
	}
	switch {
	case slices.Contains(pruned[gvk.Group], gvk.Kind), expires(spec) && !isTemplate(gvk.Kind),
		gvk.Group == "sparkoperator.k8s.io" && gvk.Kind == "SparkApplication" && spec["timeToLiveSeconds"] != nil,
		gvk.Group == "cdi.kubevirt.io" && obj.GetAnnotations()[deleteAfterCompletion] == "true":
		return Expiring
	case gvk.Group == "batch" && gvk.Kind == "Job", gvk.Group == "certificates.k8s.io" && gvk.Kind == "CertificateSigningRequest":
		return Once
	}
	return Lasting
}

// pruned are the kinds by group that are deleted some time after they ended, whatever their spec.
var pruned = map[string][]string{ //nolint:gochecknoglobals // a constant table
	"argoproj.io":        {"Workflow"},
	"export.kubevirt.io": {"VirtualMachineExport"},
	"kubevirt.io":        {"VirtualMachineInstanceMigration"},
	"tekton.dev":         {"PipelineRun", "TaskRun", "CustomRun", "Run"},
	"velero.io":          {"Backup", "Restore"},
}

// deleteAfterCompletion is the annotation of a DataVolume of KubeVirt that is deleted once its
// claim is filled.
const deleteAfterCompletion = "cdi.kubevirt.io/storage.deleteAfterCompletion"

// expires reports whether a spec says that the object is deleted some time after it ended.
func expires(spec map[string]any) bool {
	policy, _ := spec["runPolicy"].(map[string]any) // of the jobs of Kubeflow
	return spec["ttlSecondsAfterFinished"] != nil || policy["ttlSecondsAfterFinished"] != nil || spec["ttlStrategy"] != nil
}

// isTemplate reports whether objects of a kind only describe other objects, which do the work and
// end.
func isTemplate(kind string) bool {
	return strings.HasSuffix(kind, "Template") || strings.HasPrefix(kind, "Cron")
}

// EndOf returns how an object that does its work once ended, by its status. It returns "" if the
// object has not ended, or if its status is about an older generation.
func EndOf(obj *unstructured.Unstructured) End {
	status, _ := obj.Object["status"].(map[string]any)
	if seen, ok := status["observedGeneration"].(int64); ok && seen < obj.GetGeneration() {
		return ""
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if end := endOfCondition(c["type"], c["status"]); end != "" {
			return end
		}
	}
	switch obj.GroupVersionKind().Group {
	case "batch":
		return "" // a Job ends by its conditions alone
	case "certificates.k8s.io":
		if issued, _ := status["certificate"].(string); issued != "" {
			return Succeeded
		}
		return ""
	}
	return endOfPhase(phaseOf(status))
}

func endOfCondition(kind, status any) End {
	switch {
	case status == "True" && (kind == "Complete" || kind == "Completed" || kind == "Succeeded"):
		return Succeeded
	case status == "True" && (kind == "Failed" || kind == "Denied"), status == "False" && kind == "Succeeded":
		return Failed
	}
	return ""
}

// phaseOf returns the word for the state of an object, as Pods and most custom kinds have it.
func phaseOf(status map[string]any) string {
	state, _ := status["state"].(map[string]any)
	application, _ := status["applicationState"].(map[string]any)
	for _, v := range []any{status["phase"], status["state"], state["phase"], status["jobStatus"], application["state"]} {
		if word, ok := v.(string); ok && word != "" {
			return word
		}
	}
	return ""
}

func endOfPhase(word string) End {
	switch strings.ToLower(word) {
	case "succeeded", "completed", "complete":
		return Succeeded
	case "failed", "error", "aborted", "partiallyfailed", "failedvalidation", "submission_failed":
		return Failed
	}
	return ""
}
