package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/formats/manifest"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"

// problems returns the error of an input, "" for none.
func problems(t *testing.T, text string) string {
	t.Helper()
	objects, err := manifest.Read(strings.NewReader(text), "hub.yaml")
	if err == nil {
		return ""
	}
	if objects != nil {
		t.Errorf("%d objects come with %v", len(objects), err)
	}
	return err.Error()
}

// read returns the objects of an input.
func read(t *testing.T, text string) []manifest.Object {
	t.Helper()
	objects, err := manifest.Read(strings.NewReader(text), "hub.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// Unreadable input is reported with its position and the reason.
func TestReadErrorsHaveFileLineAndDocument(t *testing.T) {
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
		"long":             {configMap + "---\n# x\na: b\nc: " + strings.Repeat("x", manifest.MaxDocumentBytes) + "\n", "hub.yaml:6: document 2: is longer than 10 MiB"},
		"very deep":        {configMap + "data: " + strings.Repeat("{a: ", 10001) + strings.Repeat("}", 10001), "hub.yaml:1: document 1: "},
		"deep JSON":        {`{"a":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "}", "hub.yaml:1: document 1: "},
		"deep blocks":      {configMap + "data:\n  " + strings.Repeat("- ", 10000) + "x\n", "hub.yaml:1: document 1: "},
		"bomb":             {configMap + bomb, "excessive aliasing"},
		"itself":           {configMap + "data: &d {k: *d}\n", "contains itself"},
		"text":             {"hello\n", "hub.yaml:1: document 1: must be an object"},
		"list":             {"- a\n- b\n", "hub.yaml:1: document 1: must be an object"},
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
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, c.text)
			if !strings.Contains(got, c.want) || !strings.HasPrefix(got, "hub.yaml:") || len(got) > 10_000 {
				t.Errorf("%.600q", got)
			}
		})
	}
}

// All problems are reported at once, up to a limit.
func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	got := strings.Split(problems(t, strings.Repeat("a\n---\n", manifest.MaxProblems)), "\n")
	if len(got) != manifest.MaxProblems || !strings.HasPrefix(got[1], "hub.yaml:3: document 2: must be an object") {
		t.Errorf("%q", got)
	}
	got = strings.Split(problems(t, strings.Repeat("a\n---\n", manifest.MaxProblems+10)), "\n")
	if n := len(got); n != manifest.MaxProblems+1 || got[n-1] != "and more" {
		t.Errorf("%q", got)
	}
}

// A problem repeats no long value, and stays on its line.
func TestAProblemRepeatsNoLongValue(t *testing.T) {
	key := strings.Repeat("x", 5000)
	got := problems(t, `{"`+key+`": 1, "`+key+`": 2}`)
	if !strings.Contains(got, "duplicate field") || len(got) > 300 || strings.Contains(got, "\n") || !strings.HasSuffix(got, "...") {
		t.Errorf("%q", got)
	}
}

// The error of Read wraps the error of the reader and contains the name of the input.
func TestAnInputThatFails(t *testing.T) {
	failed := errors.New("the disk is gone")
	if _, err := manifest.Read(iotest.ErrReader(failed), "hub.yaml"); !errors.Is(err, failed) || !strings.HasPrefix(err.Error(), "hub.yaml: ") {
		t.Errorf("%v", err)
	}
}

// Words and numbers are read as kubectl reads them: by YAML 1.1, and with the numbers of
// Kubernetes.
func TestWordsAndNumbersAreThoseOfKubectl(t *testing.T) {
	for text, want := range map[string]any{
		"off": false, "\"yes\"": "yes", "!!str no": "no", "9007199254740993": int64(9007199254740993), "9223372036854775807": int64(9223372036854775807),
		"1.5": 1.5, "0x10": int64(16), "0644": int64(420), "1_000": int64(1000),
	} {
		got := read(t, "apiVersion: example.com/v1\nkind: X\nmetadata: {name: a}\nspec: {v: "+text+"}\n")[0]
		if diff := cmp.Diff(map[string]any{"v": want}, got.Object["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		written, err := json.Marshal(got.Object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got.Object, read(t, string(written))[0].Object); diff != "" {
			t.Errorf("%s as JSON (-want +got):\n%s", text, diff)
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
		got := read(t, text)
		if len(got) != 2 || got[0].GetName() != "x" || got[1].GetName() != "z" || got[0].GetNamespace() != "b" || got[1].GetNamespace() != "b" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The position of an object is its line and the number of its document.
func TestThePlaceOfAnObject(t *testing.T) {
	text := "# what is asked for\n" + configMap + "---\n\n# and more\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: X, metadata: {name: c}}\n- {apiVersion: v1, kind: X, metadata: {name: d}}\n"
	var got []string
	for _, o := range read(t, text) {
		got = append(got, o.GetName()+" "+o.Place.String())
	}
	want := []string{"a hub.yaml:2: document 1", "c hub.yaml:8: document 2", "d hub.yaml:8: document 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An input without objects is no error, and brings none.
func TestAnInputWithoutObjects(t *testing.T) {
	for _, text := range []string{"", "---\n# nothing\n---\n...\n", "apiVersion: v1\nkind: List\nitems: []\n", "null\n"} {
		if got := read(t, text); len(got) != 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Two versions of an object are two objects.
func TestAnObjectInTwoVersions(t *testing.T) {
	if got := read(t, configMap+"---\n"+strings.Replace(configMap, "v1", "v2", 1)); len(got) != 2 {
		t.Error(got)
	}
}

// The cost of many small documents is linear in their bytes.
func TestManyDocumentsAreReadOneAfterTheOther(t *testing.T) {
	for _, text := range []string{"{\"a\":1}", "---\na\n", "{}\n"} {
		if got := problems(t, strings.Repeat(text, 2<<20/len(text))); got == "" || len(got) > 10_000 {
			t.Errorf("%q: %.300s", text, got)
		}
	}
	if got := read(t, strings.Repeat("---\n", 500_000)); len(got) != 0 {
		t.Errorf("%d objects", len(got))
	}
	same := strings.Repeat(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 20_000)
	if got := problems(t, same); !strings.Contains(got, "ConfigMap a is there already") || !strings.HasSuffix(got, "\nand more") || len(got) > 20_000 {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

// 2 MiB of YAML are read within a bounded multiple of their size.
func TestALongDocumentIsRead(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 2<<20; i++ {
		fmt.Fprintf(&b, "  k%d: %s\n", i, strings.Repeat("x", 1000))
	}
	text := configMap + "data:\n" + b.String()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := read(t, text)
	runtime.ReadMemStats(&after)
	if len(got) != 1 {
		t.Errorf("%d objects", len(got))
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 120 {
		t.Errorf("%d MiB were allocated for 2 MiB", used)
	}
}

// FuzzRead: no input causes a panic, and each object has a kind, a name and a position.
func FuzzRead(f *testing.F) {
	for _, text := range []string{configMap, "---\n" + configMap + "...\n", `{"apiVersion":"v1","kind":"List","items":[]}`, "%YAML 1.1\n---\na: &a [*a]\n", "{\"a\":1}{\"a\"", "\ufeff# x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := manifest.Read(strings.NewReader(text), "hub.yaml")
		if err != nil && objects != nil {
			t.Errorf("objects come with %v", err)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetName() == "" || o.Place.Line < 1 || o.Place.Document < 1 {
				t.Errorf("%v at %s", o.Object, o.Place)
			}
		}
	})
}
