package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What cannot be read, and the place and reason that are told.
func TestWhatCannotBeReadIsToldWithFileDocumentAndLine(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 7 {
		bomb += fmt.Sprintf("%c: &%c [*%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c]\n", 'b'+i, 'b'+i, 'a'+i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"syntax":           {configMap + "---\n" + configMap + "data: [1\n", "hub.yaml:8: document 2: is not YAML: "},
		"twice":            {configMap + "data:\n  k: 1\n  l: 2\n  k: 3\n", `hub.yaml:7: document 1: the key "k" is there already, on line 5`},
		"twice below ---":  {configMap + "---\n" + configMap + "data: {k: 1, k: 2}\n", `hub.yaml:8: document 2: the key "k" is there already, on line 8`},
		"twice in JSON":    {"{\"apiVersion\": \"v1\",\n\"data\": {\"k\": 1,\n\"k\": 2}}", `hub.yaml:3: document 1: the key "k" stands twice`},
		"broken JSON":      {"{\"apiVersion\": \"v1\",\n\"kind\": ", "hub.yaml:2: document 1: is not JSON: unexpected end"},
		"second JSON":      {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}` + "\n{\"a\": }", "hub.yaml:2: document 2: is not JSON: "},
		"NUL":              {configMap + "data: {k: \"a\x00b\"}\n", "hub.yaml:4: document 1: has a NUL byte"},
		"not UTF-8":        {configMap + "data:\n  k: a\n  l: \xff\xfe\n", "hub.yaml:6: document 1: is not UTF-8"},
		"UTF-16":           {"a\x00:\x00 \x001\x00", "hub.yaml:1: document 1: has a NUL byte"},
		"long":             {configMap + "---\n# " + strings.Repeat("x", maxDocument) + "\na: b\n", "hub.yaml:4: document 2: is longer than 10 MiB"},
		"deep":             {configMap + "data: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "hub.yaml:4: document 1: is nested deeper than 1000 levels"},
		"very deep":        {configMap + "data: " + strings.Repeat("{a: ", 10001) + strings.Repeat("}", 10001), "hub.yaml:"},
		"deep JSON":        {`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}", "hub.yaml:1: document 1: is nested deeper than 1000 levels"},
		"deep blocks":      {configMap + deepBlocks(10000), "hub.yaml:"},
		"bomb":             {configMap + bomb, "hub.yaml:4: document 1: has more than 1000000 values"},
		"wide bomb":        {configMap + "a: &a \"" + strings.Repeat("x", 1<<20) + "\"\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n", "has more than 1000000 values or 10 MiB with its aliases"},
		"many":             {`{"a":[` + strings.Repeat("1,", maxValues) + "1]}", "hub.yaml:1: document 1: has more than 1000000 values"},
		"itself":           {configMap + "data: &d {k: *d}\n", "hub.yaml:4: document 1: is nested deeper than 1000 levels"},
		"text":             {"hello\n", "hub.yaml:1: document 1: must be an object"},
		"list":             {"- a\n- b\n", "hub.yaml:1: document 1: must be an object"},
		"nothing":          {"---\n# nothing\n---\n...\n", "hub.yaml: holds no object"},
		"empty":            {"", "hub.yaml: holds no object"},
		"comments":         {configMap + strings.Repeat("#\n", maxComments+1), "hub.yaml:1: document 1: has more than 100000 lines of comments"},
		"no kind":          {"apiVersion: v1\nmetadata: {name: a}\n", "hub.yaml:1: document 1: kind must be text"},
		"no version":       {"kind: ConfigMap\nmetadata: {name: a}\n", "hub.yaml:1: document 1: apiVersion must be text"},
		"version":          {"apiVersion: a/b/c\nkind: X\nmetadata: {name: a}\n", `"a/b/c" must be a group and a version`},
		"no metadata":      {"apiVersion: v1\nkind: X\nmetadata: a\n", "metadata must be an object"},
		"no name":          {"apiVersion: v1\nkind: X\nmetadata: {}\n", "metadata.name must be text"},
		"a number as name": {"apiVersion: v1\nkind: X\nmetadata: {name: 1}\n", "metadata.name must be text"},
		"generateName":     {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "generateName cannot be matched"},
		"namespace":        {"apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: [b]}\n", "metadata.namespace must be text"},
		"item":             {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(configMap, "\n", "\n  ") + "\n- {kind: X}\n", "hub.yaml:1: document 1, items[1]: apiVersion must be text"},
		"same object":      {configMap + "---\n" + configMap, "hub.yaml:5: document 2: ConfigMap b/a is there already, in document 1 on line 1"},
		"infinity":         {configMap + "data: {k: .inf}\n", `hub.yaml:4: document 1: ".inf" is no number`},
		"null as key":      {configMap + "data: {~: 1}\n", "hub.yaml:4: document 1: a key must be text"},
		"list as key":      {configMap + "data: {[a]: 1}\n", "hub.yaml:4: document 1: a key must be text"},
		"tag":              {configMap + "data: {k: !mine x}\n", "hub.yaml:4: document 1: the tag !mine is not known"},
		"merge":            {configMap + "data: {<<: x}\n", "<< must be a map"},
		"unknown alias":    {configMap + "data: *x\n", "is not YAML: "},
		"tab":              {"a:\n\tb: 1\n", "hub.yaml:2: document 1: is not YAML: "},
		"Secret":           {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: 5551234}\n", "hub.yaml:1: document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := call("", append(files(t, c.text, configMap), "-o", "json")...)
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, c.want) || !strings.HasPrefix(got.err, "drift: ") {
				t.Errorf("exit %d, %q, %.600q", got.code, got.out, got.err)
			}
			if strings.Contains(got.err, "5551234") || len(got.err) > 10_000 {
				t.Errorf("tells too much: %.600q", got.err)
			}
			switch other := call("", append(files(t, configMap, c.text), "-o", "json")...); name {
			case "same object":
				if !strings.Contains(other.err, "member.yaml:5: document 2: ") {
					t.Errorf("%q", other.err)
				}
			case "Secret": // is not matched
			default:
				if !strings.Contains(other.err, strings.ReplaceAll(c.want, "hub.yaml", "member.yaml")) {
					t.Errorf("%.600q", other.err)
				}
			}
		})
	}
}

// deepBlocks is YAML that is nested by indentation, in runs of lists.
func deepBlocks(levels int) string { return "data:\n  " + strings.Repeat("- ", levels) + "x\n" }

// All that is wrong is told at once, but not without end.
func TestAllProblemsAreToldAtOnce(t *testing.T) {
	got := call("", files(t, strings.Repeat("a\n---\n", 30), "b\n")...)
	if n := strings.Count(got.err, "\n"); n != maxProblems+2 || !strings.Contains(got.err, "hub.yaml: and so on") || !strings.Contains(got.err, "member.yaml:1") {
		t.Errorf("%d lines: %s", n, got.err)
	}
}

func TestWordsThatAreBooleansInOldYAMLDrawAWarning(t *testing.T) {
	args := append(files(t, configMap+"data:\n  n: off\n  on: \"yes\"\n  t: !!str no\n", configMap+"data: {n: \"off\", \"on\": \"yes\", t: \"no\"}\n"), "-o", "json")
	got := call("", args...)
	for _, want := range []string{
		"hub.yaml:5: document 1: off is read as false, as YAML 1.1 and kubectl do; write \"off\" or false\n",
		"hub.yaml:5: document 1: the key n is read as false by YAML 1.1, as in kubectl; write \"n\"\n",
		"hub.yaml:6: document 1: the key on is read as true by YAML 1.1, as in kubectl; write \"on\"\n",
	} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not in %s", want, got.err)
		}
	}
	if n := strings.Count(got.err, "drift: warning: "); n != 4 || got.code != exitSame { // and the key n of the member
		t.Errorf("exit %d, %d warnings: %s", got.code, n, got.err)
	}
	d := diffs(elements(t, got.out)[0])
	if len(d) != 1 || d[0].(map[string]any)["valueInHub"] != false || d[0].(map[string]any)["valueInMember"] != "off" {
		t.Errorf("%v", d)
	}
}

func TestLettersThatAreBooleansInOldYAMLAreText(t *testing.T) {
	got := call("", append(files(t, strings.ReplaceAll(configMap, "namespace: b", "namespace: n")+"data: {k: y}\n",
		strings.ReplaceAll(configMap, "namespace: b", `namespace: "n"`)+"data: {k: \"y\"}\n"), "-exit-code")...)
	if got.code != exitSame || strings.Count(got.err, "\n") != 2 || !strings.Contains(got.err, "hub.yaml:4: document 1: y is read as text, and kubectl reads it as true; write \"y\" or true\n") {
		t.Errorf("%+v", got)
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	head := "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\nspec: "
	numbers := map[string]string{
		"9007199254740993": "9007199254740992", "9223372036854775807": "9223372036854775806",
		"18446744073709551616": "18446744073709551617", "-9223372036854775809": "-9223372036854775810",
		"123456789012345678901234567890": "123456789012345678901234567891",
	}
	for hub, member := range numbers {
		yaml := compared(t, head+"{n: "+hub+"}\n", head+"{n: "+member+"}\n")
		asJSON := compared(t, jsonX(hub), jsonX(member))
		for _, got := range [][]map[string]any{yaml, asJSON} {
			d := diffs(got[0])
			want := []any{map[string]any{"path": "/spec/n", "keyPath": ".spec.n", "class": "Changed", "valueInHub": json.Number(hub), "valueInMember": json.Number(member)}}
			if diff := cmp.Diff(want, d); diff != "" {
				t.Error(diff)
			}
		}
		if mixed := compared(t, head+"{n: "+hub+"}\n", jsonX(hub)); len(diffs(mixed[0])) != 0 {
			t.Errorf("%s is not itself: %v", hub, mixed)
		}
		if text := call("", append(files(t, jsonX(hub), jsonX(member)), "-o", "yaml")...); !strings.Contains(text.out, "valueInHub: "+hub+"\n") {
			t.Errorf("%s", text.out)
		}
	}
	for hub, member := range map[string]string{"1": "1.0", "1e3": "1000", "0x10": "16", "0o17": "15", "0644": "420", "1_000": "1000", "+1": "1", "-0.0": "0"} {
		if got := compared(t, head+"{n: "+hub+"}\n", head+"{n: "+member+"}\n"); len(diffs(got[0])) != 0 {
			t.Errorf("%s is not %s: %v", hub, member, got)
		}
	}
}

func jsonX(n string) string {
	return `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a"},"spec":{"n":` + n + `}}`
}

func TestDocumentsOfEverySort(t *testing.T) {
	one := func(name string) string { return strings.ReplaceAll(configMap, "name: a", "name: "+name) }
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"b"}}`
	j := func(name string) string { return strings.ReplaceAll(object, "NAME", name) }
	for name, text := range map[string]string{
		"marks":           "---\n" + one("x") + "---\n# a comment\n---\n" + one("z") + "---\n",
		"comment in mark": "--- # one\n" + one("x") + "--- # two\n" + one("z"),
		"end marks":       one("x") + "...\n---\n" + one("z") + "...\n",
		"byte order mark": "\ufeff" + one("x") + "---\n" + one("z"),
		"carriage return": strings.ReplaceAll(one("x")+"---\n"+one("z"), "\n", "\r\n"),
		"JSON":            j("x") + j("z"),
		"JSON lines":      j("x") + "\n" + j("z") + "\n",
		"JSON and marks":  j("x") + "\n---\n" + j("z"),
		"JSON in YAML":    "--- " + j("x") + "\n---\n" + one("z"),
		"flow":            "{\"apiVersion\": v1, kind: ConfigMap, metadata: {name: x, namespace: b}}\n---\n" + one("z"),
		"list":            `{"apiVersion":"v1","kind":"List","items":[` + j("x") + "," + j("z") + "]}",
		"ConfigMapList":   `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[` + j("x") + "," + j("z") + "]}",
		"list of lists":   `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + j("x") + "]}," + j("z") + "]}",
		"null":            one("x") + "---\nnull\n---\n" + one("z"),
		"merge key":       "apiVersion: v1\nkind: List\nitems:\n- &x\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x, namespace: b}\n- <<: *x\n  metadata: {name: z, namespace: b}\n",
		"marks in text":   one("x") + "data:\n  k: |\n    a\n    ---\n    b\n---\n" + one("z"),
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
		got := call("", files(t, strings.Repeat(text, 2<<20/len(text)), configMap)...)
		if got.code != exitFailed || len(got.err) > 10_000 {
			t.Errorf("%q: exit %d, %.300s", text, got.code, got.err)
		}
	}
	same := strings.Repeat(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 20_000)
	off := configMap + "data: {k: [" + strings.Repeat("off, ", 20_000) + "]}\n"
	for text, want := range map[string]string{same: "ConfigMap a is there already", off: "off is read as false"} {
		if got := call("", files(t, text, configMap)...); !strings.Contains(got.err, want) || !strings.Contains(got.err, " more\n") || len(got.err) > 20_000 {
			t.Errorf("exit %d, %d bytes: %.300s", got.code, len(got.err), got.err)
		}
	}
}

// 10 MiB of JSON and YAML are read within a bounded multiple of their size.
func TestTenMebibytesAreRead(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 9<<20; i++ {
		fmt.Fprintf(&b, "  k%d: %s\n", i, strings.Repeat("x", 1000))
	}
	args := append(files(t, configMap+"data:\n"+b.String(), configMap+"data:\n"+b.String()), "-exit-code")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := call("", args...)
	runtime.ReadMemStats(&after)
	if got.code != exitSame {
		t.Errorf("%+v", got)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 1000 {
		t.Errorf("%d MiB were allocated for 20 MiB", used)
	}
}
