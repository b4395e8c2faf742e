package manifests_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/compat"
)

// TestNoFieldIsLost compares the fields of all definitions with testdata/fields.txt: their JSON
// types, formats, kinds of lists and the treatment of unknown fields. Stored objects have these
// fields, so a field may be added but never removed.
func TestNoFieldIsLost(t *testing.T) {
	want, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range compat.Settings() {
		var got []string
		for _, crd := range crdsOf(t, setting) {
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			for i, v := range versions {
				schema, _, _ := unstructured.NestedMap(v.(map[string]any), "schema", "openAPIV3Schema")
				lines := fieldLines(schema, kind, nil)
				slices.Sort(lines)
				if i == 0 {
					got = append(got, lines...)
				} else if have := got[len(got)-min(len(lines), len(got)):]; !slices.Equal(have, lines) {
					t.Errorf("%s: its versions have different fields", kind)
				}
			}
		}
		if diff := gocmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setting, diff)
		}
	}
}

// fieldLines adds a line for each field of a schema, except the fields of conditions and label
// selectors, which are Kubernetes' own.
func fieldLines(s map[string]any, at string, into []string) []string {
	line := fmt.Sprintf("%s %v", at, s["type"])
	for _, keyword := range []string{
		"format", "nullable", "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-embedded-resource",
		"x-kubernetes-preserve-unknown-fields",
	} {
		if v, ok := s[keyword]; ok {
			line += fmt.Sprintf(" %s=%v", strings.TrimPrefix(keyword, "x-kubernetes-"), v)
		}
	}
	into = append(into, line)
	properties, _ := s["properties"].(map[string]any)
	if properties["lastTransitionTime"] != nil || properties["matchLabels"] != nil {
		return into
	}
	for name, p := range properties {
		into = fieldLines(p.(map[string]any), at+"."+name, into)
	}
	for keyword, mark := range map[string]string{"items": "[]", "additionalProperties": "{}"} {
		if p, ok := s[keyword].(map[string]any); ok {
			into = fieldLines(p, at+mark, into)
		}
	}
	return into
}
