package snapshot_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

const planted = "hunter2!"

func content(kind string, fields map[string]any) *unstructured.Unstructured {
	obj := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "x", "namespace": "shop"}}
	maps.Copy(obj, fields)
	return &unstructured.Unstructured{Object: obj}
}

// Content that a server answers with 500, because it cannot decode it, is refused before it is
// placed: with the object and the field, and without the value.
func TestContentThatNoServerReadsIsRefused(t *testing.T) {
	type fields = map[string]any
	for name, c := range map[string]struct {
		kind   string
		fields fields
		want   string
	}{
		"base64":                   {"Secret", fields{"data": fields{"k": "aHVudGVy", "empty": "", "null": nil, "lines": "aHVu\ndGVy\n"}}, ""},
		"nothing":                  {"Secret", fields{"data": nil, "stringData": nil}, ""},
		"text":                     {"Secret", fields{"stringData": fields{"k": planted}}, ""},
		"text in data":             {"Secret", fields{"data": fields{"k": planted}}, "data[k]: Invalid value: must be base64"},
		"no padding":               {"Secret", fields{"data": fields{"k": "aHVudGVyMg"}}, "data[k]: Invalid value: must be base64"},
		"the alphabet of URLs":     {"Secret", fields{"data": fields{"k": "_-_-"}}, "data[k]: Invalid value: must be base64"},
		"a number":                 {"Secret", fields{"data": fields{"k": int64(7)}}, "data[k]: Invalid value: must be a string"},
		"a number in stringData":   {"Secret", fields{"stringData": fields{"k": int64(7)}}, "stringData[k]: Invalid value: must be a string"},
		"a list":                   {"Secret", fields{"data": []any{planted}}, "data: Invalid value: must be a map of names to strings"},
		"a ConfigMap":              {"ConfigMap", fields{"data": fields{"k": planted}, "binaryData": fields{"b": "aHVudGVy"}}, ""},
		"text in binaryData":       {"ConfigMap", fields{"binaryData": fields{"k": planted}}, "binaryData[k]: Invalid value: must be base64"},
		"a boolean in a ConfigMap": {"ConfigMap", fields{"data": fields{"k": true}}, "data[k]: Invalid value: must be a string"},
		"a kind of its own":        {"Widget", fields{"data": fields{"k": planted}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := objects{object("v1", "Namespace", "", "shop"), content(c.kind, c.fields)}
			selectors := []snapshot.Selector{{Version: "v1", Kind: c.kind, Name: "x"}}
			_, err := snapshot.Capture(t.Context(), src, selectors)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.kind+".v1 shop/x: "+c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), planted) {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

// One error lists all problems, including the content of envelopes.
func TestUnreadableContentIsReportedTogether(t *testing.T) {
	inside := content("Secret", map[string]any{"data": map[string]any{"b": planted, "a": planted}})
	envelope := content("ResourceEnvelope", map[string]any{"data": map[string]any{"secret": inside.Object}})
	envelope.SetAPIVersion("placement.kubernetes-fleet.io/v1beta1")
	plain := content("ConfigMap", map[string]any{"binaryData": map[string]any{"c": planted}})
	_, err := snapshot.Capture(t.Context(), objects{envelope, plain}, []snapshot.Selector{
		{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope"}, {Version: "v1", Kind: "ConfigMap"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Secret.v1 shop/x: [data[a]: ", "data[b]: ", "ConfigMap.v1 shop/x: binaryData[c]: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
