package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLookupSkipsMalformedEntries(t *testing.T) {
	good := entry("good", "Apply", "", "", `{"f:a":{"k:{\"n\":1}":{"f:n":{}}}}`)
	at := []Step{{Name: "a"}, {Item: true, Value: map[string]any{"n": int64(1)}}, {Name: "n"}}
	for name, c := range map[string]string{
		"no object":           `"x"`,
		"no fields":           `{"manager":"m","operation":"Apply"}`,
		"text after a key":    entry("m", "Apply", "", "", `{"f:a":{"k:{\"n\":1} {}":{}}}`),
		"a name without sort": entry("m", "Apply", "", "", `{"f:a":{"n":{}}}`),
		"an empty key":        entry("m", "Apply", "", "", `{"f:a":{"k:{}":{}}}`),
		"a number below":      entry("m", "Apply", "", "", `{"f:a":5}`),
	} {
		l := NewLookup(managed(t, good, c))
		for range 2 {
			if got, _ := l.Owner(at); got.Manager != "good" {
				t.Errorf("%s: got %q", name, got.Manager)
			}
		}
		if w := l.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "managedFields[1]: ") {
			t.Errorf("%s: got the warnings %q", name, w)
		}
	}
}

func TestALookupReadsALimitedNumberOfEntriesAndItems(t *testing.T) {
	first := slices.Repeat(managed(t, entry("m", "Apply", "", "", `{"f:b":{}}`)), MaxEntries)
	l := NewLookup(append(first, managed(t, entry("m", "Apply", "", "", `{"f:a":{}}`))...))
	if _, ok := l.Owner([]Step{{Name: "a"}}); ok || len(l.Warnings()) != 1 {
		t.Errorf("got %v and %v", ok, l.Warnings())
	}
	wide := map[string]any{}
	for i := range MaxFields + 1 {
		wide[fmt.Sprintf(`v:%d`, i)] = nil
	}
	l = NewLookup([]any{map[string]any{"manager": "m", "fieldsV1": map[string]any{"f:a": wide}}})
	if _, ok := l.Owner([]Step{{Name: "a"}, {Item: true, Value: int64(1)}}); ok || len(l.Warnings()) != 1 {
		t.Errorf("got %v and %v", ok, l.Warnings())
	}
}

func TestALookupReadsALongListOnce(t *testing.T) {
	const n = 30_000
	items, values := map[string]any{}, make([]any, n)
	for i := range n {
		items[fmt.Sprintf(`k:{"id":%d}`, i)] = map[string]any{"f:id": map[string]any{}}
		values[i] = map[string]any{"id": int64(i)}
	}
	l := NewLookup([]any{map[string]any{"manager": "m", "fieldsV1": map[string]any{"f:l": items}}})
	for i, v := range values {
		if _, ok := l.Owner([]Step{{Name: "l"}, {Item: true, Index: i, Value: v}}); !ok {
			t.Fatalf("item %d has no owner", i)
		}
	}
}

func TestALookupOfAFieldAllocatesNothing(t *testing.T) {
	o := jsonOf(t, live)
	l := NewLookup(managed(t, entry("slipway", "Apply", "", "2026-01-01T00:00:00Z", ours)))
	at := path(t, o, "spec", "strategy", "type")
	if n := testing.AllocsPerRun(10, func() { l.Owner(at) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

// everywhere returns the paths of all values of an object.
func everywhere(v any, at []Step) (all [][]Step) {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			p := append(slices.Clip(at), Step{Name: name, Value: e})
			all = append(append(all, p), everywhere(e, p)...)
		}
	case []any:
		for i, e := range v {
			p := append(slices.Clip(at), Step{Item: true, Index: i, Value: e})
			all = append(append(all, p), everywhere(e, p)...)
		}
	}
	return all
}

// A look-up returns the same result as a complete read of valid input.
func FuzzLookup(f *testing.F) {
	f.Add([]byte(ours), []byte(`{"f:spec":{"f:replicas":{},"f:ports":{"k:{\"port\":80}":{}}}}`), []byte(live))
	f.Add([]byte(`{"f:a":{"i:0":{".":{}},"z:new":{}}}`), []byte(`{"f:a":{"v:1":{},"v:\"x\"":{"z:new":{}}}}`), []byte(`{"a":[1,"x",null]}`))
	f.Fuzz(func(t *testing.T, first, second, body []byte) {
		var a, b, o map[string]any
		if json.Unmarshal(first, &a) != nil || json.Unmarshal(second, &b) != nil || json.Unmarshal(body, &o) != nil {
			return
		}
		all := []any{
			map[string]any{"manager": "a", "fieldsV1": a, "time": "2026-01-01T00:00:00Z"},
			map[string]any{"manager": "b", "fieldsV1": b, "subresource": "status"},
		}
		whole, warnings := Parse(all)
		if len(warnings) > 0 {
			return
		}
		l := NewLookup(all)
		for _, p := range everywhere(o, nil) {
			want, owned := whole.Owner(p)
			got, ok := l.Owner(p)
			if got.Manager != want.Manager || ok != owned {
				t.Errorf("%v: got %q, want %q", levels([][]Step{p}), got.Manager, want.Manager)
			}
		}
	})
}
