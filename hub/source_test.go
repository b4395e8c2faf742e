package hub

import (
	"context"
	"errors"
	"iter"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// No placement carries the hub's own records to a member. Selectors by labels or by kind skip the
// namespace of the records, and naming that namespace is an error.
func TestTheHubsOwnNamespaceIsNeverPlaced(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	all := []*unstructured.Unstructured{
		object("Namespace", "", "web"), object("Namespace", "", "records"), object("Secret", "web", "records"), object("Secret", "records", "r-1"),
	}
	source := &filteredSource{namespace: "records", next: snapshot.SourceFunc(func(context.Context, snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		return func(yield func(*unstructured.Unstructured, error) bool) {
			for _, obj := range all {
				if !yield(obj, nil) {
					return
				}
			}
		}
	})}
	var got []string
	for obj, err := range source.Objects(t.Context(), snapshot.Query{Version: "v1", Kind: "Namespace"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, obj.GetNamespace()+"/"+obj.GetName())
	}
	if len(got) != 2 || got[0] != "/web" || got[1] != "web/records" {
		t.Errorf("it yields %v", got)
	}
	for _, q := range []snapshot.Query{{Namespace: "records"}, {Version: "v1", Kind: "Namespace", Name: "records"}, {Version: "v1", Kind: "ConfigMap", Namespace: "records"}} {
		for obj, err := range source.Objects(t.Context(), q) {
			if obj != nil || !errors.Is(err, backend.ErrPermanent) {
				t.Errorf("%v: %v, %v", q, obj, err)
			}
		}
	}
}
