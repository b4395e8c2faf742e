package drift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

func TestObjectsAreMatchedByGroupKindNamespaceAndName(t *testing.T) {
	object := func(version, kind, namespace, name string) string {
		return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: {a: 1}\n", version, kind, name, namespace)
	}
	hub := object("example.com/v1", "X", "b", "a")
	for name, c := range map[string]struct{ member, state, warning string }{
		"same":            {object("example.com/v1", "X", "b", "a"), "Present", ""},
		"other group":     {object("example.org/v1", "X", "b", "a"), "Missing", ""},
		"other kind":      {object("example.com/v1", "Z", "b", "a"), "Missing", ""},
		"other namespace": {object("example.com/v1", "X", "c", "a"), "Missing", ""},
		"other name":      {object("example.com/v1", "X", "b", "c"), "Missing", ""},
		"other version":   {object("example.com/v2", "X", "b", "a"), "Present", "example.com/v2"},
		"both versions":   {object("example.com/v2", "X", "b", "a") + object("example.com/v1", "X", "b", "a"), "Present", ""},
	} {
		got := compared(t, hub, c.member)
		warnings := fmt.Sprint(got[0]["warnings"])
		if got[0]["state"] != c.state || (c.warning == "") != (got[0]["warnings"] == nil) || !strings.Contains(warnings, c.warning) {
			t.Errorf("%s: %v", name, got)
		}
		if got[0]["version"] != "v1" {
			t.Errorf("%s: the version is %v", name, got[0]["version"])
		}
	}
}

// Elements have the order of the hub's file, and contain no object that only the member has.
func TestElementsAreTheHubsObjectsInTheirOrder(t *testing.T) {
	var hub, member strings.Builder
	for i := range 20 {
		fmt.Fprintf(&hub, "---\n%s", strings.ReplaceAll(configMap, "name: a", fmt.Sprintf("name: n%d", (i*7)%20)))
		fmt.Fprintf(&member, "---\n%s", strings.ReplaceAll(configMap, "name: a", fmt.Sprintf("name: n%d", i*2)))
	}
	got := compared(t, hub.String(), member.String())
	if len(got) != 20 {
		t.Fatal(len(got))
	}
	for i, e := range got {
		n := (i * 7) % 20
		if want := map[bool]string{true: "Present", false: "Missing"}[n%2 == 0]; e["name"] != fmt.Sprintf("n%d", n) || e["state"] != want {
			t.Errorf("%d: %v", i, e)
		}
		if _, ok := e["observedDiffs"].([]any); !ok {
			t.Errorf("%d: observedDiffs is no list: %v", i, e)
		}
	}
	want := "10 of 20 objects differ, 10 missing, 10 without differences. Only the member's file has 10 more, not compared.\n"
	if got := call(t, "", inputs(t, hub.String(), member.String())...); !strings.Contains(got.Out, want) {
		t.Errorf("%s", got.Out)
	}
}

// A value that is missing on one side has no key; a null or empty value has one.
func TestAValueThatIsMissingHasNoKey(t *testing.T) {
	head := "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\nspec: "
	got := diffs(compared(t, head+"{gone: 1, empty: x, kind: 1}\n", head+"{more: 2, empty: \"\", kind: [null]}\n", "--comparison", "FullComparison")[0])
	keys := map[string]string{}
	for _, d := range got {
		o, _ := d.(map[string]any)
		_, hub := o["valueInHub"]
		_, member := o["valueInMember"]
		keys[fmt.Sprint(o["path"])] = fmt.Sprint(o["class"], hub, member)
	}
	for path, want := range map[string]string{"/spec/gone": "Missingtrue false", "/spec/more": "Unmanagedfalse true", "/spec/empty": "Changedtrue true", "/spec/kind": "Changedtrue true"} {
		if strings.ReplaceAll(keys[path], " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s, want %s", path, keys[path], want)
		}
	}
}

func TestOutputHasNoSecretsAndNoControlCharacters(t *testing.T) {
	const planted = "Pl4nt3d"
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b, annotations: {x: " + planted + "-SIDE}}\nstringData: {k: " + planted + "-SIDE}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {password: " + planted + "-SIDE, red: \"\\e[31mSIDE\\u202e\\x85\"}\n"
	args := append(inputs(t, strings.ReplaceAll(secret, "SIDE", "hub"), strings.ReplaceAll(strings.ReplaceAll(secret, "SIDE", "member"), "stringData: {k", "data: {k2: UGw0bnQzZA==, k")),
		"--secret", "/data/password", "--comparison", "FullComparison")
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		got := call(t, "", append(args, "-o", format)...)
		all := got.Out + got.Err
		if strings.Contains(all, planted) || strings.Contains(all, "UGw0bnQz") {
			t.Errorf("%s tells a secret:\n%s", format, all)
		}
		if strings.ContainsAny(all, "\x1b\u202e\u0085") {
			t.Errorf("%s has control characters: %q", format, all)
		}
		if got.Code != cli.ExitDiffers || !strings.Contains(all, "/data/red") && !strings.Contains(all, ".data.red") {
			t.Errorf("%s: %+v", format, got)
		}
	}
}

// If there are many differences, the output has a hundred of them and the total number.
func TestManyDifferencesAreCounted(t *testing.T) {
	var hub, member strings.Builder
	for i := range 150 {
		fmt.Fprintf(&hub, "  k%d: \"a\"\n", i)
		fmt.Fprintf(&member, "  k%d: \"b\"\n", i)
	}
	args := inputs(t, configMap+"data:\n"+hub.String(), configMap+"data:\n"+member.String())
	if got := call(t, "", args...); strings.Count(got.Out, " changed ") != 100 || !strings.Contains(got.Out, " and 50 more that are not shown ") {
		t.Errorf("%s", got.Out)
	}
	e := elements(t, call(t, "", append(args, "-o", "json")...).Out)[0]
	if fmt.Sprint(e["total"]) != "150" || e["truncated"] != true || len(diffs(e)) != 100 {
		t.Errorf("%v", e["total"])
	}
}

// A definition is found at any position, and an invalid definition is an error.
func TestDefinitionsOfCustomResources(t *testing.T) {
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.com}\nspec:\n  group: example.com\n  names: {kind: X, plural: xs}\n  scope: Namespaced\n" +
		"  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}}}\n"
	x := "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\nspec: {tags: [TAGS]}\n---\n"
	hub, member := strings.ReplaceAll(x, "TAGS", "a, b"), strings.ReplaceAll(x, "TAGS", "b, a")
	if got := compared(t, hub, member); len(diffs(got[0])) != 1 {
		t.Errorf("without a definition: %v", got)
	}
	if got := compared(t, hub+crd, member); len(diffs(got[0])) != 0 {
		t.Errorf("in the hub's file: %v", got)
	}
	if got := compared(t, hub, member+crd); len(diffs(got[0])) != 0 {
		t.Errorf("in the member's file: %v", got)
	}
	two := inputs(t, hub, member)
	more := inputs(t, crd, configMap)
	if got := call(t, "", append(two, "--crd", more[1])...); got.Code != cli.ExitDone {
		t.Errorf("%+v", got)
	}
	bad := inputs(t, configMap, strings.ReplaceAll(crd, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"))
	for _, file := range []string{bad[1], bad[3]} {
		if got := call(t, "", append(two, "--crd", file)...); got.Code != cli.ExitFailed || !strings.Contains(got.Err, ".yaml:1: document 1: ") {
			t.Errorf("%+v", got)
		}
	}
}

// A difference in an atomic list is printed at its path, with the list that an apply replaces.
func TestAtomicListIsNamedBesideItsDifference(t *testing.T) {
	policy := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: b}\nspec: {podSelector: {}, ingress: [{ports: [{protocol: TCP, port: 80, endPort: 90}]}]}\n"
	fs := inputs(t, policy, strings.Replace(policy, "endPort: 90", "endPort: 99", 1))
	got := strings.Fields(call(t, "", append(fs, "-o", "wide")...).Out)
	want := "NetworkPolicy b/a .spec.ingress[0].ports[0].endPort changed 90 99 - /spec/ingress"
	if !strings.Contains(strings.Join(got, " "), want) {
		t.Errorf("got\n%s", got)
	}
}

// An empty file of a member has no objects, so all objects are missing. An empty file of the hub
// is an error.
func TestAMemberWithoutObjects(t *testing.T) {
	for name, member := range map[string]string{
		"empty":             "",
		"comments":          "# nothing\n---\n# at all\n",
		"list":              "apiVersion: v1\nkind: List\nitems: []\n",
		"list without one":  "apiVersion: v1\nkind: ConfigMapList\nitems: null\n",
		"list, as kubectl":  "apiVersion: v1\nitems: []\nkind: List\nmetadata: {resourceVersion: \"\"}\n",
		"list of no object": `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`,
	} {
		got := compared(t, configMap, member)
		if len(got) != 1 || got[0]["state"] != "Missing" || len(diffs(got[0])) != 1 {
			t.Errorf("%s: %v", name, got)
		}
		args := inputs(t, configMap, member)
		if o := call(t, "", args...); o.Code != cli.ExitDiffers || !strings.Contains(o.Err, "warning: ") || !strings.Contains(o.Err, "holds no object") {
			t.Errorf("%s: %+v", name, o)
		}
		args[1], args[3] = args[3], args[1]
		if o := call(t, "", args...); o.Code != cli.ExitFailed {
			t.Errorf("%s as the hub's: %+v", name, o)
		}
	}
}

// An object without a namespace matches the object in the namespace default, unless the file has
// both forms.
func TestNoNamespaceIsDefault(t *testing.T) {
	object := func(namespace, value string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\ndata: {k: %s}\n", namespace, value)
	}
	for name, c := range map[string]struct{ hub, member, want string }{
		"on the member":  {object("null", "x"), object("default", "x"), "Present0"},
		"on the hub":     {object("default", "x"), object("null", "z"), "Present1"},
		"another":        {object("null", "x"), object("shop", "x"), "Missing1"},
		"both":           {object("null", "x") + object("default", "z"), object("default", "z"), "Missing1 Present0"},
		"both, and both": {object("null", "x") + object("default", "z"), object("default", "z") + object("null", "x"), "Present0 Present0"},
		"the exact one":  {object("null", "x"), object("default", "z") + object("null", "x"), "Present0"},
	} {
		var got []string
		for _, e := range compared(t, c.hub, c.member) {
			got = append(got, fmt.Sprint(e["state"], len(diffs(e))))
		}
		if text := strings.ReplaceAll(strings.Join(got, "|"), " ", ""); strings.ReplaceAll(text, "|", " ") != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// All problems of all files are reported at once, each with its file, line and document, and
// nothing is compared.
func TestProblemsOfAllFilesAreReportedAtOnce(t *testing.T) {
	args := inputs(t, configMap+"---\n"+configMap, "a\n")
	got := call(t, "b\n", append(args, "--crd", "-", "-o", "json")...)
	for _, want := range []string{
		"hub.yaml:5: document 2: ConfigMap b/a is there already, in document 1 on line 1\n", "member.yaml:1: document 1: must be an object",
		"standard input:1: document 1: must be an object",
	} {
		if got.Code != cli.ExitFailed || got.Out != "" || !strings.Contains(got.Err, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// The error of package drift is printed with the position of the object, and without secrets of
// the object.
func TestAnObjectThatCannotBeComparedIsNamedWithItsPlace(t *testing.T) {
	deep := configMap + "data: " + strings.Repeat("{a: ", 200) + "SIDE" + strings.Repeat("}", 200) + "\n"
	got := call(t, "", inputs(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: 5551234}\n---\n"+deep, configMap)...)
	for _, want := range []string{"hub.yaml:1: document 1: drift: the hub's", "hub.yaml:6: document 2: drift: the hub's"} {
		if got.Code != cli.ExitFailed || got.Out != "" || !strings.Contains(got.Err, want) || strings.Contains(got.Err, "5551234") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if got = call(t, "", inputs(t, configMap+"data: {a: b}\n", "---\n"+deep)...); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "member.yaml:2: document 1: drift: the member's") {
		t.Errorf("%+v", got)
	}
}
