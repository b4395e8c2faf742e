package placement_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

func object(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func workload() []*unstructured.Unstructured {
	cm := object("ConfigMap", "test-namespace", "test-cm")
	cm.Object["data"] = map[string]any{"key": "value1", "n": int64(1) << 60}
	secret := object("Secret", "test-namespace", "s")
	secret.Object["data"] = map[string]any{"key": "c2VjcmV0"}
	return []*unstructured.Unstructured{object("Namespace", "", "test-namespace"), cm, secret, object("ConfigMap", "other", "test-cm")}
}

func everywhere() *placement.ClusterSelector { return &placement.ClusterSelector{} }

func where(labels map[string]string) *placement.ClusterSelector {
	return &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}}}
}

func patch(op placement.PatchOp, path, value string) placement.Patch {
	return placement.Patch{Op: op, Path: path, Value: json.RawMessage(value)}
}

func rule(patches ...placement.Patch) placement.Rule {
	return placement.Rule{ClusterSelector: everywhere(), Patches: patches}
}

func onNamespace(name string, rules ...placement.Rule) placement.Override {
	return placement.Override{
		Name: name, Rules: rules,
		Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
	}
}

func onConfigMap(name string, rules ...placement.Rule) placement.Override {
	return placement.Override{
		Name: name, Namespace: "test-namespace", Rules: rules,
		Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "test-cm"}},
	}
}

func TestOverrideValidate(t *testing.T) {
	ok := onConfigMap("o", rule(patch("add", "/data/a~1b", `"x"`), patch("remove", "/data/key", "")))
	for name, tc := range map[string]struct {
		override placement.Override
		want     []string
	}{
		"good":   {ok, nil},
		"delete": {onNamespace("o", placement.Rule{Type: placement.Delete}), nil},
		"empty":  {placement.Override{}, []string{"name:", "resourceSelectors: Required", "overrideRules: Required"}},
		"selectors": {
			placement.Override{
				Name: "o", Namespace: "n", Rules: ok.Rules,
				Selectors: []placement.ObjectSelector{{}, {Version: "v1", Kind: "Namespace", Name: "n"}, {}},
			},
			[]string{"[0].version: Required", "[0].kind: Required", "[0].name: Required", "[1].kind: Forbidden", "[2]: Duplicate"},
		},
		"rule types": {
			onConfigMap("o", placement.Rule{Type: "Merge"}, placement.Rule{}, placement.Rule{Type: placement.Delete, Patches: ok.Rules[0].Patches}),
			[]string{`overrideRules[0].overrideType: Unsupported value: "Merge"`, "[1].jsonPatchOverrides: Required", "[2].jsonPatchOverrides: Forbidden"},
		},
		"cluster selector": {
			onConfigMap("o", placement.Rule{Type: placement.Delete, ClusterSelector: where(map[string]string{"a b": "c"})}),
			[]string{"overrideRules[0].clusterSelector.clusterSelectorTerms[0].labelSelector.matchLabels"},
		},
		"operations": {
			onConfigMap("o", rule(patch("move", "/a", `1`), patch("add", "/a", ``), patch("remove", "/a", `1`), patch("replace", "/a", `{`))),
			[]string{"[0].op: Unsupported", "[1].value: Required", "[2].value: Forbidden", "[3].value: Invalid"},
		},
		"variables": {
			onConfigMap("o", rule(
				patch("add", "/a", `"${MEMBER-CLUSTER-NAME"`),
				patch("add", "/a", `["${MEMBER-CLUSTER-REGION}"]`),
				patch("add", "/a", `{"k":"${MEMBER-CLUSTER-LABEL-KEY-a b}"}`),
				patch("add", "/a", `"${HOME}"`),
			)),
			[]string{"[0].value", `no closing "}"`, "[1].value", "unknown variable", "[2].value", `label key "a b"`},
		},
	} {
		t.Run(name, func(t *testing.T) { fragments(t, tc.override.Validate(), tc.want) })
	}
}

func TestOverridePaths(t *testing.T) {
	for path, ok := range map[string]bool{
		"/data": true, "/data/x": true, "/spec/template/metadata/name": true, "/metadata/labels": true,
		"/metadata/annotations/a.b~1c": true, "/spec/list/-": true, "/spec/status": true, "/kinds": true,
		"": false, "data": false, "/": false, "/data//x": false, "/data/": false, "/data/~": false, "/data/~2": false,
		"/kind": false, "/apiVersion": false, "/status": false, "/status/x": false, "/metadata": false,
		"/metadata/name": false, "/metadata/namespace": false, "/metadata/finalizers/0": false, "/metadata/ownerReferences": false,
	} {
		err := onConfigMap("o", rule(patch("add", path, `1`))).Validate()
		if (err == nil) != ok {
			t.Errorf("path %q: error = %v, want ok = %v", path, err, ok)
		}
	}
}

// get returns the rendered object, or nil if Render omitted it.
func get(objs []*unstructured.Unstructured, kind, namespace, name string) *unstructured.Unstructured {
	i := slices.IndexFunc(objs, func(u *unstructured.Unstructured) bool {
		return u.GetKind() == kind && u.GetNamespace() == namespace && u.GetName() == name
	})
	if i < 0 {
		return nil
	}
	return objs[i]
}

func TestRender(t *testing.T) {
	member := placement.Cluster{Name: "member1", Labels: map[string]string{"environment": "canary", "x/trick": "${MEMBER-CLUSTER-NAME}"}}
	replace := func(v string) placement.Rule { return rule(patch("replace", "/data/key", v)) }
	elsewhere := replace(`"no"`)
	elsewhere.ClusterSelector = where(map[string]string{"environment": "staging"})
	nowhere := replace(`"no"`)
	nowhere.ClusterSelector = nil
	ored := replace(`"yes"`)
	ored.ClusterSelector = &placement.ClusterSelector{Terms: append(elsewhere.ClusterSelector.Terms,
		placement.ClusterTerm{}, where(map[string]string{"environment": "canary"}).Terms[0])}
	nilTerm := replace(`"no"`)
	nilTerm.ClusterSelector = &placement.ClusterSelector{Terms: []placement.ClusterTerm{{}}}
	for name, tc := range map[string]struct {
		overrides []placement.Override
		want      any
	}{
		"none":                   {nil, "value1"},
		"replace":                {[]placement.Override{onConfigMap("o", replace(`"new"`))}, "new"},
		"null is a value":        {[]placement.Override{onConfigMap("o", replace(`null`))}, nil},
		"another cluster's":      {[]placement.Override{onConfigMap("o", elsewhere)}, "value1"},
		"a nil selector is none": {[]placement.Override{onConfigMap("o", nowhere)}, "value1"},
		"a nil term is none":     {[]placement.Override{onConfigMap("o", nilTerm)}, "value1"},
		"terms are ored":         {[]placement.Override{onConfigMap("o", ored)}, "yes"},
		"a later rule wins":      {[]placement.Override{onConfigMap("o", replace(`"1"`), replace(`"2"`))}, "2"},
		"a later name wins":      {[]placement.Override{onConfigMap("b", replace(`"b"`)), onConfigMap("a", replace(`"a"`))}, "b"},
		"namespaced after cluster-wide": {[]placement.Override{
			onConfigMap("a", rule(patch("replace", "/data/key", `"${MEMBER-CLUSTER-NAME}"`))),
			{
				Name: "z", Rules: []placement.Rule{rule(patch("add", "/data", `{"key":"wide"}`))},
				Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
			},
		}, "member1"},
		"variables": {[]placement.Override{onConfigMap("o",
			replace(`"${HOME} ${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-LABEL-KEY-environment}"`))}, "${HOME} member1-canary"},
		"a single pass": {[]placement.Override{onConfigMap("o", replace(`"${MEMBER-CLUSTER-LABEL-KEY-x/trick}"`))}, "${MEMBER-CLUSTER-NAME}"},
	} {
		t.Run(name, func(t *testing.T) {
			objs := workload()
			got, err := placement.Render(objs, tc.overrides, member)
			if err != nil {
				t.Fatal(err)
			}
			cm := get(got, "ConfigMap", "test-namespace", "test-cm")
			if v := cm.Object["data"].(map[string]any)["key"]; v != tc.want {
				t.Errorf("key = %v, want %v", v, tc.want)
			}
			if diff := cmp.Diff(workload(), objs); diff != "" {
				t.Errorf("Render changed its argument:\n%s", diff)
			}
		})
	}
}

func TestRenderShares(t *testing.T) {
	objs := workload()
	got, err := placement.Render(objs, []placement.Override{onConfigMap("o", rule(patch("replace", "/data/key", `"x"`)))}, placement.Cluster{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range objs {
		if touched := i == 1; (objs[i] == got[i]) == touched {
			t.Errorf("%s: shared = %v, want %v", objs[i].GetName(), objs[i] == got[i], !touched)
		}
	}
	if n := got[1].Object["data"].(map[string]any)["n"]; n != int64(1)<<60 {
		t.Errorf("n = %v (%T), want the integer that it was", n, n)
	}
}

// A Namespace that a cluster-wide override selects stands for itself and every
// object in it, and for nothing else.
func TestRenderNamespaceRule(t *testing.T) {
	label := onNamespace("label", rule(patch("add", "/metadata/labels", `{"cluster":"${MEMBER-CLUSTER-NAME}"}`)))
	got, err := placement.Render(workload(), []placement.Override{label}, placement.Cluster{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"m", "m", "m", ""} {
		if l := got[i].GetLabels()["cluster"]; l != want {
			t.Errorf("%s/%s: label = %q, want %q", got[i].GetNamespace(), got[i].GetName(), l, want)
		}
	}
	drop := onNamespace("drop", placement.Rule{ClusterSelector: everywhere(), Type: placement.Delete})
	unreachable := onConfigMap("later", rule(patch("remove", "/data/none", "")))
	got, err = placement.Render(workload(), []placement.Override{unreachable, drop}, placement.Cluster{Name: "m"})
	if err != nil {
		t.Fatalf("nothing applies to an object that is left out: %v", err)
	}
	if len(got) != 1 || got[0].GetNamespace() != "other" {
		t.Errorf("got %v, want only what is in the other namespace", got)
	}
}

// An override that selects an object in two ways applies to it once.
func TestRenderOnce(t *testing.T) {
	o := onNamespace("o", rule(patch("add", "/list/-", `1`)))
	o.Selectors = append(o.Selectors, placement.ObjectSelector{Version: "v2", Kind: "Namespace", Name: "test-namespace"})
	cm := object("ConfigMap", "test-namespace", "x")
	cm.Object["list"] = []any{}
	got, err := placement.Render([]*unstructured.Unstructured{cm}, []placement.Override{o}, placement.Cluster{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{int64(1)}, got[0].Object["list"]); diff != "" {
		t.Error(diff)
	}
}

func TestRenderErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		rules []placement.Rule
		want  []string
	}{
		"no such path": {
			[]placement.Rule{rule(patch("add", "/data/x", `"1"`)), rule(patch("add", "/data/y", `"1"`), patch("replace", "/data/none", `"1"`))},
			[]string{"cluster m", "ConfigMap test-namespace/test-cm", "override test-namespace/o", "overrideRules[1]", "jsonPatchOverrides[1]: replace /data/none"},
		},
		"no parent":      {[]placement.Rule{rule(patch("add", "/spec/x", `1`))}, []string{"jsonPatchOverrides[0]: add /spec/x", "nothing above it"}},
		"no list":        {[]placement.Rule{rule(patch("add", "/data/key/x", `1`))}, []string{"jsonPatchOverrides[0]: add /data/key/x"}},
		"index":          {[]placement.Rule{rule(patch("add", "/list", `[1]`), patch("add", "/list/7", `1`))}, []string{"jsonPatchOverrides[1]", "index"}},
		"negative index": {[]placement.Rule{rule(patch("add", "/list", `[1]`), patch("replace", "/list/-1", `1`))}, []string{"jsonPatchOverrides[1]"}},
		"unknown label":  {[]placement.Rule{rule(patch("add", "/data/x", `"${MEMBER-CLUSTER-LABEL-KEY-region}"`))}, []string{"jsonPatchOverrides[0]", `label "region"`}},
		"labels":         {[]placement.Rule{rule(patch("add", "/metadata/labels", `{"a":1}`))}, []string{"overrideRules[0]", "metadata.labels is not a map of strings"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := placement.Render(workload(), []placement.Override{onConfigMap("o", tc.rules...)}, placement.Cluster{Name: "m"})
			fragments(t, err, tc.want)
			if failed, ok := errors.AsType[*placement.RenderError](err); !ok || failed.Invalid != (name == "labels") {
				t.Errorf("what the overrides make of it: %+v", failed)
			}
			if strings.Contains(err.Error(), "value1") {
				t.Errorf("the error tells contents: %v", err)
			}
		})
	}
	_, err := placement.Render(workload(), []placement.Override{onConfigMap("o"), onConfigMap("o"), onNamespace("Bad")}, placement.Cluster{})
	fragments(t, err, []string{"overrides[test-namespace/o].name: Duplicate", "overrides[test-namespace/o].overrideRules: Required", "overrides[Bad].name: Invalid"})
	_, err = placement.Render([]*unstructured.Unstructured{nil}, nil, placement.Cluster{})
	fragments(t, err, []string{"object 0 is nil"})
}

// A Renderer returns the same result as Render for every cluster, also with concurrent use.
func TestRendererConcurrently(t *testing.T) {
	objs := workload()
	overrides := []placement.Override{
		onNamespace("n", rule(patch("add", "/spec", `{"x":{"y":["${MEMBER-CLUSTER-NAME}"]}}`), patch("add", "/spec/x/y/-", `2`))),
		onConfigMap("c", rule(patch("replace", "/data", `{"a":{"b":1}}`), patch("add", "/data/a/c", `2`))),
	}
	r, err := placement.NewRenderer(objs, overrides)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("group", func(t *testing.T) {
		for i := range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				c := placement.Cluster{Name: fmt.Sprint("m", i)}
				got, err := r.Render(c)
				if err != nil {
					t.Fatal(err)
				}
				want, err := placement.Render(workload(), overrides, c)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
	if diff := cmp.Diff(workload(), objs); diff != "" {
		t.Errorf("the renderer changed its objects:\n%s", diff)
	}
}

// For all overrides and objects, Render returns and does not change its arguments.
func FuzzRender(f *testing.F) {
	f.Add(`{"data":{"key":"v"}}`, "replace", "/data/key", `"${MEMBER-CLUSTER-NAME}"`, "add", "/data/-", `null`)
	f.Add(`{"spec":{"l":[1,null,{"a":[]}]}}`, "remove", "/spec/l/0", ``, "add", "/spec/l/-", `{"a":1}`)
	f.Add(`{"metadata":{"labels":null}}`, "add", "/metadata/labels/x", `"1"`, "replace", "/metadata/annotations", `[]`)
	f.Add(`{"a":{"b":null}}`, "add", "/a/b/c", `1`, "remove", "/a/b", ``)
	f.Fuzz(func(t *testing.T, body, op1, path1, value1, op2, path2, value2 string) {
		var m map[string]any
		if json.Unmarshal([]byte(body), &m) != nil || m == nil {
			return
		}
		obj := &unstructured.Unstructured{Object: m}
		obj.SetAPIVersion("v1")
		obj.SetKind("ConfigMap")
		meta, _ := m["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			m["metadata"] = meta
		}
		meta["name"], meta["namespace"] = "test-cm", "test-namespace"
		before, err := json.Marshal(obj.Object)
		if err != nil {
			return
		}
		o := onConfigMap("o", rule(patch(placement.PatchOp(op1), path1, value1), patch(placement.PatchOp(op2), path2, value2)))
		got, err := placement.Render([]*unstructured.Unstructured{obj}, []placement.Override{o}, placement.Cluster{Name: "m"})
		after, _ := json.Marshal(obj.Object)
		if string(before) != string(after) {
			t.Fatalf("the argument changed: %s -> %s", before, after)
		}
		if err != nil {
			return
		}
		if len(got) != 1 || got[0].GetName() != "test-cm" || got[0].GetNamespace() != "test-namespace" || got[0].GetKind() != "ConfigMap" {
			t.Fatalf("the object lost its identity: %v", got)
		}
	})
}

// Selects reports exactly the objects that Render changes.
func TestSelectsAgreesWithRender(t *testing.T) {
	deployment := object("Deployment", "shop", "web")
	deployment.SetAPIVersion("apps/v1")
	objs := []*unstructured.Unstructured{object("Namespace", "", "shop"), object("ConfigMap", "shop", "shop"), object("ConfigMap", "bank", "web"), deployment}
	east := placement.Cluster{Name: "east", Labels: map[string]string{"region": "east"}}
	selector := func(group, version, kind, name string) []placement.ObjectSelector {
		return []placement.ObjectSelector{{Group: group, Version: version, Kind: kind, Name: name}}
	}
	for _, o := range []placement.Override{
		{Name: "a", Selectors: selector("", "v1", "Namespace", "shop")},
		{Name: "a", Selectors: selector("", "v1", "ConfigMap", "web")},
		{Name: "a", Namespace: "bank", Selectors: selector("", "v1", "ConfigMap", "web")},
		{Name: "a", Namespace: "shop", Selectors: selector("apps", "v1", "Deployment", "web")},
		{Name: "a", Namespace: "shop", Selectors: selector("apps", "v1beta1", "Deployment", "web")},
	} {
		for _, to := range []*placement.ClusterSelector{nil, {}, where(map[string]string{"region": "east"}), where(map[string]string{"region": "west"})} {
			o.Rules = []placement.Rule{{Type: placement.Delete}, {Type: placement.Delete, ClusterSelector: to}}
			got, err := placement.Render(objs, []placement.Override{o}, east)
			if err != nil {
				t.Fatal(err)
			}
			picked, err := o.SelectsCluster(east)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range objs {
				gvk := obj.GroupVersionKind()
				itself := func(yield func(placement.ObjectSelector, string) bool) {
					yield(placement.ObjectSelector{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: obj.GetName()}, obj.GetNamespace())
				}
				concerns := o.SelectsObject(gvk.Group, gvk.Version, gvk.Kind, obj.GetNamespace(), obj.GetName())
				if found := placement.Selecting([]placement.Override{o}, itself); (len(found) == 1) != concerns {
					t.Errorf("%+v selects %s/%s: %v, and by all of them: %v", o, obj.GetNamespace(), obj.GetName(), concerns, found)
				}
				selects := picked && concerns
				if kept := slices.Contains(got, obj); kept == selects {
					t.Errorf("%+v selects %s/%s: %v, and keeps it: %v", o, obj.GetNamespace(), obj.GetName(), selects, kept)
				}
			}
		}
	}
}

func TestOverridesThatSelectNothingAreLeftOut(t *testing.T) {
	named := func(name, namespace string, selectors ...placement.ObjectSelector) placement.Override {
		return placement.Override{Name: name, Namespace: namespace, Selectors: selectors}
	}
	namespace := func(name string) placement.ObjectSelector {
		return placement.ObjectSelector{Version: "v1", Kind: "Namespace", Name: name}
	}
	config := placement.ObjectSelector{Version: "v1", Kind: "ConfigMap", Name: "config"}
	overrides := []placement.Override{
		named("its-object", "shop", config), named("of-another-namespace", "bank", config), named("by-namespace", "", namespace("bank"), namespace("shop")),
		named("another-object", "", namespace("bank")), named("cluster-scoped", "", config),
	}
	set := map[placement.ObjectSelector]string{namespace("shop"): "", config: "shop"}
	for _, tc := range []struct {
		overrides []placement.Override
		want      []string
	}{
		{nil, nil},
		{overrides[3:], nil},
		{overrides, []string{"its-object", "by-namespace"}},
	} {
		var got []string
		for _, o := range placement.Selecting(tc.overrides, maps.All(set)) {
			got = append(got, o.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("of %d overrides it has %v, want %v", len(tc.overrides), got, tc.want)
		}
	}
}
