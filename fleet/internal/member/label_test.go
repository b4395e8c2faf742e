package member

import (
	"context"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// labelling is a connection that labels the objects it applies, as earlier versions did.
type labelling struct{ backend.Conn }

func (l labelling) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if o.Manager == manager(kitPlacement) && !reserved(snapshot.IDOf(obj)) {
		obj = obj.DeepCopy()
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[appliedLabel] = "true"
		obj.SetLabels(labels)
	}
	return l.Conn.Apply(ctx, obj, o)
}

// TestObjectsHaveTheConfiguredLabels checks that an object has the requested labels, without
// the label that the hub's object has because it was applied there. An object that an earlier
// version labelled belongs to the placement, and loses the label with its next change.
func TestObjectsHaveTheConfiguredLabels(t *testing.T) {
	k := newKit(t)
	with := func(value string, labels map[string]string) *unstructured.Unstructured {
		obj := configMap("app", "a", value)
		obj.SetLabels(labels)
		return obj
	}
	own, brought := map[string]string{"tier": "web"}, map[string]string{"tier": "web", appliedLabel: "true"}
	k.revision("1", namespaceObject("app"), with("1", own))
	k.revision("2", namespaceObject("app"), with("2", brought))
	want := func(when string, want map[string]string) {
		t.Helper()
		if got, err := k.member.Get(configMapID("app", "a")); err != nil || !maps.Equal(got.GetLabels(), want) {
			t.Errorf("%s the labels are %v, %v, want %v", when, got.GetLabels(), err, want)
		}
	}
	k.must(k.leader(nil), k.want("1", 1, "r1"))
	want("at first", own)
	k.must(k.leader(nil), k.want("2", 1, "r2"))
	want("from an object that was applied itself", own)

	k.must(k.leader(func(c backend.Conn) backend.Conn { return labelling{c} }), k.want("1", 1, "r3"))
	want("of an earlier version", brought)
	k.member.Record(true)
	if r := k.must(k.leader(nil), k.want("1", 1, "r3")); !r.Healthy || len(k.member.Log()) != 0 {
		t.Errorf("%+v, and it wrote %v", r, k.member.Log())
	}
	want("without a change", brought)
	k.must(k.leader(nil), k.want("2", 1, "r4"))
	want("after a change", own)
	k.must(k.leader(func(c backend.Conn) backend.Conn { return labelling{c} }), k.want("1", 1, "r5"))
	k.must(k.leader(nil), k.want("", 1, "r6"))
	wantObjects(t, k, k.expected("", false))
}
