package drift

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The applier of an object is the manager that applied most of the hub's fields, and not a
// manager of a few fields or of many more.
func TestApplierIsTheManagerThatAppliedMostOfTheObject(t *testing.T) {
	const hub = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"b"%s},
		"spec":{"selector":{"app":"a"},"ports":[{"port":80,"targetPort":8080}]}}`
	const most = `"f:spec":{"f:selector":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}}},"f:sessionAffinity":{}}`
	const little = `"f:spec":{"f:sessionAffinity":{},"f:selector":{}}`
	entry := func(name, operation, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"operation":%q,"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{%s}}`, name, operation, fields)
	}
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	var others strings.Builder
	for i := range 20 {
		fmt.Fprintf(&others, `"f:a%d":{},`, i)
	}
	for name, c := range map[string]struct {
		entries []string
		want    string
	}{
		"the one that applied it":      {[]string{entry("engine", "Apply", most)}, "engine"},
		"among others":                 {[]string{entry("ann", "Update", most), entry("engine", "Apply", most), entry("other", "Apply", `"f:metadata":{"f:labels":{"f:x":{}}}`)}, "engine"},
		"one that updated it":          {[]string{entry("engine", "Update", most)}, ""},
		"a field or two":               {[]string{entry("engine", "Apply", little)}, ""},
		"far more":                     {[]string{entry("engine", "Apply", most+`,"f:other":{`+strings.TrimSuffix(others.String(), ",")+`}`)}, ""},
		"none":                         {nil, ""},
		"fields that are no such keys": {[]string{entry("engine", "Apply", `"f:spec":{"f:ports":{"k:{":{},"v:":{},"i:0":{}}}`)}, ""},
	} {
		member := read(fmt.Sprintf(hub, `,"managedFields":[`+strings.Join(c.entries, ",")+`]`))
		if got := Applier(read(fmt.Sprintf(hub, "")), member); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Labels of the hub's object count like any other field.
func TestApplierCountsLabels(t *testing.T) {
	hub := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "1"}}}}
	member := hub.DeepCopy()
	member.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
		"manager": "engine", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:x": map[string]any{}, "f:old": map[string]any{}}}},
	}}
	if got := Applier(hub, member); got != "engine" {
		t.Errorf("the manager is %q", got)
	}
}
