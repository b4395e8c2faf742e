package drift_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// box returns an object without a known schema.
func box(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Mystery", "metadata": map[string]any{"name": "box", "namespace": "shop"}, "spec": spec,
	}}
}

// gadget is an object of testdata/objects/gadget-crd.yaml.
func gadget(spec map[string]any) *unstructured.Unstructured {
	o := box(spec)
	o.SetAPIVersion("example.com/v1")
	o.SetKind("Gadget")
	return o
}

// spent returns the cost of a call: the allocated bytes and the time.
func spent(f func()) (uint64, time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	f()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}

// linear compares two objects of a size, and of ten times that, and returns the
// report of the larger ones. It holds the costs of both against each other: ten
// times as much, and not a hundred times. The machine may be busy with one of
// them, so time is measured again before it counts.
func linear(t *testing.T, size int, objects func(int) (hub, member *unstructured.Unstructured), o drift.Options) (report drift.Report) {
	t.Helper()
	for range 12 { // other programs may slow down a single try
		var bytes [2]uint64
		var took [2]time.Duration
		for i, n := range []int{size / 10, size} {
			hub, member := objects(n)
			bytes[i], took[i] = spent(func() { report = mustCompare(t, hub, member, o) })
		}
		text, err := json.Marshal(report)
		if err != nil || len(text) > 1<<20 || !utf8.Valid(text) {
			t.Errorf("the report has %d bytes: %v", len(text), err)
		}
		if bytes[1] > 25*bytes[0]+1<<20 {
			t.Errorf("ten times as much allocates %d bytes, and not %d", bytes[1], bytes[0])
		}
		if took[1] < 40*took[0]+time.Second/10 {
			return report
		}
		t.Logf("ten times as much takes %s, and not %s", took[1], took[0])
	}
	t.Error("it takes longer and longer")
	return report
}

// soaked reports whether there is time for the long versions of tests.
func soaked() bool { return os.Getenv("SLIPWAY_SOAK") != "" }

func items(n int, item func(int) any) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = item(i)
	}
	return l
}

func part(i int) any { return map[string]any{"name": "p" + strconv.Itoa(i)} }

// Long lists, as the member likes to have them.
func TestLongListsTakeLinearTime(t *testing.T) {
	known := unbounded(drift.Full, schemas(t, "gadget-crd"))
	known.MaxDifferences, known.MaxValueBytes = 0, 0
	name := func(i int) any { return "p" + strconv.Itoa(i) }
	same := func(int) any { return map[string]any{"name": "p"} }
	for what, c := range map[string]struct {
		field string
		// member is nil for the hub's items in reverse.
		hub, member func(int) any
		total       int
	}{
		"reversed":            {"parts", part, nil, 1},
		"all others":          {"parts", part, func(i int) any { return part(-1 - i) }, 2 * hostileItems},
		"duplicates":          {"parts", part, same, -1},
		"duplicates in both":  {"parts", same, same, 0},
		"of another type":     {"parts", part, name, -1},
		"without keys":        {"parts", part, func(int) any { return map[string]any{} }, -1},
		"two keys reversed":   {"ends", end, nil, 1},
		"a set reversed":      {"tags", name, nil, 0},
		"a set of duplicates": {"tags", name, func(int) any { return "p" }, -1},
		"a set of maps":       {"tags", name, part, -1},
		"a whole list":        {"list", func(i int) any { return int64(i) }, nil, 1},
		"a list unknown":      {"unknown", part, nil, 1},
	} {
		t.Run(what, func(t *testing.T) {
			size, want := hostileItems, c.total
			if want != 1 && what != "duplicates" && !soaked() {
				size = hostileItems / 5
				want /= 5
			}
			r := linear(t, size, func(n int) (hub, member *unstructured.Unstructured) {
				live := items(n, c.hub)
				if slices.Reverse(live); c.member != nil {
					live = items(n, c.member)
				}
				return gadget(map[string]any{c.field: items(n, c.hub)}), gadget(map[string]any{c.field: live})
			}, known)
			if r.Total != want && c.total >= 0 {
				t.Errorf("%d differences, want %d: %.300s", r.Total, want, compact(r.Differences))
			}
			if len(r.Warnings) > 25 {
				t.Errorf("%d warnings", len(r.Warnings))
			}
		})
	}
}

// policy returns a NetworkPolicy with a number of sources for each rule.
func policy(rules []any) *unstructured.Unstructured {
	o := box(map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress"}, "ingress": rules})
	o.SetAPIVersion("networking.k8s.io/v1")
	o.SetKind("NetworkPolicy")
	return o
}

func source(label string, values int) any {
	return map[string]any{"podSelector": map[string]any{"matchExpressions": []any{map[string]any{
		"key": "app", "operator": "In", "values": items(values, func(i int) any { return label + strconv.Itoa(i) }),
	}}}}
}

// Differences in an atomic list are found at their position, in time linear in the size of the
// objects, for moved, inserted and changed items and for nested lists.
func TestAtomicListsTakeLinearTime(t *testing.T) {
	number := func(i int) any { return int64(i) }
	chain := func(leaf string) func(int) any {
		return func(int) any { return nested(50, leaf, true).([]any)[0] }
	}
	for what, c := range map[string]struct {
		objects func(n int) (hub, member *unstructured.Unstructured)
		total   int
	}{
		"one in front": {func(n int) (hub, member *unstructured.Unstructured) {
			l := items(n, number)
			return box(l), box(slices.Insert(slices.Clone(l), 0, any("new")))
		}, 1},
		"one in front and the last is gone": {func(n int) (hub, member *unstructured.Unstructured) {
			l := items(n, number)
			return box(l), box(slices.Insert(l[:n-1:n-1], 0, any("new")))
		}, 2},
		"ten changed": {func(n int) (hub, member *unstructured.Unstructured) {
			l := items(n, number)
			live := slices.Clone(l)
			for i := range 10 {
				live[i*n/10] = "changed"
			}
			return box(l), box(live)
		}, 10},
		"eleven changed": {func(n int) (hub, member *unstructured.Unstructured) {
			l := items(n, number)
			live := slices.Clone(l)
			for i := range 11 {
				live[i*n/11] = "changed"
			}
			return box(l), box(live)
		}, 1},
		"chains of lists": {func(n int) (hub, member *unstructured.Unstructured) {
			return box(items(n/50, chain("a"))), box(items(n/50, chain("b")))
		}, 1},
		"one end of a chain": {func(n int) (hub, member *unstructured.Unstructured) {
			live := items(n/50, chain("a"))
			live[n/100] = chain("b")(0)
			return box(items(n/50, chain("a"))), box(live)
		}, 1},
		"sets of sets of sets": {func(n int) (hub, member *unstructured.Unstructured) {
			side := func(last string) *unstructured.Unstructured {
				return policy(items(20, func(i int) any {
					from := items(20, func(j int) any { return source("v", n/2000) })
					from[(i*7)%20] = source(last, n/2000)
					return map[string]any{"from": from}
				}))
			}
			return side("a"), side("b")
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			r := linear(t, hostileItems, c.objects, drift.Options{Comparison: drift.Full})
			if r.Total != c.total {
				t.Errorf("%d differences, want %d: %.300s", r.Total, c.total, compact(r.Differences))
			}
		})
	}
}

func end(i int) any {
	return map[string]any{"host": "h" + strconv.Itoa(i/300), "zone": "z" + strconv.Itoa(i%300)}
}

// Maps with a hundred thousand keys, and text of ten mebibytes.
func TestObjectsOfTenMebibytesTakeLinearTime(t *testing.T) {
	table := func(value string) func(int) map[string]any {
		return func(n int) map[string]any {
			o := map[string]any{}
			for i := range n / 100 {
				o["k"+strconv.Itoa(i)] = value + strings.Repeat("x", 90)
			}
			return o
		}
	}
	text := func(line, end string) func(int) map[string]any {
		return func(n int) map[string]any { return map[string]any{"k": strings.Repeat(line, n/len(line)) + end} }
	}
	key := func(value string) func(int) map[string]any {
		return func(n int) map[string]any { return map[string]any{strings.Repeat("k", n): value} }
	}
	none := func(int) map[string]any { return map[string]any{"a": "b"} }
	for what, c := range map[string]struct {
		hub, member func(int) map[string]any
		// all reports whether all keys differ, besides so many.
		all   bool
		total int
	}{
		"equal":         {table("a"), table("a"), false, 0},
		"all others":    {table("a"), table("b"), true, 0},
		"nothing there": {table("a"), none, true, 1},
		"only there":    {none, table("a"), true, 1},
		"one text":      {text("0123456789abcde\n", "a"), text("0123456789abcde\n", "b"), false, 1},
		"no newline":    {text("x", "a"), text("x", "b"), false, 1},
		"one key":       {key("a"), key("b"), false, 1},
	} {
		t.Run(what, func(t *testing.T) {
			size, want := 100*hostileItems, c.total
			if c.all && !soaked() {
				size /= 5
			}
			if c.all {
				want += size / 100
			}
			r := linear(t, size, func(n int) (hub, member *unstructured.Unstructured) {
				return settingsOf(c.hub(n)), settingsOf(c.member(n))
			}, drift.Options{Comparison: drift.Full})
			if r.Total != want {
				t.Errorf("%d differences, want %d", r.Total, want)
			}
		})
	}
}

// nested is v in so many maps or lists.
func nested(levels int, v any, list bool) any {
	for range levels {
		if v = any(map[string]any{"a": v}); list {
			v = []any{v}
		}
	}
	return v
}

// Ten thousand levels are an error that names the object, the place and the limit.
func TestObjectsThatAreTooDeepAreRefused(t *testing.T) {
	flat := box(map[string]any{"a": int64(1)})
	for _, list := range []bool{false, true} {
		deep := box(nested(10_000, "x", list))
		round := map[string]any{}
		round["a"] = round
		for what, err := range map[string]error{
			"the hub's":    second(drift.Compare(deep, flat, drift.Options{})),
			"the member's": second(drift.Compare(flat, deep, drift.Options{})),
			"in a circle":  second(drift.Compare(flat, box(round), drift.Options{})),
		} {
			if err == nil || !strings.Contains(err.Error(), "deep") || !strings.Contains(err.Error(), strconv.Itoa(drift.MaxDepth)) ||
				!strings.Contains(err.Error(), "shop/box") || !strings.Contains(err.Error(), "/spec") || len(err.Error()) > 2000 {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	inside := box(nested(drift.MaxDepth-4, "x", false))
	if r := mustCompare(t, inside, box(nested(drift.MaxDepth-4, "y", false)), drift.Options{}); r.Total != 1 {
		t.Errorf("%d differences below the limit", r.Total)
	}
}

func second[A any](_ A, err error) error { return err }

func TestObjectsWithTooManyValuesAreRefused(t *testing.T) {
	many := box(items(drift.MaxNodes, func(int) any { return nil }))
	flat := box(map[string]any{"a": int64(1)})
	for what, err := range map[string]error{
		"the hub's": second(drift.Compare(many, flat, drift.Options{})), "the member's": second(drift.Compare(flat, many, drift.Options{})),
	} {
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(drift.MaxNodes)) || !strings.Contains(err.Error(), "shop/box") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
