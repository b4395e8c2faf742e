package yamldoc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/formats/problem"
)

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

// thing has a field of every type.
type thing struct {
	S, NonEmpty, Mode, Name string
	N, Least                int
	B                       bool
	Long, Some              time.Duration
	Map                     map[string]string
	List                    []string
	Tree                    any
	JSON                    string
	Inner                   *thing
}

func readThing(v value) *thing {
	var x thing
	v.Object(fields{
		"apiVersion": yamldoc.Ignore, "kind": yamldoc.Ignore, "metadata": yamldoc.Ignore,
		"str":      func(v value) { x.S = v.Str() },
		"nonEmpty": func(v value) { x.NonEmpty = v.NonEmpty() },
		"mode":     func(v value) { x.Mode = yamldoc.OneOf(v, "fast", "slow") },
		"name":     func(v value) { x.Name = v.Named(validation.IsDNS1123Label) },
		"n":        func(v value) { x.N = v.Integer(-1, 9) },
		"least":    func(v value) { x.Least = v.AtLeast(1) },
		"bool":     func(v value) { x.B = v.Boolean() },
		"long":     func(v value) { x.Long = v.Duration() },
		"some":     func(v value) { x.Some = v.Period() },
		"map":      func(v value) { x.Map = v.StringMap() },
		"list":     func(v value) { x.List = v.Strings() },
		"tree":     func(v value) { x.Tree = v.Tree() },
		"json":     func(v value) { x.JSON = string(v.JSON()) },
		"thing":    func(v value) { x.Inner = readThing(v) },
		"text": func(v value) {
			if inner, ok := v.Inner(); ok {
				x.Inner = readThing(inner)
			}
		},
	})
	return &x
}

// read returns the values of a text, and its problems.
func read(t testing.TB, text string) (things []*thing, problems problem.List) {
	t.Helper()
	docs, err := yamldoc.Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	var all yamldoc.Report
	for d := range docs {
		if !d.IsEmpty() {
			d.Identify()
			things = append(things, readThing(d.Root()))
		}
		all.Include(&d.Report)
	}
	return things, all.Problems()
}

func TestEveryTypeIsRead(t *testing.T) {
	got, problems := read(t, `
str: 2026-01-05
nonEmpty: x
mode: fast
name: a-b
n: -1
least: 0x10
bool: true
long: 0
some: 1h30m
map: {a: b, "no": "yes"}
list: &l [a, ""]
tree: {a: [1, 2.5, null, true, x, *l]}
json: {b: <&>, a: 1}
thing: {str: null}
---
# nothing
---
null
---
text: "{n: 3}"
`)
	want := []*thing{
		{
			S: "2026-01-05", NonEmpty: "x", Mode: "fast", Name: "a-b", N: -1, Least: 16, B: true, Some: 90 * time.Minute,
			Map: map[string]string{"a": "b", "no": "yes"}, List: []string{"a", ""},
			Tree:  map[string]any{"a": []any{int64(1), 2.5, nil, true, "x", []any{"a", ""}}},
			JSON:  `{"a":1,"b":"<&>"}`,
			Inner: &thing{},
		},
		{Inner: &thing{N: 3}},
	}
	if d := cmp.Diff(want, got); d != "" || len(problems) > 0 {
		t.Errorf("problems %v, things (-want +got):\n%s", problems, d)
	}
}

// A wrong value is reported with its line and path, and with the permitted values.
func TestProblemsOfValues(t *testing.T) {
	const known = "apiVersion, bool, json, kind, least, list, long, map, metadata, mode, n, name, nonEmpty, some, str, text, thing, tree"
	for text, want := range map[string]string{
		"str: [x]":                  "str: must be a string, not a list",
		"str: {}":                   "str: must be a string, not an object",
		"str: 7":                    `str: must be a string, not the number 7; write "7"`,
		"str: true":                 `str: must be a string, not a boolean; write "true"`,
		"str: !!binary YQ==":        "str: has the YAML tag !!binary, which JSON has not; leave the tag out",
		"str: !!int x":              "str: is not what its YAML tag says",
		"nonEmpty: ''":              "nonEmpty: must not be empty",
		"mode: quick":               `mode: must be fast or slow, not "quick"`,
		"n: 10":                     "n: must be from -1 to 9, not 10",
		"n: ten":                    "n: must be a whole number, not a string",
		"n: 1.5":                    "n: must be a whole number, not the number 1.5",
		"n: 18446744073709551615":   "n: does not fit into 64 bits with a sign; quote it if it is a string",
		"least: 0":                  "least: must be a number of at least 1, not 0",
		"least: 2147483648":         "least: must be a number of at least 1, not 2147483648",
		"bool: perhaps":             "bool: must be true or false, not a string",
		"long: soon":                `long: must be a duration such as 30s, 5m or 1h30m, not "soon"`,
		"long: 10":                  "long: must be a duration such as 30s, 5m or 1h30m, not the number 10",
		"long: -1s":                 "long: must be from 0s to 365 days (8760h), not -1s",
		"long: 8761h":               "long: must be from 0s to 365 days (8760h), not 8761h",
		"some: 0":                   "some: must be more than 0s and at most 365 days (8760h), not 0",
		"map: {a: 1}":               `map.a: must be a string, not the number 1; write "1"`,
		"list: [a, [b]]":            "list[1]: must be a string, not a list",
		"list: {}":                  "list: must be a list, not an object",
		"tree: .nan":                "tree: must be a finite number",
		"thing: null":               "",
		"thing: [a]":                "thing: must be an object, not a list",
		"things: 1":                 "things: unknown field; known are " + known,
		"things:\n  a: 1":           "things: unknown field; known are " + known,
		`"": 1`:                     `"": unknown field; known are ` + known,
		"thing: {thing: {n: x}}":    "thing.thing.n: must be a whole number, not a string",
		"text: '{n: x}'":            "text.n: must be a whole number, not a string",
		"text: \"a\\nb\\n---\\nc\"": "",
		"[]":                        "must be an object, not a list",
	} {
		if want != "" {
			want = "f:1: " + want
		}
		_, problems := read(t, text)
		if got := problems.Error(); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// Syntax for which YAML parsers disagree is refused at every position.
func TestAmbiguousYAMLIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"str: yes":                     `f:1: str: is true or false in old YAML and a string in new; write true, false or "yes"`,
		"nonEmpty: Off":                `f:1: nonEmpty: is true or false in old YAML`,
		"mode: n":                      `f:1: mode: is true or false in old YAML`,
		"name: y":                      `f:1: name: is true or false in old YAML`,
		"bool: on":                     `f:1: bool: is true or false in old YAML and a string in new; write true, false or "on"`,
		"some: No":                     `f:1: some: is true or false in old YAML`,
		"map: {a: no}":                 `f:1: map.a: is true or false in old YAML`,
		"list: [yes]":                  `f:1: list[0]: is true or false in old YAML`,
		"tree: {a: [YES]}":             `f:1: tree.a[0]: is true or false in old YAML`,
		"map: {on: a}":                 "f:1: map: keys must be strings; quote the key",
		"tree: {yes: a}":               "f:1: tree: keys must be strings; quote the key",
		"tree: {1: a}":                 "f:1: tree: keys must be strings; quote the key",
		"tree: {[a]: a}":               "f:1: tree: keys must be strings; quote the key",
		"? {a: b}\n: 1":                "f:1: keys must be strings; quote the key",
		"null: 1":                      "f:1: keys must be strings; quote the key",
		"tree: {a: 1, a: 2}":           "f:1: tree.a: is there already, on line 1; leave one of the two",
		"n: 1\nstr: x\nn: 2":           "f:3: n: is there already, on line 1; leave one of the two",
		"map: &m {a: b}\n<<: *m":       "f:2: merge keys (<<) are not read; write the fields out",
		"tree: {a: {<<: {b: 1}}}":      "f:1: tree.a: merge keys (<<) are not read; write the fields out",
		"str: &k name\ntree: {*k : 1}": "",
		"str: &k name\n*k : 1":         "f:2: name: must be a string, not the number 1",
	} {
		_, problems := read(t, text)
		if got := problems.Error(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// A syntax error ends one document; lines count from the start of the input.
func TestDocumentsOfAStream(t *testing.T) {
	things, problems := read(t, "# a comment\n%YAML 1.1\n---\nn: 1\n---\na: [\n...\n%YAML 1.1\n---\nn: x\n...\n# y\n--- {n: 2}\n---\na:\n\tb: c\n---\nthing: &t {n: z}\ntext: x\ntree: {a: *b}\n---\nn: 3\n")
	want := []string{
		"f:6: is not YAML: did not find expected node content",
		"f:10: n: must be a whole number, not a string",
		"f:16: is not YAML: found character that cannot start any token; indent with spaces, not with tabs",
		"f:17: is not YAML: unknown anchor 'b' referenced",
	}
	if d := cmp.Diff(want, strings.Split(problems.Error(), "\n")); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	var ns []int
	for _, x := range things {
		ns = append(ns, x.N)
	}
	if !slices.Equal(ns, []int{1, 0, 2, 3}) {
		t.Errorf("read %v", ns)
	}
}

// An alias has its own position; a problem inside of it has the position of the anchor's content.
func TestLinesOfAliases(t *testing.T) {
	_, problems := read(t, "tree: &t\n  least: x\nthing: *t\nstr: &s [a]\nnonEmpty: *s\n")
	want := "f:2: thing.least: must be a whole number, not a string\nf:4: str: must be a string, not a list\nf:5: nonEmpty: must be a string, not a list"
	if got := problems.Error(); got != want {
		t.Errorf("problems:\n%s", got)
	}
}

// A problem in the text of a string has the position of the string.
func TestLinesOfTexts(t *testing.T) {
	_, problems := read(t, "n: 1\n\ntext: |\n  str: x\n  n: x\n")
	if got := problems.Error(); got != "f:3: text.n: must be a whole number, not a string" {
		t.Errorf("problems:\n%s", got)
	}
}

// bomb is a short document that is long when its aliases are written out.
func bomb(leaf string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: &a0 [%s]\n", leaf)
	for i := range 30 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b.String()
}

// Long, deep or wrong input is limited, and the reader continues after it.
func TestHostileInputIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("#", yamldoc.MaxBytes+1): "f:1: is longer than 4194304 bytes",
		bomb("x"):                               "f:1: the document makes more than 1048576 values with its aliases written out",
		"a: &a " + strings.Repeat("x", 1<<19) + "\nb: [" + strings.Repeat("*a,", 40) + "]": "f:1: the document makes more than 16777216 bytes with its aliases written out",
		"a: &a [*a]": "f:1: the document holds an alias of something that it is in itself",
		"tree: " + strings.Repeat("[", 150) + strings.Repeat("]", 150): "f:1: the document is nested deeper than 100 levels",
		strings.Repeat("[", 20_000):                                    "f:1: is not YAML: ",
	} {
		_, problems := read(t, text)
		if got := problems.Error(); !strings.HasPrefix(got, want) || len(problems) != 1 {
			t.Errorf("%.40s\n got %.200s\nwant %s", text, got, want)
		}
	}
	things, problems := read(t, bomb("x")+"---\n"+bomb("x")+"---\nn: 1\n")
	if len(things) != 1 || things[0].N != 1 || len(problems) != 2 {
		t.Errorf("read %d things behind bombs, %d problems", len(things), len(problems))
	}
	large := "str: &a " + strings.Repeat("x", 8<<10) + "\nlist: [" + strings.Repeat("*a,", 800) + "]\n---\n"
	things, problems = read(t, large+large+large+"n: 1\n")
	if len(things) != 3 || things[2].N != 1 || len(problems) != 1 {
		t.Errorf("read %d things that are too large together, %d problems", len(things), len(problems))
	}
	_, problems = read(t, "list: ["+strings.Repeat("1,", 5000)+"]")
	if len(problems) != yamldoc.MaxProblems+1 || problems[yamldoc.MaxProblems].Text != "and 4000 problems more" {
		t.Errorf("%d problems, the last is %v", len(problems), problems[len(problems)-1])
	}
	long := strings.Repeat("x", 100_000)
	for _, text := range []string{
		long + ": 1", "mode: " + long, "n: " + strings.Repeat("9", 100_000), "str: !" + long + " x", "name: " + long, "kind: " + long + "\nn: x",
		strings.Repeat("{"+strings.Repeat("y", 64)+": ", 90) + "n: [" + strings.Repeat("}", 90),
		"tree: " + strings.Repeat("{"+strings.Repeat("y", 64)+": ", 90) + "!x y" + strings.Repeat("}", 90),
	} {
		_, problems := read(t, text)
		if n := len(problems.Error()); len(problems) != 1 || n > 1000 {
			t.Errorf("%.20s: %d problems in %d bytes", text, len(problems), n)
		}
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func TestAnErrorOfTheReaderIsReturned(t *testing.T) {
	if _, err := yamldoc.Read(broken{}, "f"); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "f: ") {
		t.Errorf("error = %v", err)
	}
}

func open(t *testing.T, text string) *yamldoc.Doc {
	t.Helper()
	docs, err := yamldoc.Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	for d := range docs {
		return d
	}
	t.Fatal("there is no document")
	return nil
}

// A problem from a check of the value is reported at its field, unless the reader already
// reported one there or above.
func TestCheck(t *testing.T) {
	d := open(t, "a: 1\nspec:\n  b:\n  - c: 1\n  - d: 2\n")
	spec, _ := d.Root().Get("spec")
	spec.Place("b[1].d").Fail("is wrong")
	noun := field.ErrorList{
		field.Required(field.NewPath("noun", "b").Index(0).Child("c"), "here"),
		field.Required(field.NewPath("noun", "b").Index(1).Child("d").Child("e"), "below what is wrong"),
		field.Invalid(field.NewPath("noun", "b").Index(7), strings.Repeat("x", 10_000), "is not there"),
		field.Required(field.NewPath("noun", "b").Key(strings.Repeat("k", 10_000)), "is long"),
	}
	spec.Check(noun.ToAggregate(), func(path string) string { return strings.TrimPrefix(path, "noun.") })
	spec.Check(errors.New("is odd"), nil)
	spec.Check(nil, nil)
	problems := d.Problems()
	want := []string{"f:3: spec: is odd", `f:4: spec.b[0].c: Required value: here`, "f:4: spec.b[7]: Invalid value: ", "f:4: spec.b[kkkk", "f:5: spec.b[1].d: is wrong"}
	if len(problems) != len(want) {
		t.Fatalf("problems:\n%s", problems.Error())
	}
	for i, p := range problems {
		if !strings.HasPrefix(p.Error(), want[i]) || len(p.Error()) > 2000 {
			t.Errorf("problem %.200s, want %s", p.Error(), want[i])
		}
	}
}

// A part of a document has its path and its lines, and is measured by itself.
func TestParts(t *testing.T) {
	whole := open(t, "a:\n  b:\n    n: x\n")
	b := whole.Root().Place("a.b")
	at, _ := whole.Root().Get("a")
	part := yamldoc.New("g")
	part.Open(at.Node, "a")
	readThing(part.Root())
	if got := part.Problems().Error(); !strings.HasPrefix(got, "g:2: a.b: unknown field") || b.Path != "a.b" || b.Line() != 3 {
		t.Errorf("problems of a part: %s; %s is on line %d", got, b.Path, b.Line())
	}
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	d := yamldoc.New("")
	d.Open(yamldoc.NodeOf(deep), "")
	if got := d.Problems().Error(); got != "is nested deeper than 100 levels" || !d.IsEmpty() {
		t.Errorf("problems of what is too deep: %s", got)
	}
}

// Nodes that a caller has made may be wrong in ways of their own.
func TestACycleWithoutAnchors(t *testing.T) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Line: 4}
	n.Content = []*yaml.Node{{Kind: yaml.AliasNode, Alias: n}}
	d := yamldoc.New("f")
	d.Open(n, "a")
	if got := d.Problems().Error(); got != "f:4: a: holds an alias of something that it is in itself" {
		t.Errorf("problems: %s", got)
	}
}

// FuzzRead reads any input: there is no panic, and the problems are limited and have a line of
// the file.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"str: x\nlist: [a]\n---\nn: 1\n", "a: &a [*a]", "{\"n\": 1}", "? x\n: - y\n", "%TAG ! x\n---\ntree: !x y", "str: |\n  a\n ---\n", "text: \"n: &a [*a, <<]\"",
		"\ufeffn: 1\r\n---\r\nn: \t2", "tree: {<<: {1: .nan, y: 0x1_0}}", "name: !!int 99999999999999999999\nleast: 1e400", "a: b\n c: d\n", "'", "*a", "--- >\n--- x", "\x00", "\u2028: \u0085",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, problems := read(t, text)
		if len(problems) > yamldoc.MaxProblems+1 {
			t.Errorf("%d problems", len(problems))
		}
		last := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > last || p.Text == "" || p.File != "f" || len(p.Error()) > 2500 {
				t.Errorf("problem %#v", p)
			}
		}
	})
}
