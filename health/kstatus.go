package health

import (
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kstatus is the health that the engine sees without a Prober: what kstatus calls Current is ready, Failed has failed,
// and anything else is not yet ready, for the reason in message. An object without any status is Current.
//
// Two kinds are judged otherwise. A Service of type LoadBalancer is not ready before its load balancer has an address, since
// before that it cannot be reached. A Job that is suspended is ready: it is not to start yet.
func Kstatus(obj *unstructured.Unstructured) (ready, failed bool, message string) {
	r, err := status.Compute(obj)
	if err != nil {
		// A member may put anything into a status. The object is not healthy yet, and may be later.
		return false, false, "its status cannot be read"
	}
	switch kind := obj.GroupVersionKind().GroupKind().String(); {
	case r.Status == status.FailedStatus:
		return false, true, r.Message
	case r.Status == status.CurrentStatus && kind == "Service" && awaitsAddress(obj):
		return false, false, "its load balancer has no address yet"
	case r.Status == status.CurrentStatus, kind == "Job.batch" && isSuspended(obj):
		return true, false, ""
	default:
		return false, false, r.Message
	}
}

// awaitsAddress reports whether a Service wants a load balancer, and has none that is reached.
func awaitsAddress(obj *unstructured.Unstructured) bool {
	if kind, _, _ := unstructured.NestedString(obj.Object, "spec", "type"); kind != "LoadBalancer" {
		return false
	}
	ingress, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
	return !slices.ContainsFunc(ingress, func(i any) bool {
		at, _ := i.(map[string]any)
		ip, _ := at["ip"].(string)
		name, _ := at["hostname"].(string)
		return ip != "" || name != ""
	})
}

func isSuspended(obj *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
	return suspended
}
