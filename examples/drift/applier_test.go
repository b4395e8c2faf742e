package main

import (
	"fmt"
	"strings"
	"testing"
)

// What was applied and dropped is stale, also where no manager is recorded:
// that is the manager that applied most of what the hub's object says.
func TestTheManagerIsFound(t *testing.T) {
	const hub = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: b}\nspec: {selector: {app: a}, ports: [{port: 80, targetPort: 8080}]}\n"
	member := func(managers ...string) string {
		return strings.Replace(hub, "namespace: b", "namespace: b, managedFields: ["+strings.Join(managers, ", ")+"]", 1) + "  \n"
	}
	entry := func(name, operation, fields string) string {
		return fmt.Sprintf("{manager: %s, operation: %s, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {%s}}", name, operation, fields)
	}
	const most = `"f:spec": {"f:selector": {}, "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:targetPort": {}}}, "f:sessionAffinity": {}}`
	const little = `"f:spec": {"f:sessionAffinity": {}, "f:selector": {}}`
	var others strings.Builder
	for i := range 20 {
		fmt.Fprintf(&others, `"f:a%d": {}, `, i)
	}
	for name, c := range map[string]struct {
		managers []string
		stale    bool
	}{
		"the one that applied it":          {[]string{entry("engine", "Apply", most)}, true},
		"among others":                     {[]string{entry("ann", "Update", `"f:spec": {"f:ports": {}}`), entry("engine", "Apply", most), entry("other", "Apply", `"f:metadata": {"f:labels": {"f:x": {}}}`)}, true},
		"one that updated it":              {[]string{entry("engine", "Update", most)}, false},
		"one that applied a field or two":  {[]string{entry("engine", "Apply", little)}, false},
		"another still wants it":           {[]string{entry("engine", "Apply", most), entry("other", "Apply", little)}, false},
		"one that applied far more":        {[]string{entry("engine", "Apply", most+`, "f:other": {`+others.String()+`}`)}, false},
		"no manager":                       {nil, false},
		"a set of fields that makes sense": {[]string{entry("engine", "Apply", `"f:spec": {"f:ports": {"k:{": {}, "v:": {}, "i:0": {}}}`)}, false},
	} {
		live := strings.Replace(member(c.managers...), "spec: {", "spec: {sessionAffinity: ClientIP, ", 1)
		got := diffs(compared(t, hub, live)[0])
		if stale := len(got) == 1 && strings.Contains(fmt.Sprint(got), "Stale"); stale != c.stale || !stale && len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Labels tell as well, where there is nothing else.
func TestTheManagerOfLabelsIsFound(t *testing.T) {
	const hub = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {x: \"1\"}"
	got := diffs(compared(t, hub+"}\n", strings.Replace(hub, "labels: {", "labels: {old: v, ", 1)+
		`, managedFields: [{manager: engine, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:x": {}, "f:old": {}}}}}]}`+"\n")[0])
	if len(got) != 1 || !strings.Contains(fmt.Sprint(got), "Stale") {
		t.Errorf("%v", got)
	}
}

// An empty file of a member is one without objects: all are missing. One of the
// hub is a mistake.
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
		args := files(t, configMap, member)
		if o := call("", append(args, "-exit-code")...); o.code != exitDrift || !strings.Contains(o.err, "holds no object") {
			t.Errorf("%s: %+v", name, o)
		}
		args[1], args[3] = args[3], args[1]
		if o := call("", args...); o.code != exitFailed {
			t.Errorf("%s as the hub's: %+v", name, o)
		}
	}
}

// No namespace is the namespace default, unless both are there.
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
