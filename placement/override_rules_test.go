package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

func times[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// An override has 1 to 20 selectors, rules, and patches in a rule; one error lists all excesses.
// Overrides frozen before the limits are still rendered.
func TestOverrideLimits(t *testing.T) {
	sized := func(n int) placement.Override {
		return placement.Override{
			Name: "o", Namespace: "test-namespace",
			Selectors: times(n, func(i int) placement.ObjectSelector {
				return placement.ObjectSelector{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c", i)}
			}),
			Rules: times(n, func(int) placement.Rule {
				return rule(times(n, func(i int) placement.Patch { return patch("add", fmt.Sprint("/data/k", i), `"v"`) })...)
			}),
		}
	}
	fragments(t, sized(20).Validate(), nil)
	fragments(t, sized(21).Validate(), []string{
		"resourceSelectors: Too many: 21: must have at most 20 items", "overrideRules: Too many: 21",
		"overrideRules[0].jsonPatchOverrides: Too many: 21", "overrideRules[20].jsonPatchOverrides: Too many: 21",
	})
	cm := object("ConfigMap", "test-namespace", "c20")
	cm.Object["data"] = map[string]any{}
	frozen := []placement.Override{sized(21)}
	got, err := placement.Render([]*unstructured.Unstructured{cm}, frozen, placement.Cluster{Name: "m"})
	if err != nil || got[0].Object["data"].(map[string]any)["k20"] != "v" {
		t.Errorf("what was frozen before there were limits is rendered as %v, %v", got, err)
	}
}

// One cluster-wide override and one namespaced override may select an object, unless priorities
// define their order.
func TestOverridesThatCollide(t *testing.T) {
	set := rule(patch("add", "/data/x", `"1"`))
	wide := func(name string, priority int32) placement.Override {
		o := onNamespace(name, set)
		o.Priority = priority
		return o
	}
	narrow := func(name string, priority int32) placement.Override {
		o := onConfigMap(name, set)
		o.Priority = priority
		return o
	}
	v2 := narrow("b", 0)
	v2.Selectors[0].Version = "v2"
	elsewhere := narrow("b", 0)
	elsewhere.Namespace = "other"
	clusterWideConfigMap := wide("b", 0)
	clusterWideConfigMap.Selectors[0] = narrow("a", 0).Selectors[0]
	for name, c := range map[string]struct {
		overrides []placement.Override
		want      []string
	}{
		"one of each":           {[]placement.Override{wide("a", 0), narrow("a", 0), clusterWideConfigMap}, nil},
		"two priorities":        {[]placement.Override{narrow("a", 0), narrow("b", 1), wide("a", 0), wide("b", -1)}, nil},
		"another version":       {[]placement.Override{narrow("a", 0), v2}, nil},
		"another namespace":     {[]placement.Override{narrow("a", 0), elsewhere}, nil},
		"the same priority":     {[]placement.Override{narrow("a", 7), narrow("b", 7)}, []string{"overrides[1].resourceSelectors[0]: Forbidden: override test-namespace/a selects ConfigMap test-cm already"}},
		"two cluster-wide ones": {[]placement.Override{wide("a", 0), narrow("a", 0), wide("b", 0)}, []string{"overrides[2].resourceSelectors[0]: Forbidden: override a selects Namespace test-namespace already"}},
		"all at once": {[]placement.Override{wide("a", 0), wide("a", 0), {Name: "UP"}}, []string{
			"overrides[1].name: Duplicate", "overrides[2].name: Invalid", "overrides[2].resourceSelectors: Required", "overrides[2].overrideRules: Required",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fragments(t, placement.ValidateOverrides(c.overrides, nil).ToAggregate(), c.want)
		})
	}
}

// The order is by priority, then cluster-wide before namespaced, then by namespace and name; the
// order of the argument does not matter.
func TestOverridesApplyInOrder(t *testing.T) {
	mark := func(o placement.Override, priority int32) placement.Override {
		o.Priority = priority
		o.Rules = []placement.Rule{rule(patch("add", "/list/-", fmt.Sprintf("%q", o.String())))}
		return o
	}
	overrides := []placement.Override{
		mark(onNamespace("low"), -1), mark(onConfigMap("low"), -1),
		mark(onNamespace("a"), 0), mark(onNamespace("b"), 0), mark(onConfigMap("a"), 0), mark(onConfigMap("b"), 0),
		mark(onNamespace("z"), 9), mark(onConfigMap("a-high"), 10),
	}
	var want []any
	for _, o := range overrides {
		want = append(want, o.String())
	}
	for range 20 {
		slices.Reverse(overrides[:5])
		slices.Reverse(overrides[1:])
		cm := object("ConfigMap", "test-namespace", "test-cm")
		cm.Object["list"] = []any{}
		got, err := placement.Render([]*unstructured.Unstructured{cm}, overrides, placement.Cluster{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if list := got[0].Object["list"].([]any); !slices.Equal(list, want) {
			t.Fatalf("applied %v, want %v", list, want)
		}
	}
}

// Each operation changes maps and lists as RFC 6902 specifies, or the error names the missing
// part.
func TestOperations(t *testing.T) {
	for _, c := range []struct{ op, path, value, want string }{
		{"add", "/m/a~1b", `1`, `{"a/b":1,"c~d":"x"}`},
		{"replace", "/m/c~0d", `"y"`, `{"c~d":"y"}`},
		{"remove", "/m/c~0d", ``, `{}`},
		{"add", "/m/~01", `1`, `{"c~d":"x","~1":1}`},
		{"add", "/m/c~0d", `null`, `{"c~d":null}`},
		{"add", "/l/0", `9`, `[9,1,2]`},
		{"add", "/l/2", `9`, `[1,2,9]`},
		{"add", "/l/-", `[{"a":[]}]`, `[1,2,[{"a":[]}]]`},
		{"replace", "/l/1", `{"n":1.50}`, `[1,{"n":1.5}]`},
		{"remove", "/l/0", ``, `[2]`},
		{"replace", "/m", `7`, `7`},
		{"add", "/l/3", `9`, "no such element"},
		{"remove", "/l/2", ``, "no such element"},
		{"remove", "/l/-", ``, "does not lead through"},
		{"replace", "/l/-", `1`, "nothing at this path"},
		{"replace", "/m/none", `1`, "nothing at this path"},
		{"remove", "/m/none", ``, "nothing at this path"},
		{"add", "/m/none/deeper", `1`, "nothing above it"},
		{"add", "/n/x", `1`, "nothing above it"},
		{"add", "/s/x", `1`, "nothing above it"},
	} {
		cm := object("ConfigMap", "test-namespace", "test-cm")
		cm.Object["m"], cm.Object["l"], cm.Object["n"], cm.Object["s"] = map[string]any{"c~d": "x"}, []any{int64(1), int64(2)}, nil, "text"
		o := onConfigMap("o", rule(patch(placement.PatchOp(c.op), c.path, c.value)))
		got, err := placement.Render([]*unstructured.Unstructured{cm}, []placement.Override{o}, placement.Cluster{Name: "m"})
		what := c.op + " " + c.path
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", what, err, c.want)
			}
			continue
		}
		if text := jsonText(t, got[0].Object[c.path[1:2]]); text != c.want {
			t.Errorf("%s gave %s, want %s", what, text, c.want)
		}
	}
}

// Variables work in strings and names of fields; a variable inside of another one, or from a
// label, is not replaced.
func TestVariablesInNamesAndInOneAnother(t *testing.T) {
	member := placement.Cluster{Name: "m1", Labels: map[string]string{"zone": "a", "trick": "${MEMBER-CLUSTER-LABEL-KEY-zone}"}}
	render := func(value string) (any, error) {
		o := onConfigMap("o", rule(patch("add", "/data", value)))
		got, err := placement.Render(workload(), []placement.Override{o}, member)
		if err != nil {
			return nil, err
		}
		return get(got, "ConfigMap", "test-namespace", "test-cm").Object["data"], nil
	}
	for value, want := range map[string]string{
		`{"${MEMBER-CLUSTER-NAME}":"x"}`:                                      `{"m1":"x"}`,
		`{"a":{"b":["${MEMBER-CLUSTER-LABEL-KEY-zone}", 1]}}`:                 `{"a":{"b":["a",1]}}`,
		`{"k":"${MEMBER-CLUSTER-NAME}${MEMBER-CLUSTER-LABEL-KEY-trick}"}`:     `{"k":"m1${MEMBER-CLUSTER-LABEL-KEY-zone}"}`,
		`{"k":"$${MEMBER-CLUSTER-NAME}}"}`:                                    `{"k":"$m1}"}`,
		`{"${MEMBER-CLUSTER-NAME}":"x","m1":"y"}`:                             "two fields of the value",
		`{"k":"${MEMBER-CLUSTER-LABEL-KEY-${MEMBER-CLUSTER-NAME}}"}`:          "label key",
		`{"k":"${MEMBER-CLUSTER-${MEMBER-CLUSTER-NAME}}"}`:                    "unknown variable",
		`{"${MEMBER-CLUSTER-REGION}":1}`:                                      "unknown variable",
		`{"k":"${MEMBER-CLUSTER-LABEL-KEY-none}"}`:                            `no label "none"`,
		`{"k":"${MEMBER-CLUSTER-LABEL-KEY-}"}`:                                "label key",
		`{"k":"${MEMBER-CLUSTER-LABEL-KEY-zone"}`:                             `no closing "}"`,
		`{"k":"${member-cluster-name} ${MEMBER_CLUSTER_NAME} $MEMBER-CLUST"}`: `{"k":"${member-cluster-name} ${MEMBER_CLUSTER_NAME} $MEMBER-CLUST"}`,
	} {
		got, err := render(value)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", value, err, want)
			}
			continue
		}
		if text := jsonText(t, got); text != want {
			t.Errorf("%s became %s, want %s", value, text, want)
		}
	}
}
