package placement_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rbac is a Role in the test namespace, with labels and two rules.
func rbac() *unstructured.Unstructured {
	role := object("Role", "test-namespace", "r")
	role.SetAPIVersion("rbac.authorization.k8s.io/v1")
	role.SetLabels(map[string]string{"app": "web"})
	verbs := func(v ...any) map[string]any { return map[string]any{"verbs": v, "resources": []any{"pods"}} }
	role.Object["rules"] = []any{verbs("get"), verbs("list", "watch")}
	return role
}

func onRole(patches ...placement.Patch) placement.Override {
	return placement.Override{
		Name: "o", Namespace: "test-namespace", Rules: []placement.Rule{rule(patches...)},
		Selectors: []placement.ObjectSelector{{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role", Name: "r"}},
	}
}

func TestRestrictionsAreChecked(t *testing.T) {
	fragments(t, placement.ValidateRestrictions([]placement.Restriction{
		{Kind: "*", Group: "*"}, {Group: "apps"}, {Kind: "Role", Paths: []string{"/rules/*", "rules", "/a//b", "/a~2"}},
	}, nil).ToAggregate(), []string{"restrictions[1].kind: Required", "restrictions[2].paths[1]: Invalid", "restrictions[2].paths[2]: Invalid", "restrictions[2].paths[3]: Invalid"})
	_, err := placement.NewRenderer(nil, nil, placement.Restriction{Kind: "Role", Paths: []string{"rules"}})
	fragments(t, err, []string{"restrictions[0].paths[0]"})
}

// An override that violates a restriction is refused by its text if possible, and otherwise
// during rendering, whatever path leads to the field.
func TestRestrictions(t *testing.T) {
	rules := placement.Restriction{Group: "rbac.authorization.k8s.io", Kind: "*", Paths: []string{"/rules"}}
	verbs := placement.Restriction{Group: "*", Kind: "*", Paths: []string{"/rules/*/verbs"}}
	second := placement.Restriction{Group: "rbac.authorization.k8s.io", Kind: "Role", Paths: []string{"/rules/1/verbs"}}
	label := placement.Restriction{Group: "*", Kind: "Role", Paths: []string{"/metadata/labels/a~1b"}}
	whole := placement.Restriction{Group: "rbac.authorization.k8s.io", Kind: "Role"}
	for name, c := range map[string]struct {
		restriction placement.Restriction
		patch       placement.Patch
		declared    bool // refused by the words
		rendered    bool // refused during rendering
	}{
		"a label":                            {rules, patch("add", "/metadata/labels/x", `"1"`), false, false},
		"the path itself":                    {rules, patch("replace", "/rules", `[]`), true, true},
		"below":                              {rules, patch("add", "/rules/0/verbs/-", `"*"`), true, true},
		"the end of the list":                {rules, patch("add", "/rules/-", `{"verbs":["*"]}`), true, true},
		"the same value again":               {rules, patch("replace", "/rules/0/verbs/0", `"get"`), true, false},
		"a path with a star":                 {verbs, patch("add", "/rules/0/verbs/-", `"*"`), true, true},
		"beside it":                          {verbs, patch("replace", "/rules/0/resources", `["nodes"]`), false, false},
		"a parent that has it":               {verbs, patch("replace", "/rules/0", `{"verbs":["*"]}`), false, true},
		"a parent without it":                {verbs, patch("replace", "/rules/0", `{"resources":["nodes"]}`), false, true},
		"a parent that has the same":         {verbs, patch("replace", "/rules/0", `{"verbs":["get"],"resources":["nodes"]}`), false, false},
		"one more at the end":                {verbs, patch("add", "/rules/-", `{"verbs":["*"]}`), false, true},
		"one more without it":                {verbs, patch("add", "/rules/-", `{"resources":["pods"]}`), false, false},
		"what moves the others":              {verbs, patch("add", "/rules/0", `{"resources":["pods"]}`), false, true},
		"what takes one away":                {verbs, patch("remove", "/rules/0", ``), false, true},
		"a map instead of a list":            {verbs, patch("replace", "/rules", `{"0":{"verbs":["get"]},"1":{"verbs":["list","watch"]}}`), false, true},
		"an index":                           {second, patch("replace", "/rules/1/verbs", `["*"]`), true, true},
		"an index in other words":            {second, patch("replace", "/rules/+1/verbs", `["*"]`), false, true},
		"an index with a zero":               {second, patch("replace", "/rules/01/verbs", `["*"]`), false, true},
		"an index that others moved":         {second, patch("remove", "/rules/0", ``), false, true},
		"escaped":                            {label, patch("add", "/metadata/labels/a~1b", `"1"`), true, true},
		"another label":                      {label, patch("add", "/metadata/labels/a~01b", `"1"`), false, false},
		"all labels":                         {label, patch("add", "/metadata/labels", `{"a/b":"1"}`), false, true},
		"all labels but that":                {label, patch("add", "/metadata/labels", `{"app":"y"}`), false, false},
		"an object that may not be selected": {whole, patch("add", "/metadata/labels/x", `"1"`), true, true},
		"a kind that it is not about":        {placement.Restriction{Group: "*", Kind: "ClusterRole"}, patch("replace", "/rules", `[]`), false, false},
		"a group that it is not about":       {placement.Restriction{Kind: "Role"}, patch("replace", "/rules", `[]`), false, false},
		"a list that is not there":           {placement.Restriction{Group: "*", Kind: "*", Paths: []string{"/aggregationRule"}}, patch("add", "/aggregationRule", `{}`), true, true},
		"a way through what is not a list":   {placement.Restriction{Group: "*", Kind: "*", Paths: []string{"/rules/*/*/*/x"}}, patch("add", "/rules/0/x", `1`), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			overrides := []placement.Override{onRole(c.patch)}
			errs := placement.Forbidden(overrides, []placement.Restriction{c.restriction}, nil)
			if (len(errs) > 0) != c.declared {
				t.Errorf("by its words: %v, want refused = %v", errs, c.declared)
			}
			_, err := placement.Render([]*unstructured.Unstructured{rbac()}, overrides, placement.Cluster{Name: "m"}, c.restriction)
			if (err != nil) != c.rendered {
				t.Errorf("rendered: %v, want refused = %v", err, c.rendered)
			}
			if err != nil {
				fragments(t, err, []string{"cluster m", "Role test-namespace/r", "override test-namespace/o", "overrideRules[0]", "the host forbids"})
				if re, ok := errors.AsType[*placement.RenderError](err); !ok || re.Cluster != "m" || re.Object != "Role test-namespace/r" {
					t.Errorf("the error is a %T", err)
				}
			}
		})
	}
}

// The error of a restriction names the operation that violates it, even if an earlier operation
// made the same change and it was undone.
func TestRestrictionsNameTheOperation(t *testing.T) {
	verbs := placement.Restriction{Group: "*", Kind: "Role", Paths: []string{"/rules/*/verbs", "/rules/0/resources"}}
	again := patch("replace", "/rules/0", `{"verbs":["get"],"resources":["pods"]}`)
	wider := patch("replace", "/rules/0", `{"verbs":["*"],"resources":["pods"]}`)
	label := patch("add", "/metadata/labels/x", `"1"`)
	for want, rules := range map[string][]placement.Rule{
		"overrideRules[0]: jsonPatchOverrides[1]: replace /rules/0: the host": {rule(label, wider, label), rule(label)},
		"overrideRules[1]: jsonPatchOverrides[2]: replace /rules/0: the host": {rule(wider, again), rule(wider, again, wider)},
		"overrideRules[1]: jsonPatchOverrides[0]: add /rules/9: the list has": {rule(wider), rule(patch("add", "/rules/9", `1`), again)},
		"overrideRules[0]: jsonPatchOverrides[0]: remove /rules/0: the host":  {rule(patch("remove", "/rules/0", ``), wider)},
	} {
		o := onRole()
		o.Rules = rules
		_, err := placement.Render([]*unstructured.Unstructured{rbac()}, []placement.Override{o}, placement.Cluster{Name: "m"}, verbs)
		fragments(t, err, []string{"cluster m: Role test-namespace/r: override test-namespace/o: " + want})
	}
}

// A restriction without paths holds for objects that are selected by their
// Namespace too, and those with paths let an object be left out.
func TestRestrictionsOnObjectsOfASelectedNamespace(t *testing.T) {
	objs := []*unstructured.Unstructured{object("Namespace", "", "test-namespace"), rbac()}
	everyRole := placement.Restriction{Group: "rbac.authorization.k8s.io", Kind: "Role"}
	wide := onNamespace("wide", rule(patch("add", "/metadata/labels", `{}`)))
	drop := onNamespace("drop", placement.Rule{ClusterSelector: everywhere(), Type: placement.Delete})
	for _, o := range []placement.Override{wide, drop} {
		_, err := placement.Render(objs, []placement.Override{o}, placement.Cluster{Name: "m"}, everyRole)
		fragments(t, err, []string{"Role test-namespace/r", "override " + o.Name, "forbids overrides to select Role.rbac.authorization.k8s.io"})
	}
	got, err := placement.Render(objs, []placement.Override{drop}, placement.Cluster{Name: "m"}, placement.Restriction{Group: "*", Kind: "*", Paths: []string{"/rules"}})
	if err != nil || len(got) != 0 {
		t.Errorf("%d objects are left, %v", len(got), err)
	}
	elsewhere := wide
	elsewhere.Rules = []placement.Rule{{ClusterSelector: where(map[string]string{"a": "b"}), Patches: wide.Rules[0].Patches}}
	if _, err := placement.Render(objs, []placement.Override{elsewhere}, placement.Cluster{Name: "m"}, everyRole); err != nil {
		t.Errorf("a rule for other clusters touches nothing here: %v", err)
	}
}

// For all patches, a restricted field is unchanged afterwards, or there is an error.
func FuzzRestriction(f *testing.F) {
	f.Add("replace", "/rules/0", `{"verbs":["get"]}`, "add", "/rules/-", `{}`)
	f.Add("add", "/rules/0", `{"verbs":["*"]}`, "remove", "/rules/0", ``)
	f.Add("replace", "/rules", `{"0":{"verbs":["get"]},"1":{"verbs":["list","watch"]}}`, "add", "/rules/~01", `1`)
	f.Fuzz(func(t *testing.T, op1, path1, value1, op2, path2, value2 string) {
		o := onRole(patch(placement.PatchOp(op1), path1, value1), patch(placement.PatchOp(op2), path2, value2))
		r := placement.Restriction{Group: "*", Kind: "Role", Paths: []string{"/rules/*/verbs"}}
		got, err := placement.Render([]*unstructured.Unstructured{rbac()}, []placement.Override{o}, placement.Cluster{Name: "m"}, r)
		if err != nil {
			if strings.Contains(err.Error(), "watch") {
				t.Fatalf("the error tells contents: %v", err)
			}
			return
		}
		var before, after []any
		for _, rule := range rbac().Object["rules"].([]any) {
			before = append(before, rule.(map[string]any)["verbs"])
		}
		list, ok := got[0].Object["rules"].([]any)
		if !ok {
			t.Fatalf("the rules are %T", got[0].Object["rules"])
		}
		for _, rule := range list {
			if m, ok := rule.(map[string]any); ok {
				if v, has := m["verbs"]; has {
					after = append(after, v)
				}
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("the verbs were %v and are %v", before, after)
		}
	})
}
