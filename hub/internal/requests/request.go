package requests

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/seals"
)

// IsOfAnother reports whether an object is the request of another run that still exists.
func (r *Requests) IsOfAnother(obj *unstructured.Unstructured, p *seals.Proof, run *unstructured.Unstructured) bool {
	if p == nil || p.Run == run.GetUID() {
		return false
	}
	k := api.Key{Namespace: obj.GetNamespace(), Name: api.RunOfRequest(obj)}
	owner := r.Cached(api.ScopeOf(k).GVR(api.RunKind), k)
	return owner != nil && owner.GetUID() == p.Run
}
