package kubefleet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// object writes an object of any kind.
func (w *writer) object(o *unstructured.Unstructured) {
	if o == nil {
		w.errs = append(w.errs, fmt.Errorf("an object is nil"))
		return
	}
	tree, ok := yamldoc.Plain(o.Object).(map[string]any)
	var errs field.ErrorList
	for _, f := range []struct{ path, value string }{
		{"apiVersion", o.GetAPIVersion()}, {"kind", o.GetKind()}, {"metadata.name", o.GetName()},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(field.NewPath(f.path), "must be a string, and not empty"))
		}
	}
	if !ok || len(errs) > 0 {
		w.errs = append(w.errs, fmt.Errorf("%s/%s: %w", o.GetKind(), o.GetName(), errs.ToAggregate()))
		return
	}
	w.docs = append(w.docs, tree)
}
