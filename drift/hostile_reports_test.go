package drift_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift"
)

// T8: a hostile member returns objects of maximal size and strange form. The report stays small,
// and costs a few times the size of the input; hostile_test.go has more such cases.
func TestAHostileMemberDoesNotMakeReportsLarge(t *testing.T) {
	hub := settingsOf(map[string]any{"k": "v"})
	for what, member := range map[string]*unstructured.Unstructured{
		"many fields":  settingsOf(many(20_000, func(i int) (string, any) { return strconv.Itoa(i), "x" })),
		"long names":   settingsOf(many(300, func(i int) (string, any) { return strings.Repeat("n", 30_000) + strconv.Itoa(i), "x" })),
		"long values":  settingsOf(many(300, func(i int) (string, any) { return strconv.Itoa(i), strings.Repeat("x", 30_000) })),
		"long lines":   settingsOf(map[string]any{"k": strings.Repeat("\x1b", 9<<20)}),
		"empty maps":   settingsOf(map[string]any{"k": items(30_000, func(int) any { return map[string]any{"": int64(0)} })}),
		"not a string": settingsOf(many(10_000, func(i int) (string, any) { return strconv.Itoa(i), []any{nil, nil} })),
		"annotations":  with(hub, "annotations", many(10_000, func(i int) (string, any) { return strconv.Itoa(i), "x" })),
		"finalizers":   with(hub, "finalizers", items(10_000, func(i int) any { return strconv.Itoa(i) })),
	} {
		size, _ := json.Marshal(member.Object)
		var r drift.Report
		used, _ := spent(func() { r = mustCompare(t, hub, member, drift.Options{Comparison: drift.Full}) })
		text, err := json.Marshal(r)
		if err != nil || len(text) > 1<<20+1<<17 || len(r.Differences) > 100 || r.Total > len(r.Differences) != r.Truncated {
			t.Errorf("%s: a report of %d bytes with %d of %d differences: %v", what, len(text), len(r.Differences), r.Total, err)
		}
		if used > uint64(100*len(size)+1<<24) {
			t.Errorf("%s: %d bytes are allocated for an object of %d", what, used, len(size))
		}
	}
}

func settingsOf(data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "b"}, "data": data}}
}

func with(o *unstructured.Unstructured, name string, v any) *unstructured.Unstructured {
	o = o.DeepCopy()
	meta, _ := o.Object["metadata"].(map[string]any)
	meta[name] = v
	return o
}

func many(n int, entry func(int) (string, any)) map[string]any {
	o := map[string]any{}
	for i := range n {
		k, v := entry(i)
		o[k] = v
	}
	return o
}

// T9: names with slashes, tildes and control characters lead nowhere else, and do
// nothing to a terminal.
func FuzzT9NamesDoNotInjectPointers(f *testing.F) {
	for _, name := range []string{"a", "a/b", "~1", "~01", "a~b", "", "/", "~", "..", "-", "0", "*", "[name=x]", "[0]", `a"b`, "a\x00b", "\x1b[31m", "\u202e", "\u2028", "\n", "é", "🚀", strings.Repeat("n", 600)} {
		f.Add(name, "b/c")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		if !utf8.ValidString(name+other) || name == other || len(name) > 400 {
			return
		}
		hub := box(map[string]any{name: map[string]any{other: "x"}, other: "x"})
		member := box(map[string]any{name: map[string]any{other: "y"}, other: "y"})
		r := mustCompare(t, hub, member, drift.Options{})
		if len(r.Differences) != 2 {
			t.Fatalf("%d differences: %s", len(r.Differences), compact(r))
		}
		for _, d := range r.Differences {
			path := segments(d.Path)
			if deep := len(path) == 3; deep && (path[1] != name || path[2] != other) || !deep && (len(path) != 2 || path[1] != other) {
				t.Errorf("%q is no way to %q or %q", d.Path, name, other)
			}
			if v, ok := resolve(member.Object, d.Path); !ok || v != "y" {
				t.Errorf("%q leads to %v", d.Path, v)
			}
			steps, err := parseKeyPath(d.KeyPath)
			if err != nil || len(steps) != len(path) || steps[len(steps)-1].name != other {
				t.Errorf("%q is no key path to %q: %v", d.KeyPath, other, err)
			}
			for _, r := range d.KeyPath {
				if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
					t.Errorf("%q has control characters", d.KeyPath)
				}
			}
			if wild := strings.Contains(d.Path, "/*") || strings.Contains(d.Path, "/["); !wild {
				left := mustCompare(t, hub, member, drift.Options{Ignore: []drift.IgnoreRule{{Pointers: []string{d.Path}}}})
				if left.Total != 1 || left.Differences[0].Path == d.Path {
					t.Errorf("ignoring %q leaves %s", d.Path, compact(left.Differences))
				}
			}
		}
	})
}

// T9: errors repeat the text of a rule without its control characters.
func TestErrorsOfRulesAreHarmless(t *testing.T) {
	for _, pointer := range []string{"\x1b[31m", "x\x00", "/a~", "/[\x1b", "\n", strings.Repeat("x", 1<<20)} {
		errs := drift.ValidateIgnoreRules([]drift.IgnoreRule{{Pointers: []string{pointer}}}, field.NewPath("ignore"))
		if len(errs) != 1 || len(errs.ToAggregate().Error()) > 5000 || strings.ContainsAny(errs.ToAggregate().Error(), "\x1b\x00\n") {
			t.Errorf("%.20q: %.300q", pointer, errs)
		}
		for _, o := range []drift.Options{{Ignore: []drift.IgnoreRule{{Pointers: []string{pointer}}}}, {Secrets: []string{pointer}}} {
			if _, err := drift.Compile(settingsOf(nil), o); err == nil || len(err.Error()) > 5000 || strings.ContainsAny(err.Error(), "\x1b\x00\n") {
				t.Errorf("%.20q: %.300v", pointer, err)
			}
		}
	}
}

// T10: rules with many wildcards cost at most the product of rules and differences: a wildcard
// stands for one level, so no path is tried twice.
func TestWildcardsInRulesCostNoMoreThanRulesTimesDifferences(t *testing.T) {
	const rules, levels, fields = 300, 60, 300
	spec := func(value string) any {
		return many(fields, func(i int) (string, any) { return "k" + strconv.Itoa(i), nested(levels, value, false) })
	}
	hub, member := box(spec("x")), box(spec("y"))
	rule := drift.IgnoreRule{Pointers: []string{strings.Repeat("/*", levels+1) + "/never"}}
	cost := func(n int) (bytes uint64, took time.Duration) {
		o := drift.Options{}
		for range n {
			o.Ignore = append(o.Ignore, rule)
			o.Secrets = append(o.Secrets, rule.Pointers...)
		}
		return spent(func() {
			if r := mustCompare(t, hub, member, o); r.Total != fields {
				t.Errorf("%d differences", r.Total)
			}
		})
	}
	for try := 1; ; try++ {
		few, short := cost(rules / 10)
		more, long := cost(rules)
		if more > 30*few {
			t.Fatalf("ten times as many rules allocate %d bytes, and not %d", more, few)
		}
		if long < 30*short+time.Second/10 {
			return
		}
		if try == 3 {
			t.Fatalf("ten times as many rules take %s, and not %s", long, short)
		}
	}
}

// canaries returns places for a planted secret, with the objects that contain it there.
func canaries(planted string) map[string][2]*unstructured.Unstructured {
	coded := base64.StdEncoding.EncodeToString([]byte(planted))
	secret := func(fields map[string]any, meta map[string]any) *unstructured.Unstructured {
		if meta == nil {
			meta = map[string]any{}
		}
		meta["name"], meta["namespace"] = "a", "b"
		o := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta}
		maps.Copy(o, fields)
		return &unstructured.Unstructured{Object: o}
	}
	data := func(v any) *unstructured.Unstructured { return secret(map[string]any{"data": v}, nil) }
	annotated := func(name, text string) *unstructured.Unstructured {
		return secret(map[string]any{"data": map[string]any{"k": "eA=="}}, map[string]any{"annotations": map[string]any{name: text}})
	}
	managed := func(fields any) *unstructured.Unstructured {
		return secret(map[string]any{"data": map[string]any{"k": "eA=="}}, map[string]any{"managedFields": []any{
			map[string]any{"manager": "slipway", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
		}})
	}
	const last = "kubectl.kubernetes.io/last-applied-configuration"
	applied := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"old":"` + coded + `"},"stringData":{"k":"` + planted + `"}}`
	plain := data(map[string]any{"k": "eA=="})
	marked := func(v any) *unstructured.Unstructured {
		return settingsOf(map[string]any{"password": v, "open": "x", "deep": map[string]any{"list": []any{map[string]any{"token": v}}}})
	}
	text := planted + "\n" + strings.Repeat(planted+" and more\n", 100)
	return map[string][2]*unstructured.Unstructured{
		"data":               {data(map[string]any{"k": coded}), data(map[string]any{"k": "eA=="})},
		"data of both":       {data(map[string]any{"k": coded}), data(map[string]any{"k": base64.StdEncoding.EncodeToString([]byte(planted + "2"))})},
		"data added":         {data(map[string]any{}), data(map[string]any{"k": coded})},
		"data gone":          {data(map[string]any{"k": coded}), secret(nil, nil)},
		"long data":          {data(map[string]any{"k": base64.StdEncoding.EncodeToString([]byte(text))}), plain},
		"no base64":          {data(map[string]any{"k": planted}), plain},
		"no base64 there":    {plain, data(map[string]any{"k": planted})},
		"data a list":        {data([]any{planted}), plain},
		"data a list there":  {plain, data([]any{planted, coded})},
		"data a text":        {data(planted), plain},
		"data a text there":  {plain, data(planted)},
		"data nested":        {data(map[string]any{"k": map[string]any{"x": []any{planted}}}), plain},
		"data nested there":  {plain, data(map[string]any{"k": map[string]any{"x": []any{planted}}})},
		"stringData":         {secret(map[string]any{"stringData": map[string]any{"k": planted}}, nil), plain},
		"stringData there":   {plain, secret(map[string]any{"stringData": map[string]any{"k": planted}}, nil)},
		"stringData a list":  {secret(map[string]any{"stringData": []any{planted}}, nil), plain},
		"stringData odd":     {secret(map[string]any{"stringData": map[string]any{"k": []any{planted}}, "data": []any{planted}}, nil), plain},
		"annotation":         {annotated("x", planted), annotated("x", "y")},
		"annotation there":   {plain, annotated("x", planted)},
		"annotation long":    {annotated("x", text), annotated("x", text+"z")},
		"last applied":       {plain, annotated(last, applied)},
		"last applied stale": {plain, with(data(map[string]any{"k": "eA==", "old": coded}), "annotations", map[string]any{last: applied})},
		"last applied bad":   {plain, annotated(last, `{"data":{"`+planted)},
		"last applied odd":   {plain, annotated(last, `{"data":["`+planted+`"]}`)},
		"managed fields":     {plain, managed(map[string]any{"f:data": map[string]any{"k:{\"name\":\"" + planted + "\"}": map[string]any{}, "v:\"" + planted + "\"": map[string]any{}}})},
		"managed fields bad": {plain, managed(planted)},
		"a manager":          {plain, managed(map[string]any{"f:data": planted})},
		"unknown field":      {secret(map[string]any{"extra": planted}, nil), plain},
		"absent":             {secret(map[string]any{"data": map[string]any{"k": coded}, "stringData": map[string]any{"l": planted}}, map[string]any{"annotations": map[string]any{"x": planted}}), nil},
		"marked":             {marked(planted), marked(planted + "2")},
		"marked long":        {marked(text), marked(text + "2")},
		"marked gone":        {marked(planted), settingsOf(nil)},
		"marked added":       {settingsOf(nil), marked(planted)},
		"marked a map":       {marked(map[string]any{"x": planted}), marked(map[string]any{"x": planted + "2"})},
		"marked a list":      {marked([]any{planted}), marked([]any{planted, planted})},
		"marked another":     {marked(planted), marked(int64(1))},
		"marked absent":      {marked(planted), nil},
		"marked applied": {settingsOf(map[string]any{"open": "x"}), with(marked(planted), "annotations", map[string]any{
			last: `{"apiVersion":"v1","kind":"ConfigMap","data":{"password":"` + planted + `"}}`,
		})},
	}
}

// T11: planted values are in nothing that leaves the package: reports of either
// comparison, errors, warnings, baselines.
func TestPlantedSecretsAreInNoOutput(t *testing.T) {
	const planted = "Xq7Vw2Lk9Zt4"
	for where, pair := range canaries(planted) {
		for _, c := range comparisons() {
			for _, key := range [][]byte{nil, []byte("a key of the host")} {
				o := drift.Options{
					Comparison: c, Manager: "slipway", SecretKey: key, Status: true, MaxValueBytes: 1 << 20,
					Secrets: []string{"/data/password", "/data/deep/list/*/token"},
				}
				for _, text := range outputs(pair[0], pair[1], o) {
					for _, form := range forms(planted) {
						if strings.Contains(text, form) {
							t.Errorf("%s, %s: %q is in %.500s", where, c, form, text)
						}
					}
				}
			}
		}
	}
}

// outputs returns every output of a comparison: reports, errors, warnings and baselines.
func outputs(hub, member *unstructured.Unstructured, o drift.Options) (all []string) {
	m, err := drift.Compile(hub, o)
	if err != nil {
		return []string{err.Error()}
	}
	var baselines []*drift.Baseline
	if member != nil {
		baselines = append(baselines, m.Baseline(member))
	}
	for _, b := range append(baselines, nil) {
		r, err := m.Compare(member, b)
		all = append(all, fmt.Sprint(err), fmt.Sprintf("%+v", r), compact(r))
		for _, d := range r.Differences {
			all = append(all, string(d.Hub), string(d.Member), unescaped(d.Hub), unescaped(d.Member))
		}
		if b != nil {
			stored, err := b.MarshalBinary()
			all = append(all, string(stored), fmt.Sprint(err), fmt.Sprintf("%+v", b))
		}
	}
	return all
}

func unescaped(text json.RawMessage) string {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return ""
	}
	return s
}

// forms returns the planted value and its possible forms: in base64 at any offset, quoted, cut.
func forms(planted string) []string {
	all := []string{planted, planted[:8], planted[4:]}
	for _, lead := range []string{"", "x", "xx"} {
		coded := base64.StdEncoding.EncodeToString([]byte(lead + planted))
		all = append(all, coded[4:12])
	}
	return all
}
