package drift

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestIgnoreRulesLeaveDifferencesOut(t *testing.T) {
	hub := `{"metadata":{"name":"x","namespace":"ns"},"spec":{"items":[{"name":"a","value":1},{"name":"b","value":1}],"n":1,"gone":{"a":1,"b":2}}}`
	member := `{"metadata":{"name":"x","namespace":"ns","managedFields":[
		{"manager":"hpa","operation":"Update","subresource":"scale","fieldsV1":{"f:spec":{"f:n":{}}}},
		{"manager":"kubectl","operation":"Update","fieldsV1":{"f:spec":{"f:items":{"k:{\"name\":\"b\"}":{"f:value":{}}}}}}]},
		"spec":{"items":[{"name":"b","value":2},{"name":"a","value":2}],"n":2,"more":{"x":{"y":1},"z":[{"name":"q"},{"name":"r"}]}}}`
	all := []string{
		"Order /spec/items", "Changed /spec/items/0/value", "Changed /spec/items/1/value",
		"Missing /spec/gone", "Unmanaged /spec/more", "Changed /spec/n",
	}
	for _, c := range []struct {
		name    string
		rules   []IgnoreRule
		without []string
	}{
		{"none", nil, nil},
		{"a pointer", []IgnoreRule{{Pointers: []string{"/spec/n", "/spec/other"}}}, []string{"Changed /spec/n"}},
		{"everything below", []IgnoreRule{{Pointers: []string{"/spec/items"}}}, []string{"Order /spec/items", "Changed /spec/items/0/value", "Changed /spec/items/1/value"}},
		{"a wildcard", []IgnoreRule{{Pointers: []string{"/spec/items/*/value"}}}, []string{"Changed /spec/items/0/value", "Changed /spec/items/1/value"}},
		{"an item", []IgnoreRule{{Pointers: []string{"/spec/items/[name=a]"}}}, []string{"Changed /spec/items/1/value"}},
		{"an index", []IgnoreRule{{Pointers: []string{"/spec/items/0"}}}, []string{"Changed /spec/items/0/value"}},
		{"the whole", []IgnoreRule{{Pointers: []string{""}}}, all},
		{"a manager", []IgnoreRule{{Managers: []string{"hpa"}}}, []string{"Changed /spec/n"}},
		{"a manager elsewhere", []IgnoreRule{{Managers: []string{"hpa"}, Pointers: []string{"/spec/items"}}}, nil},
		{"managers", []IgnoreRule{{Managers: []string{"x", "kubectl"}, Pointers: []string{"/spec/items/*"}}}, []string{"Changed /spec/items/0/value"}},
		{"classes", []IgnoreRule{{Classes: []Class{Order, Missing}}}, []string{"Order /spec/items", "Missing /spec/gone"}},
		{"a class at a place", []IgnoreRule{{Classes: []Class{Changed}, Pointers: []string{"/spec/gone", "/spec/n"}}}, []string{"Changed /spec/n"}},
		{"two rules", []IgnoreRule{{Classes: []Class{Order}}, {Pointers: []string{"/spec/n"}}}, []string{"Order /spec/items", "Changed /spec/n"}},
		{"this object", []IgnoreRule{{Group: "x.example", Kind: "X", Namespace: "ns", Name: "x", Pointers: []string{"/spec/n"}}}, []string{"Changed /spec/n"}},
		{"another group", []IgnoreRule{{Group: "apps", Pointers: []string{"/spec/n"}}}, nil},
		{"another kind", []IgnoreRule{{Kind: "Y", Pointers: []string{"/spec/n"}}}, nil},
		{"another namespace", []IgnoreRule{{Namespace: "other", Pointers: []string{"/spec/n"}}}, nil},
		{"another name", []IgnoreRule{{Name: "y", Pointers: []string{"/spec/n"}}}, nil},
		{"all that is inside", []IgnoreRule{{Pointers: []string{"/spec/gone/a", "/spec/gone/b"}}}, []string{"Missing /spec/gone"}},
	} {
		r := reported(t, hub, member, Options{Comparison: Full, Ignore: c.rules})
		var want, got []string
		for _, line := range all {
			if !strings.Contains(strings.Join(c.without, "\n")+"\n", line+"\n") {
				want = append(want, line)
			}
		}
		for _, d := range r.Differences {
			got = append(got, string(d.Class)+" "+d.Path)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || r.Total != len(want) {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestIgnoreInsideAnUnmanagedField(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{}}`,
		`{"metadata":{"name":"x"},"spec":{"more":{"x":{"y":1,"k":2},"z":[{"name":"q"},{"name":"r"}]}}}`,
		Options{Comparison: Full, Ignore: []IgnoreRule{{Pointers: []string{"/spec/more/x/y", "/spec/more/z/[name=q]"}}}})
	if len(r.Differences) == 0 || !strings.HasPrefix("/spec/more", r.Differences[0].Path) {
		t.Fatalf("got %v", lines(r))
	}
	if got := string(r.Differences[0].Member); !strings.Contains(got, `"x":{"k":2},"z":[{"name":"r"}]`) {
		t.Errorf("got %s", got)
	}
}

func TestValidateIgnoreRulesNamesEveryProblem(t *testing.T) {
	errs := ValidateIgnoreRules([]IgnoreRule{{}, {Pointers: []string{"x", "/y"}, Classes: []Class{"z"}}}, field.NewPath("spec", "ignore"))
	var got []string
	for _, e := range errs {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"spec.ignore[0]", "spec.ignore[1].pointers[0]", "spec.ignore[1].classes[0]"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
