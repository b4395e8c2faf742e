package memory

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Deployments returns a function for [Cluster.React] that simulates the controller of
// Deployments. All replicas become available at once, or none if broken returns true for one of
// their images; a nil broken breaks no image. The status of other objects does not change.
func Deployments(broken func(image string) bool) func(*unstructured.Unstructured) map[string]any {
	return func(obj *unstructured.Unstructured) map[string]any {
		if obj.GetKind() != "Deployment" || obj.GroupVersionKind().Group != "apps" {
			return nil
		}
		replicas, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if !found {
			replicas = 1
		}
		ready, available, progress := replicas, "True", "NewReplicaSetAvailable"
		containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
		if broken != nil && slices.ContainsFunc(containers, func(c any) bool {
			fields, _ := c.(map[string]any)
			image, _ := fields["image"].(string)
			return broken(image)
		}) {
			ready, available, progress = 0, "False", "ReplicaSetUpdated"
		}
		return map[string]any{
			"observedGeneration": obj.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas,
			"readyReplicas": ready, "availableReplicas": ready,
			"conditions": []any{
				map[string]any{"type": "Available", "status": available, "reason": "Simulated"},
				map[string]any{"type": "Progressing", "status": "True", "reason": progress},
			},
		}
	}
}
