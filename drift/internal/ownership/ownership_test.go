package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func jsonOf(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	m, ok := jsonOf(t, text).(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", text)
	}
	return m
}

func managed(t testing.TB, entries ...string) []any {
	t.Helper()
	return jsonOf(t, "["+strings.Join(entries, ",")+"]").([]any)
}

func entry(manager, operation, subresource, time, fields string) string {
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"subresource":%q,"time":%q,"fieldsType":"FieldsV1","fieldsV1":%s}`,
		manager, operation, subresource, time, fields)
}

// path makes steps through an object: names, and indexes as numbers.
func path(t testing.TB, root any, levels ...any) []Step {
	t.Helper()
	var out []Step
	at := root
	for _, l := range levels {
		switch l := l.(type) {
		case string:
			m, _ := at.(map[string]any)
			at = m[l]
			out = append(out, Step{Name: l, Value: at})
		case int:
			list, ok := at.([]any)
			if !ok || l >= len(list) {
				t.Fatalf("%v: there is no item %d", levels, l)
			}
			at = list[l]
			out = append(out, Step{Item: true, Index: l, Value: at})
		}
	}
	return out
}

const live = `{"metadata":{"labels":{"a":"1","b":"2"},"finalizers":["x","y"]},
"spec":{"replicas":3,"args":["p","q"],
"ports":[{"port":80,"protocol":"TCP"},{"port":80,"protocol":"UDP"},{"port":53}],
"strategy":{"type":"Recreate"}},"status":{"ready":1}}`

const ours = `{"f:metadata":{"f:labels":{".":{},"f:a":{}},"f:finalizers":{".":{},"v:\"x\"":{}}},
"f:spec":{"f:replicas":{},"f:args":{},"f:strategy":{"f:type":{}},
"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}},"k:{\"port\":53}":{".":{},"f:port":{}}}}}`

func TestOwnerIsTheLastWriter(t *testing.T) {
	o := jsonOf(t, live)
	all := managed(
		t,
		entry("slipway", "Apply", "", "2026-01-01T00:00:00Z", ours),
		entry("kubectl-edit", "Update", "", "2026-01-02T00:00:00Z", `{"f:metadata":{"f:labels":{"f:b":{}}},"f:spec":{"f:replicas":{}}}`),
		entry("old", "Update", "", "2025-01-01T00:00:00Z", `{"f:spec":{"f:replicas":{},"f:args":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{"f:port":{}}}}}`),
		entry("controller", "Update", "status", "2026-01-03T00:00:00Z", `{"f:status":{"f:ready":{}},"f:spec":{"f:replicas":{}},"f:metadata":{"f:annotations":{"f:n":{}}}}`),
	)
	f, warnings := Parse(all)
	l := NewLookup(all)
	if warnings != nil {
		t.Fatal(warnings)
	}
	for _, c := range []struct {
		levels []any
		want   string
	}{
		{[]any{"spec", "replicas"}, "kubectl-edit"},
		{[]any{"metadata", "labels", "a"}, "slipway"},
		{[]any{"metadata", "labels", "b"}, "kubectl-edit"},
		{[]any{"metadata", "labels", "c"}, ""},
		{[]any{"metadata", "finalizers", 0}, "slipway"},
		{[]any{"metadata", "finalizers", 1}, ""},
		{[]any{"spec", "args"}, "slipway"},
		{[]any{"spec", "args", 1}, "slipway"},
		{[]any{"spec", "ports", 0, "protocol"}, "slipway"},
		{[]any{"spec", "ports", 1}, "old"},
		{[]any{"spec", "ports", 1, "port"}, "old"},
		{[]any{"spec", "ports", 2, "port"}, "slipway"},
		{[]any{"spec", "strategy"}, "slipway"},
		{[]any{"spec", "other"}, ""},
		{[]any{"status", "ready"}, "controller"},
		{[]any{"metadata", "annotations", "n"}, "controller"},
		{nil, ""},
	} {
		if at, _ := l.Owner(path(t, o, c.levels...)); at.Manager != c.want {
			t.Errorf("%v: looked up, got %q, want %q", c.levels, at.Manager, c.want)
		}
		got, ok := f.Owner(path(t, o, c.levels...))
		if got.Manager != c.want || ok != (c.want != "") {
			t.Errorf("%v: got %q, %v, want %q", c.levels, got.Manager, ok, c.want)
		}
	}
}

func TestOwnersSeparatesOurManagerFromOthers(t *testing.T) {
	o := jsonOf(t, live)
	f, _ := Parse(managed(
		t, entry("slipway", "Apply", "", "", ours),
		entry("slipway", "Update", "", "", `{"f:spec":{"f:replicas":{}}}`),
		entry("hpa", "Apply", "scale", "", `{"f:spec":{"f:replicas":{}}}`),
	))
	for _, c := range []struct {
		levels      []any
		own, others bool
	}{
		{[]any{"spec", "replicas"}, true, true},
		{[]any{"spec", "args"}, true, false},
		{[]any{"spec", "none"}, false, false},
	} {
		if own, others := f.Owners(path(t, o, c.levels...), "slipway"); own != c.own || others != c.others {
			t.Errorf("%v: got %v, %v, want %v, %v", c.levels, own, others, c.own, c.others)
		}
	}
	if !f.Known() {
		t.Error("there are entries")
	}
}

func TestMalformedEntriesAreOmittedWithAWarning(t *testing.T) {
	deep := strings.Repeat(`{"f:a":`, 200) + "{}" + strings.Repeat("}", 200)
	for name, c := range map[string]string{
		"no object":           `"x"`,
		"no fields":           `{"manager":"m","operation":"Apply"}`,
		"a name without sort": entry("m", "Apply", "", "", `{"spec":{}}`),
		"text after a key":    entry("m", "Apply", "", "", `{"k:{\"a\":1} {}":{}}`),
		"text after a value":  entry("m", "Apply", "", "", `{"v:1 2":{}}`),
		"no JSON":             entry("m", "Apply", "", "", `{"v:{":{}}`),
		"a value that is one": entry("m", "Apply", "", "", `{"v:{}":{}}`),
		"an empty key":        entry("m", "Apply", "", "", `{"k:{}":{}}`),
		"a key of lists":      entry("m", "Apply", "", "", `{"k:{\"a\":[]}":{}}`),
		"no index":            entry("m", "Apply", "", "", `{"i:x":{}}`),
		"a number below":      entry("m", "Apply", "", "", `{"f:a":5}`),
		"too deep":            entry("m", "Apply", "", "", deep),
	} {
		f, warnings := Parse(managed(t, c, entry("good", "Apply", "", "", `{"f:a":{}}`)))
		if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "managedFields[0]: ") {
			t.Errorf("%s: got the warnings %q", name, warnings)
		}
		if got, _ := f.Owner([]Step{{Name: "a"}}); got.Manager != "good" {
			t.Errorf("%s: the other entry is not read", name)
		}
	}
}

func TestUnknownSortsOfFieldsAreLeftOut(t *testing.T) {
	f, warnings := Parse(managed(t, entry("m", "Apply", "", "", `{"z:new":{},"f:a":null}`)))
	if got, _ := f.Owner([]Step{{Name: "a"}}); warnings != nil || got.Manager != "m" {
		t.Errorf("got %v, %v", got, warnings)
	}
}

func TestTheNumberOfEntriesAndFieldsIsLimited(t *testing.T) {
	many := slices.Repeat(managed(t, entry("m", "Apply", "", "", `{"f:a":{}}`)), MaxEntries+1)
	if f, warnings := Parse(many); len(f.entries) != MaxEntries || len(warnings) != 1 {
		t.Errorf("got %d entries and %v", len(f.entries), warnings)
	}
	wide := map[string]any{}
	for i := range MaxFields + 1 {
		wide[fmt.Sprint("f:", i)] = nil
	}
	f, warnings := Parse([]any{map[string]any{"manager": "m", "fieldsV1": wide}})
	if f.Known() || len(warnings) != 1 {
		t.Errorf("got %v", warnings)
	}
}

func TestInvalidTimeIsOmitted(t *testing.T) {
	f, _ := Parse(managed(t, entry("m", "Apply", "", "yesterday", `{"f:a":{}}`)))
	if got, _ := f.Owner([]Step{{Name: "a"}}); got.Time != "" {
		t.Errorf("got the time %q", got.Time)
	}
}

// levels writes paths as text.
func levels(paths [][]Step) []string {
	var out []string
	for _, p := range paths {
		var b strings.Builder
		for _, s := range p {
			if s.Item {
				fmt.Fprintf(&b, "/%d", s.Index)
			} else {
				b.WriteString("/" + s.Name)
			}
		}
		out = append(out, b.String())
	}
	return out
}

func never([]Step) bool { return false }

func TestStaleFieldsAreDroppedAndHaveNoOtherOwner(t *testing.T) {
	for _, c := range []struct {
		name, hub, others string
		want              []string
	}{
		{"nothing was dropped", live, `{}`, nil},
		{"a scalar", `{"spec":{"args":["p","q"],"ports":[{"port":80,"protocol":"TCP"},{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["x"]}}`, `{}`, []string{"/spec/replicas"}},
		{"another manager has it", `{"spec":{"args":["p","q"],"ports":[{"port":80,"protocol":"TCP"},{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["x"]}}`, `{"f:spec":{"f:replicas":{}}}`, nil},
		{"an item and the item of a set", `{"spec":{"replicas":3,"args":["p","q"],"ports":[{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["y"]}}`, `{}`, []string{"/metadata/finalizers/0", "/spec/ports/0"}},
		{
			"an item of which another manager has a field", `{"spec":{"replicas":3,"args":["p","q"],"ports":[{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["x"]}}`, `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:protocol":{}}}}}`,
			[]string{"/spec/ports/0/port"},
		},
		{"a map as a whole, and a struct by its fields", `{"spec":{"replicas":3,"args":["p","q"],"ports":[{"port":80,"protocol":"TCP"},{"port":53}]},
			"metadata":{"finalizers":["x"]}}`, `{}`, []string{"/metadata/labels", "/spec/strategy/type"}},
		{"null is absent", `{"spec":{"replicas":null,"args":["p","q"],"ports":[{"port":80,"protocol":"TCP"},{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["x"]}}`, `{}`, []string{"/spec/replicas"}},
		{"a key whose default is not known is not called stale", `{"spec":{"replicas":3,"args":["p","q"],"ports":[{"port":80},{"port":53}],"strategy":{"type":"Recreate"}},
			"metadata":{"labels":{"a":"1"},"finalizers":["x"]}}`, `{}`, nil},
	} {
		d, err := Without(object(t, ours), object(t, c.hub))
		if err != nil {
			t.Fatal(err)
		}
		f, _ := Parse(managed(t, entry("slipway", "Apply", "", "", ours), entry("x", "Update", "", "", c.others)))
		got := levels(f.Stale(d, "slipway", object(t, live), never))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.name == "nothing was dropped" && !d.Empty() {
			t.Error("nothing was dropped, but something is left")
		}
	}
}

func TestStaleFieldsAreReportedSeparatelyIfAsked(t *testing.T) {
	d, _ := Without(object(t, ours), object(t, `{"spec":{}}`))
	f, _ := Parse(managed(t, entry("slipway", "Apply", "", "", ours)))
	got := levels(f.Stale(d, "slipway", object(t, live), func(p []Step) bool { return len(p) < 3 }))
	want := []string{"/metadata/finalizers/0", "/metadata/labels/a", "/spec/ports/2", "/spec/ports/0", "/spec/strategy/type"}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAppliedFieldsOfAManager(t *testing.T) {
	all := managed(
		t, entry("slipway", "Apply", "", "", `{"f:a":{}}`), entry("slipway", "Update", "", "", `{"f:b":{}}`),
		entry("slipway", "Apply", "status", "", `{"f:c":{}}`), entry("x", "Apply", "", "", `{"f:d":{}}`), `5`, `{"manager":"slipway","operation":"Apply"}`,
	)
	var got []string
	for fields := range AppliedFields(all, "slipway") {
		for name := range fields {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"f:a"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSameComparesFieldsWithoutAllocating(t *testing.T) {
	a, b := object(t, ours), object(t, ours)
	if n := testing.AllocsPerRun(10, func() {
		if !Same(a, b) {
			t.Error("they are the same")
		}
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
	delete(b["f:spec"].(map[string]any), "f:args")
	if Same(a, b) || Same(b, a) {
		t.Error("they are not the same")
	}
}

func TestListKeys(t *testing.T) {
	o := jsonOf(t, live)
	f, _ := Parse(managed(t, entry("slipway", "Apply", "", "", ours)))
	names, set := f.ListKeys(path(t, o, "spec", "ports"))
	if diff := cmp.Diff([]string{"port", "protocol"}, names); diff != "" || set {
		t.Errorf("got %v, %v", names, set)
	}
	if names, set = f.ListKeys(path(t, o, "metadata", "finalizers")); names != nil || !set {
		t.Errorf("got %v, %v", names, set)
	}
	if names, set = f.ListKeys(path(t, o, "spec", "args")); names != nil || set {
		t.Errorf("got %v, %v", names, set)
	}
}

// A list of any length: each item costs the same.
func TestALongListTakesLinearTime(t *testing.T) {
	const n = 30_000
	items, list := map[string]any{}, make([]any, n)
	for i := range n {
		items[fmt.Sprintf(`k:{"id":%d}`, i)] = map[string]any{"f:id": map[string]any{}}
		list[i] = map[string]any{"id": int64(i)}
	}
	fields := map[string]any{"f:l": items}
	live := map[string]any{"l": list}
	d, err := Without(fields, map[string]any{"l": list[:n/2]})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := Parse([]any{map[string]any{"manager": "m", "operation": "Apply", "fieldsV1": fields}})
	if got := len(f.Stale(d, "m", live, never)); got != n/2 {
		t.Errorf("got %d stale fields, want %d", got, n/2)
	}
	for i := range n {
		p := []Step{{Name: "l"}, {Item: true, Index: i, Value: list[i]}}
		if _, ok := f.Owner(p); !ok {
			t.Fatalf("item %d has no owner", i)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(ours), []byte(live))
	f.Add([]byte(`{"f:a":{"k:{\"b\":null}":{},"v:1e400":{},"i:0":{".":{}}}}`), []byte(`{"a":[1,{"b":null}]}`))
	f.Fuzz(func(t *testing.T, fields, body []byte) {
		var set, o map[string]any
		if json.Unmarshal(fields, &set) != nil || json.Unmarshal(body, &o) != nil {
			return
		}
		all, _ := Parse([]any{map[string]any{"manager": "m", "operation": "Apply", "fieldsV1": set}})
		d, err := Without(set, o)
		if err != nil {
			return
		}
		if got := all.Stale(d, "m", o, never); len(got) > 0 && !strings.Contains(string(body), "null") {
			t.Errorf("the object has it, and yet it lacks %v", levels(got))
		}
		d, _ = Without(set, nil)
		for _, p := range all.Stale(d, "m", o, never) {
			if own, others := all.Owners(p, "m"); !own || others {
				t.Errorf("%v: got %v, %v", levels([][]Step{p}), own, others)
			}
		}
	})
}
