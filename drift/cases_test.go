package drift_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata expect")

// TestCases runs every case in testdata/cases with both comparisons.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]string{}
	for _, file := range files {
		all, err := readScripts(file)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, s := range all {
			if was, twice := seen[s.ID]; twice || s.ID == "" || s.Says == "" {
				t.Errorf("%s: %q: a case needs an id of its own, and says what it shows; %s has it too", file, s.ID, was)
			}
			seen[s.ID] = file
			t.Run(s.ID, func(t *testing.T) {
				if runScript(t, s); t.Failed() {
					got[s.ID] = s.observed(t)
				}
			})
		}
		if *update {
			rewrite(t, file, got)
		}
	}
	checkComplete(t, seen)
}

// checkComplete says which cases of the reference are missing.
func checkComplete(t *testing.T, seen map[string]string) {
	t.Helper()
	const ids = `W1 W2 W3 W4 W6 W7 W9 W10 W11 W12 W13 W15 W17 W18 W19 W20 W21 W22 W24 W25 W27 W29 W30 W32 W33 W34 W35 W37 W38 W39 W41 W42 W43 W44 W45 W46
		N2 N3 N4 N7 N8 N9 N10 N11 N14 N15 N16 C1 C3 C4 C5 C6 C7 C8 C9 C10 C11 C13 C14 C15 C16 C17 C20 C21 C24 C25 C26 C27
		O1 O3 O4 O6 O7 O9 O10 O12 O14 O15 O16 O17 O18 O19 O20 O21 O22 O23 O24 O25 O26 A2 A3 A4 A5 A6 A8 A9 A10 A11
		X2 X4 X5 X7 X8 X10 X12 X13 X17 X18 X20 X21 X22 X23 X24 X25 X26 X27 X28 V1 V3 V4 V5 V6 V7 V8 V11 V12 V13 V14 V15 V16 V17
		K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K11 K13 K14`
	for id := range strings.FieldsSeq(ids) {
		if seen[id] == "" && !slices.ContainsFunc(slicesOf(seen), func(s string) bool { return strings.HasPrefix(s, id+"-") }) {
			t.Errorf("there is no case %s", id)
		}
	}
}

func slicesOf(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func comparisons() []drift.Comparison { return []drift.Comparison{drift.Partial, drift.Full} }

func (s *script) options(t *testing.T, c drift.Comparison) drift.Options {
	t.Helper()
	o := drift.Options{Comparison: c, Manager: s.Options.Manager, Status: s.Options.Status, Secrets: s.Options.Secrets}
	if len(s.Options.Ignore) > 0 {
		o.Ignore = append(o.Ignore, drift.IgnoreRule{Pointers: s.Options.Ignore})
	}
	if len(s.Options.IgnoreManagers) > 0 {
		o.Ignore = append(o.Ignore, drift.IgnoreRule{Managers: s.Options.IgnoreManagers})
	}
	if s.CRD != "" {
		o.Schemas = schemas(t, s.CRD)
	}
	return o
}

// schemas returns the schemas of the built-in kinds and of a definition in testdata.
func schemas(t testing.TB, crd string) schema.Source {
	t.Helper()
	docs, err := documents(objectFile(crd))
	if err != nil {
		t.Fatal(err)
	}
	o, err := objectOf(docs[0].Content[0])
	if err != nil {
		t.Fatal(err)
	}
	source, err := schema.FromCRD(&unstructured.Unstructured{Object: o})
	if err != nil {
		t.Fatal(err)
	}
	return schema.Join(source, schema.Builtin())
}

// compare is one comparison, through a compiled manifest.
func (s *script) compare(t *testing.T, c drift.Comparison) (drift.Report, error) {
	t.Helper()
	m, err := drift.Compile(s.hub, s.options(t, c))
	if err != nil {
		return drift.Report{}, err
	}
	var b *drift.Baseline
	if s.baseline != nil {
		b = m.Baseline(s.baseline)
	}
	return m.Compare(s.member, b)
}

func runScript(t *testing.T, s *script) {
	for _, c := range comparisons() {
		hub, member := s.hub.DeepCopy(), s.member.DeepCopy()
		got, err := s.compare(t, c)
		if s.checkError(t, c, err); err != nil {
			continue
		}
		s.checkEntries(t, c, got)
		s.checkRest(t, c, got)
		if !cmp.Equal(hub, s.hub) || !cmp.Equal(member, s.member) {
			t.Errorf("%s changed its arguments", c)
		}
	}
}

func (s *script) checkError(t *testing.T, c drift.Comparison, err error) {
	t.Helper()
	if (err != nil) != (s.Expect.Error != "") || err != nil && !strings.Contains(err.Error(), s.Expect.Error) {
		t.Errorf("%s: the error is %v, want %q in it", c, err, s.Expect.Error)
	}
	s.checkNever(t, fmt.Sprint(err))
}

func (s *script) checkNever(t *testing.T, text string) {
	t.Helper()
	for _, never := range s.Expect.Never {
		if strings.Contains(text, never) {
			t.Errorf("%q is in %s", never, text)
		}
	}
}

// wanted are the entries that a comparison has to find.
func (s *script) wanted(c drift.Comparison) []yaml.Node {
	switch {
	case s.Expect.Both != nil:
		return s.Expect.Both
	case c == drift.Partial:
		return s.Expect.Partial
	}
	return s.Expect.Full
}

func (s *script) checkEntries(t *testing.T, c drift.Comparison, got drift.Report) {
	t.Helper()
	if s.Expect.Total > 0 {
		if got.Total != s.Expect.Total || len(got.Differences) != s.Expect.Entries || got.Truncated != s.Expect.Truncated {
			t.Errorf("%s: %d entries of %d, truncated %t", c, len(got.Differences), got.Total, got.Truncated)
		}
		return
	}
	want := s.wanted(c)
	var wantLines, gotLines []string
	for i := range max(len(want), len(got.Differences)) {
		var fields map[string]any
		if i < len(want) {
			var err error
			if fields, err = objectOf(&want[i]); err != nil {
				t.Fatal(err)
			}
			wantLines = append(wantLines, line(fields))
		}
		if i < len(got.Differences) {
			gotLines = append(gotLines, line(only(entry(t, got.Differences[i]), fields)))
		}
	}
	if diff := cmp.Diff(wantLines, gotLines); diff != "" {
		t.Errorf("%s, %s (-want +got):\n%s", c, s.Says, diff)
	}
	if got.Total != len(want) || got.Truncated || got.Drifted() != (len(want) > 0) || (got.Fingerprint == "") != (len(want) == 0) {
		t.Errorf("%s: total %d, truncated %t, fingerprint %q; want %d entries", c, got.Total, got.Truncated, got.Fingerprint, len(want))
	}
}

func (s *script) checkRest(t *testing.T, c drift.Comparison, got drift.Report) {
	t.Helper()
	if want := max(drift.State(s.Expect.State), drift.Present); s.Expect.State != "" && got.State != drift.State(s.Expect.State) || s.Expect.State == "" && got.State != want {
		t.Errorf("%s: the state is %s", c, got.State)
	}
	if len(got.Warnings) != len(s.Expect.Warnings) {
		t.Errorf("%s: warnings are %q, want %q", c, got.Warnings, s.Expect.Warnings)
	}
	for i, w := range s.Expect.Warnings {
		if i < len(got.Warnings) && !strings.Contains(got.Warnings[i], w) {
			t.Errorf("%s: the warning %q does not have %q", c, got.Warnings[i], w)
		}
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(`"observedDiffs":[`)) {
		t.Errorf("%s: the differences are not a list in %s", c, text)
	}
	s.checkNever(t, string(text))
}

// entry is a difference with the names that the cases use.
func entry(t *testing.T, d drift.Difference) map[string]any {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	o, err := objectOf(n.Content[0])
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"valueInHub": "hub", "valueInMember": "member"} {
		if v, ok := o[from]; ok {
			o[to] = v
			delete(o, from)
		}
	}
	return o
}

// only returns the fields of an entry that a case names, and always class and path. It also keeps
// hubPath, because this field distinguishes the sides.
func only(o, named map[string]any) map[string]any {
	out := map[string]any{"class": o["class"], "path": o["path"]}
	for name := range named {
		if v, ok := o[name]; ok {
			out[name] = v
		}
	}
	return out
}

// line is an entry as the cases write it.
func line(o map[string]any) string {
	var parts []string
	for _, name := range []string{"class", "path", "hubPath", "keyPath", "atomicPath", "hub", "member", "note", "owner"} {
		if v, ok := o[name]; ok {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				return err.Error()
			}
			parts = append(parts, name+": "+strings.TrimSpace(b.String()))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// observed returns the actual result of a case as YAML.
func (s *script) observed(t *testing.T) string {
	var texts [2]string
	for i, c := range comparisons() {
		r, err := s.compare(t, c)
		if err != nil {
			return "expect:\n  error: " + fmt.Sprintf("%q", err) + "\n"
		}
		var b strings.Builder
		for _, d := range r.Differences {
			fmt.Fprintf(&b, "  - %s\n", line(entry(t, d)))
		}
		texts[i] = b.String()
	}
	head := func(name, text string) string {
		if text == "" {
			return "  " + name + ": []\n"
		}
		return "  " + name + ":\n" + text
	}
	if texts[0] == texts[1] {
		return "expect:\n" + head("both", texts[0])
	}
	return "expect:\n" + head("partial", texts[0]) + head("full", texts[1])
}

// rewrite replaces the expectations of failed cases. Review the result as a diff.
func rewrite(t *testing.T, file string, got map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Split(string(text), "\n---\n")
	for i, doc := range docs {
		for id, expect := range got {
			if at := strings.LastIndex(doc, "\nexpect:"); at >= 0 && strings.Contains("\n"+doc, "\nid: "+id+"\n") {
				docs[i] = doc[:at+1] + strings.TrimSuffix(expect, "\n")
			}
		}
	}
	if err := os.WriteFile(file, []byte(strings.TrimSuffix(strings.Join(docs, "\n---\n"), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
