package once_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/once"
)

func object(apiVersion, kind string, spec, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x", "generation": int64(2)}, "spec": spec, "status": status,
	}}
}

func annotated(obj *unstructured.Unstructured, name string) *unstructured.Unstructured {
	obj.SetAnnotations(map[string]string{name: "true"})
	return obj
}

func TestClassOf(t *testing.T) {
	ttl := map[string]any{"ttlSecondsAfterFinished": int64(0)}
	for name, c := range map[string]struct {
		obj  *unstructured.Unstructured
		want once.Class
	}{
		"a Job":                         {object("batch/v1", "Job", nil, nil), once.Once},
		"a Job with a TTL":              {object("batch/v1", "Job", ttl, nil), once.Expiring},
		"a CronJob":                     {object("batch/v1", "CronJob", map[string]any{"jobTemplate": map[string]any{"spec": ttl}}, nil), once.Lasting},
		"a Pod":                         {object("v1", "Pod", map[string]any{"restartPolicy": "Never"}, nil), once.Once},
		"a Pod that is restarted":       {object("v1", "Pod", map[string]any{}, nil), once.Lasting},
		"a ConfigMap with such a field": {object("v1", "ConfigMap", ttl, nil), once.Lasting},
		"a Workflow":                    {object("argoproj.io/v1alpha1", "Workflow", nil, nil), once.Expiring},
		"a WorkflowTemplate":            {object("argoproj.io/v1alpha1", "WorkflowTemplate", map[string]any{"ttlStrategy": ttl}, nil), once.Lasting},
		"a PipelineRun":                 {object("tekton.dev/v1", "PipelineRun", nil, nil), once.Expiring},
		"a Pipeline":                    {object("tekton.dev/v1", "Pipeline", nil, nil), once.Lasting},
		"a JobSet":                      {object("jobset.x-k8s.io/v1alpha2", "JobSet", ttl, nil), once.Expiring},
		"a PyTorchJob":                  {object("kubeflow.org/v1", "PyTorchJob", map[string]any{"runPolicy": ttl}, nil), once.Expiring},
		"a JobTemplate":                 {object("flow.volcano.sh/v1alpha1", "JobTemplate", ttl, nil), once.Lasting},
		"a request of a certificate":    {object("certificates.k8s.io/v1", "CertificateSigningRequest", nil, nil), once.Once},
		"a backup of Velero":            {object("velero.io/v1", "Backup", nil, nil), once.Expiring},
		"a schedule of Velero":          {object("velero.io/v1", "Schedule", nil, nil), once.Lasting},
		"a migration of KubeVirt":       {object("kubevirt.io/v1", "VirtualMachineInstanceMigration", nil, nil), once.Expiring},
		"a machine of KubeVirt":         {object("kubevirt.io/v1", "VirtualMachine", nil, nil), once.Lasting},
		"an export of KubeVirt":         {object("export.kubevirt.io/v1beta1", "VirtualMachineExport", nil, nil), once.Expiring},
		"a SparkApplication":            {object("sparkoperator.k8s.io/v1beta2", "SparkApplication", map[string]any{"timeToLiveSeconds": int64(60)}, nil), once.Expiring},
		"a DataVolume":                  {object("cdi.kubevirt.io/v1beta1", "DataVolume", nil, nil), once.Lasting},
		"a DataVolume that is deleted":  {annotated(object("cdi.kubevirt.io/v1beta1", "DataVolume", nil, nil), "cdi.kubevirt.io/storage.deleteAfterCompletion"), once.Expiring},
		"another kind with the field":   {object("example.com/v1", "Thing", map[string]any{"timeToLiveSeconds": int64(60)}, nil), once.Lasting},
		"another kind that is deleted":  {annotated(object("v1", "ConfigMap", nil, nil), "cdi.kubevirt.io/storage.deleteAfterCompletion"), once.Lasting},
		"a DNS record":                  {object("example.com/v1", "Record", map[string]any{"ttl": int64(60)}, nil), once.Lasting},
		"a Deployment":                  {object("apps/v1", "Deployment", nil, nil), once.Lasting},
		"no spec":                       {object("example.com/v1", "Thing", nil, nil), once.Lasting},
	} {
		if got := once.ClassOf(c.obj); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestEndOf(t *testing.T) {
	condition := func(kind, status string) map[string]any {
		return map[string]any{"conditions": []any{"no condition", map[string]any{"type": kind, "status": status}}}
	}
	for name, c := range map[string]struct {
		obj  *unstructured.Unstructured
		want once.End
	}{
		"a Job that runs":          {object("batch/v1", "Job", nil, map[string]any{"active": int64(1)}), ""},
		"a Job that is suspended":  {object("batch/v1", "Job", nil, condition("Suspended", "True")), ""},
		"a Job that completed":     {object("batch/v1", "Job", nil, condition("Complete", "True")), once.Succeeded},
		"a Job that failed":        {object("batch/v1", "Job", nil, condition("Failed", "True")), once.Failed},
		"a Job that did not fail":  {object("batch/v1", "Job", nil, condition("Failed", "False")), ""},
		"a Pod that succeeded":     {object("v1", "Pod", nil, map[string]any{"phase": "Succeeded"}), once.Succeeded},
		"a Pod that runs":          {object("v1", "Pod", nil, map[string]any{"phase": "Running"}), ""},
		"a Pod that failed":        {object("v1", "Pod", nil, map[string]any{"phase": "Failed"}), once.Failed},
		"a PipelineRun that runs":  {object("tekton.dev/v1", "PipelineRun", nil, condition("Succeeded", "Unknown")), ""},
		"a PipelineRun":            {object("tekton.dev/v1", "PipelineRun", nil, condition("Succeeded", "True")), once.Succeeded},
		"a PipelineRun, failed":    {object("tekton.dev/v1", "PipelineRun", nil, condition("Succeeded", "False")), once.Failed},
		"a Workflow in error":      {object("argoproj.io/v1alpha1", "Workflow", nil, map[string]any{"phase": "Error"}), once.Failed},
		"a SparkApplication":       {object("sparkoperator.k8s.io/v1beta2", "SparkApplication", nil, map[string]any{"applicationState": map[string]any{"state": "COMPLETED"}}), once.Succeeded},
		"a backup, in part":        {object("velero.io/v1", "Backup", nil, map[string]any{"phase": "PartiallyFailed"}), once.Failed},
		"a backup, refused":        {object("velero.io/v1", "Backup", nil, map[string]any{"phase": "FailedValidation"}), once.Failed},
		"a backup, not yet ended":  {object("velero.io/v1", "Backup", nil, map[string]any{"phase": "FinalizingPartiallyFailed"}), ""},
		"an application, refused":  {object("sparkoperator.k8s.io/v1beta2", "SparkApplication", nil, map[string]any{"applicationState": map[string]any{"state": "SUBMISSION_FAILED"}}), once.Failed},
		"a request, approved":      {object("certificates.k8s.io/v1", "CertificateSigningRequest", nil, condition("Approved", "True")), ""},
		"a request, issued":        {object("certificates.k8s.io/v1", "CertificateSigningRequest", nil, map[string]any{"certificate": "LS0t"}), once.Succeeded},
		"a request, denied":        {object("certificates.k8s.io/v1", "CertificateSigningRequest", nil, condition("Denied", "True")), once.Failed},
		"a RayJob":                 {object("ray.io/v1", "RayJob", nil, map[string]any{"jobStatus": "SUCCEEDED"}), once.Succeeded},
		"a Volcano Job":            {object("batch.volcano.sh/v1alpha1", "Job", nil, map[string]any{"state": map[string]any{"phase": "Completed"}}), once.Succeeded},
		"an older version's end":   {object("example.com/v1", "Thing", nil, map[string]any{"observedGeneration": int64(1), "phase": "Succeeded"}), ""},
		"the end of this version":  {object("example.com/v1", "Thing", nil, map[string]any{"observedGeneration": int64(2), "phase": "Succeeded"}), once.Succeeded},
		"conditions that are none": {object("example.com/v1", "Thing", nil, map[string]any{"conditions": map[string]any{"a": "b"}}), ""},
		"no status":                {object("example.com/v1", "Thing", nil, nil), ""},
	} {
		if got := once.EndOf(c.obj); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
