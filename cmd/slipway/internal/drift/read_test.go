package drift

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// What cannot be read, and the place and reason that are said.
func TestWhatCannotBeReadIsSaidWithFileDocumentAndLine(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 7 {
		bomb += fmt.Sprintf("%c: &%c [*%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c]\n", 'b'+i, 'b'+i, 'a'+i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"syntax":           {configMap + "---\n" + configMap + "data: [1\n", "hub.yaml:5: document 2: "},
		"twice":            {configMap + "data:\n  k: 1\n  l: 2\n  k: 3\n", `line 7: key "k" already set`},
		"twice below ---":  {configMap + "---\n" + configMap + "data: {k: 1, k: 2}\n", `hub.yaml:5: document 2: yaml: unmarshal errors: line 8: key "k"`},
		"twice in JSON":    {"{\"apiVersion\": \"v1\",\n\"data\": {\"k\": 1,\n\"k\": 2}}", `hub.yaml:1: document 1: duplicate field "data.k"`},
		"broken JSON":      {"{\"apiVersion\": \"v1\",\n\"kind\": ", "hub.yaml:1: document 1: "},
		"second JSON":      {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}` + "\n{\"a\": }", "hub.yaml:1: document 2: is not JSON: "},
		"NUL":              {configMap + "data: {k: \"a\x00b\"}\n", "hub.yaml:1: document 1: "},
		"not UTF-8":        {configMap + "data:\n  k: a\n  l: \xff\xfe\n", "hub.yaml:1: document 1: is not UTF-8"},
		"long":             {configMap + "---\n# x\na: b\nc: " + strings.Repeat("x", maxDocument) + "\n", "hub.yaml:6: document 2: is longer than 10 MiB"},
		"very deep":        {configMap + "data: " + strings.Repeat("{a: ", 10001) + strings.Repeat("}", 10001), "hub.yaml:1: document 1: "},
		"deep JSON":        {`{"a":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "}", "hub.yaml:1: document 1: "},
		"deep blocks":      {configMap + "data:\n  " + strings.Repeat("- ", 10000) + "x\n", "hub.yaml:1: document 1: "},
		"bomb":             {configMap + bomb, "excessive aliasing"},
		"itself":           {configMap + "data: &d {k: *d}\n", "contains itself"},
		"text":             {"hello\n", "hub.yaml:1: document 1: must be an object"},
		"list":             {"- a\n- b\n", "hub.yaml:1: document 1: must be an object"},
		"nothing":          {"---\n# nothing\n---\n...\n", "hub.yaml holds no object"},
		"empty":            {"", "hub.yaml holds no object"},
		"no kind":          {"apiVersion: v1\nmetadata: {name: a}\n", "hub.yaml:1: document 1: kind must be text"},
		"no version":       {"kind: ConfigMap\nmetadata: {name: a}\n", "hub.yaml:1: document 1: apiVersion must be text"},
		"version":          {"apiVersion: a/b/c\nkind: X\nmetadata: {name: a}\n", "hub.yaml:1: document 1: apiVersion: "},
		"no metadata":      {"apiVersion: v1\nkind: X\nmetadata: a\n", "metadata.name must be text"},
		"a number as name": {"apiVersion: v1\nkind: X\nmetadata: {name: 1}\n", "metadata.name must be text"},
		"generateName":     {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "metadata.name must be text"},
		"namespace":        {"apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: [b]}\n", "metadata.namespace must be text"},
		"item":             {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(configMap, "\n", "\n  ") + "\n- {kind: X}\n", "hub.yaml:1: document 1: items[1]: apiVersion must be text"},
		"items":            {"apiVersion: v1\nkind: List\nitems: a\n", "hub.yaml:1: document 1: items must be a list"},
		"same object":      {configMap + "---\n" + configMap, "hub.yaml:5: document 2: ConfigMap b/a is there already, in document 1 on line 1"},
		"infinity":         {configMap + "data: {k: .inf}\n", "hub.yaml:1: document 1: "},
		"merge":            {configMap + "data: {<<: x}\n", "hub.yaml:1: document 1: "},
		"unknown alias":    {configMap + "data: *x\n", "hub.yaml:1: document 1: "},
		"tab":              {"a:\n\tb: 1\n", "hub.yaml:1: document 1: yaml: line 2"},
		"Secret":           {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: 5551234}\n", "hub.yaml:1: document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, "", append(inputs(t, c.text, configMap), "-o", "json")...)
			if got.Code != cli.ExitFailed || got.Out != "" || !strings.Contains(got.Err, c.want) || !strings.HasPrefix(got.Err, "error: ") {
				t.Errorf("exit %d, %q, %.600q", got.Code, got.Out, got.Err)
			}
			if strings.Contains(got.Err, "5551234") || len(got.Err) > 10_000 {
				t.Errorf("says too much: %.600q", got.Err)
			}
			if name == "Secret" { // is not matched in the member's file
				return
			}
			if other := call(t, "", append(inputs(t, configMap, c.text), "-o", "json")...); !strings.Contains(other.Err, strings.ReplaceAll(c.want, "hub.yaml", "member.yaml")) {
				t.Errorf("%.600q", other.Err)
			}
		})
	}
}

// All that is wrong is said at once, but not without end.
func TestAllProblemsAreSaidAtOnce(t *testing.T) {
	got := call(t, "", inputs(t, strings.Repeat("a\n---\n", 30), "b\n")...)
	if n := strings.Count(got.Err, "\n"); n != maxProblems+2 || !strings.Contains(got.Err, "and more") || !strings.Contains(got.Err, "member.yaml:1") {
		t.Errorf("%d lines: %s", n, got.Err)
	}
}

// Words and numbers are read as kubectl reads them: by YAML 1.1, and with the numbers of Kubernetes.
func TestWordsAndNumbersAreThoseOfKubectl(t *testing.T) {
	got := compared(t, configMap+"data:\n  n: off\n  \"on\": \"yes\"\n  t: !!str no\n", configMap+"data: {\"n\": \"off\", \"on\": \"yes\", t: \"no\"}\n")
	if d := diffs(got[0]); len(d) == 0 {
		t.Errorf("off is the word off: %v", got)
	}
	head := "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\nspec: "
	for hub, member := range map[string]string{"9007199254740993": "9007199254740992", "9223372036854775807": "9223372036854775806"} {
		if d := diffs(compared(t, head+"{num: "+hub+"}\n", head+"{num: "+member+"}\n")[0]); len(d) != 1 {
			t.Errorf("%s is %s", hub, member)
		}
		if d := diffs(compared(t, head+"{num: "+hub+"}\n", `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a"},"spec":{"num":`+hub+`}}`)[0]); len(d) != 0 {
			t.Errorf("%s is not itself: %v", hub, d)
		}
	}
	for hub, member := range map[string]string{"1": "1.0", "1e3": "1000", "0x10": "16", "0644": "420", "1_000": "1000", "-0.0": "0"} {
		if d := diffs(compared(t, head+"{num: "+hub+"}\n", head+"{num: "+member+"}\n")[0]); len(d) != 0 {
			t.Errorf("%s is not %s: %v", hub, member, d)
		}
	}
}

func TestDocumentsOfEverySort(t *testing.T) {
	one := func(name string) string { return strings.ReplaceAll(configMap, "name: a", "name: "+name) }
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"b"}}`
	j := func(name string) string { return strings.ReplaceAll(object, "NAME", name) }
	for name, text := range map[string]string{
		"marks":           "---\n" + one("x") + "---\n# a comment\n---\n" + one("z") + "---\n",
		"comment in mark": "--- # one\n" + one("x") + "--- # two\n" + one("z"),
		"end marks":       one("x") + "...\n---\n" + one("z") + "...\n",
		"end mark alone":  one("x") + "...\n" + one("z"),
		"directive":       "%YAML 1.1\n---\n" + one("x") + "---\n" + one("z"),
		"byte order mark": "\ufeff" + one("x") + "---\n" + one("z"),
		"carriage return": strings.ReplaceAll(one("x")+"---\n"+one("z"), "\n", "\r\n"),
		"JSON":            j("x") + j("z"),
		"JSON lines":      j("x") + "\n" + j("z") + "\n",
		"JSON and marks":  j("x") + "\n---\n" + j("z"),
		"JSON in YAML":    "--- " + j("x") + "\n---\n" + one("z"),
		"JSON with tabs":  strings.ReplaceAll(j("x"), ",", ",\n\t") + j("z"),
		"flow":            "{\"apiVersion\": v1, kind: ConfigMap, metadata: {name: x, namespace: b}}\n---\n" + one("z"),
		"list":            `{"apiVersion":"v1","kind":"List","items":[` + j("x") + "," + j("z") + "]}",
		"ConfigMapList":   `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[` + j("x") + "," + j("z") + "]}",
		"list of lists":   `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + j("x") + "]}," + j("z") + "]}",
		"null":            one("x") + "---\nnull\n---\n" + one("z"),
		"alias":           "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x, namespace: &ns b}\n- " + strings.ReplaceAll(strings.ReplaceAll(one("z"), "namespace: b", "namespace: *ns"), "\n", "\n  ") + "\n",
		"marks in text":   one("x") + "data:\n  k: |\n    a\n    ---\n    b\n---\n" + one("z"),
		"indented mark":   one("x") + "data:\n k: |\n  a\n ---: b\n---\n" + one("z"),
	} {
		got := compared(t, text, one("z")+"---\n"+one("x"))
		if len(got) != 2 || got[0]["name"] != "x" || got[1]["name"] != "z" || got[0]["state"] != "Present" || got[1]["state"] != "Present" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Many small documents cost what their bytes cost.
func TestManyDocumentsAreReadOneAfterTheOther(t *testing.T) {
	for _, text := range []string{"{\"a\":1}", "---\na\n", "---\n", "{}\n"} {
		got := call(t, "", inputs(t, strings.Repeat(text, 2<<20/len(text)), configMap)...)
		if got.Code != cli.ExitFailed || len(got.Err) > 10_000 {
			t.Errorf("%q: exit %d, %.300s", text, got.Code, got.Err)
		}
	}
	same := strings.Repeat(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 20_000)
	if got := call(t, "", inputs(t, same, configMap)...); !strings.Contains(got.Err, "ConfigMap a is there already") || !strings.Contains(got.Err, "and more\n") || len(got.Err) > 20_000 {
		t.Errorf("exit %d, %d bytes: %.300s", got.Code, len(got.Err), got.Err)
	}
}

// 10 MiB of YAML are read within a bounded multiple of their size.
func TestTenMebibytesAreRead(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 9<<20; i++ {
		fmt.Fprintf(&b, "  k%d: %s\n", i, strings.Repeat("x", 1000))
	}
	args := inputs(t, configMap+"data:\n"+b.String(), configMap+"data:\n"+b.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := call(t, "", args...)
	runtime.ReadMemStats(&after)
	if got.Code != cli.ExitDone {
		t.Errorf("%+v", got)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 1000 {
		t.Errorf("%d MiB were allocated for 20 MiB", used)
	}
}
