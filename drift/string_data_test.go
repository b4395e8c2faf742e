package drift_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// A Secret of a file does not differ from itself: its stringData becomes data on both sides.
// Differences are reported under data, and the argument does not change.
func TestStringDataIsDataOnBothSides(t *testing.T) {
	login := func(field string, data map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login", "namespace": "web"}, field: data,
		}}
		return o
	}
	text := login("stringData", map[string]any{"password": "correct", "user": "ann"})
	coded := login("data", map[string]any{"password": "Y29ycmVjdA==", "user": "YW5u"})
	other := login("stringData", map[string]any{"password": "wrong", "user": "ann"})
	for what, c := range map[string]struct {
		hub, member *unstructured.Unstructured
		differences int
	}{
		"itself": {text, text, 0}, "data": {coded, text, 0}, "stringData": {text, coded, 0}, "another value": {text, other, 1}, "of data": {coded, other, 1},
	} {
		for _, comparison := range []drift.Comparison{drift.Partial, drift.Full} {
			before := c.member.DeepCopy()
			r := mustCompare(t, c.hub, c.member, drift.Options{Comparison: comparison})
			if len(r.Differences) != c.differences || c.differences == 1 && r.Differences[0].Path != "/data/password" {
				t.Errorf("%s, %s: %+v", what, comparison, r.Differences)
			}
			if !equalObjects(before, c.member) {
				t.Errorf("%s: the member's object was changed", what)
			}
		}
	}
}

func equalObjects(a, b *unstructured.Unstructured) bool {
	x, _ := a.MarshalJSON()
	y, _ := b.MarshalJSON()
	return string(x) == string(y)
}
