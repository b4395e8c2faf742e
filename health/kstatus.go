package health

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kstatus is the health that the engine sees without a Prober: what kstatus calls Current is ready, Failed has failed,
// and anything else is not yet ready, for the reason in message. An object without any status is Current.
func Kstatus(obj *unstructured.Unstructured) (ready, failed bool, message string) {
	r, err := status.Compute(obj)
	if err != nil {
		// A member may put anything into a status. The object is not healthy yet, and may be later.
		return false, false, "its status cannot be read"
	}
	switch r.Status {
	case status.CurrentStatus:
		return true, false, ""
	case status.FailedStatus:
		return false, true, r.Message
	default:
		return false, false, r.Message
	}
}
