package drift_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

// unbounded shows every difference with its whole value.
func unbounded(c drift.Comparison, schemas schema.Source) drift.Options {
	return drift.Options{Comparison: c, Schemas: schemas, MaxDifferences: 1 << 20, MaxValueBytes: 1 << 20}
}

func mustCompare(t testing.TB, hub, member *unstructured.Unstructured, o drift.Options) drift.Report {
	t.Helper()
	r, err := drift.Compare(hub, member, o)
	if err != nil {
		t.Fatalf("%v\nhub:    %s\nmember: %s", err, compact(hub.Object), compact(member.Object))
	}
	return r
}

// FuzzLaws generates two objects from the bytes and checks the general laws of comparisons on
// them.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(300) {
		data := make([]byte, 20+seed)
		rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data)
		f.Add(data)
	}
	schemas := schemas(f, "gadget-crd")
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data: data}
		hub := c.gadget()
		member := c.altered(hub)
		for _, comparison := range comparisons() {
			checkLaws(t, hub, member, unbounded(comparison, schemas))
			checkApplied(t, hub, member, unbounded(comparison, schemas))
			checkReplaced(t, hub, member, unbounded(comparison, schemas))
			checkReordered(t, c, hub, member, unbounded(comparison, schemas))
		}
		checkSubset(t, hub, member, schemas)
		checkExplained(t, hub, member, schemas)
	})
}

// The laws hold for every case as well.
func TestLawsOfCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		all, err := readScripts(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Expect.Error != "" || s.Expect.Total > 0 || s.member == nil {
				continue
			}
			t.Run(s.ID, func(t *testing.T) {
				for _, c := range comparisons() {
					o := s.options(t, c)
					o.MaxValueBytes = 1 << 20
					checkLaws(t, s.hub, s.member, o)
				}
				checkSubset(t, s.hub, s.member, s.options(t, drift.Partial).Schemas)
			})
		}
	}
}

// checkLaws holds a report against the objects that it is about.
func checkLaws(t *testing.T, hub, member *unstructured.Unstructured, o drift.Options) {
	t.Helper()
	hubWas, memberWas := hub.DeepCopy(), member.DeepCopy()
	r := mustCompare(t, hub, member, o)
	if again := mustCompare(t, hub, member, o); compact(r) != compact(again) {
		t.Errorf("the same comparison says two things:\n%s\n%s", compact(r), compact(again))
	}
	if !cmp.Equal(hub.Object, hubWas.Object) || !cmp.Equal(member.Object, memberWas.Object) {
		t.Error("the arguments have changed")
	}
	seen := map[string]bool{}
	for _, d := range r.Differences {
		if id := string(d.Class) + d.Path; seen[id] {
			t.Errorf("%s stands twice", id)
		} else {
			seen[id] = true
		}
		checkDifference(t, d, hub, member)
		checkAtomic(t, d, hub, member)
	}
	for _, x := range []*unstructured.Unstructured{hub, member} {
		if self := mustCompare(t, x, x, o); len(self.Differences) > 0 && o.Manager == "" && !saysOther(x) {
			t.Errorf("an object differs from itself: %s\n%s", compact(self.Differences), compact(x.Object))
		}
	}
}

// saysOther reports whether an object contains evidence of other fields: kubectl's annotation with
// applied fields, or stringData, which no server returns.
func saysOther(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"] != "" || o.Object["stringData"] != nil
}

// checkDifference reports whether an entry's pointers lead to its values.
func checkDifference(t *testing.T, d drift.Difference, hub, member *unstructured.Unstructured) {
	t.Helper()
	onHub, onMember := len(d.Hub) > 0, len(d.Member) > 0
	want := map[drift.Class][2]bool{
		drift.Changed: {true, true}, drift.Missing: {true, false}, drift.Stale: {false, true}, drift.Unmanaged: {false, true}, drift.Order: {true, true},
	}[d.Class]
	if [2]bool{onHub, onMember} != want {
		t.Errorf("%s %s has the sides %t and %t", d.Class, d.Path, onHub, onMember)
	}
	hubPath := d.HubPath
	if hubPath == "" {
		hubPath = d.Path
	}
	for _, side := range []struct {
		of    *unstructured.Unstructured
		path  string
		value json.RawMessage
	}{{hub, hubPath, d.Hub}, {member, d.Path, d.Member}} {
		if len(side.value) == 0 {
			continue
		}
		v, ok := resolve(side.of.Object, side.path)
		if v == 0.0 {
			v = 0 // which has no sign
		}
		if !ok {
			t.Errorf("%s %s: %q leads nowhere in %s", d.Class, d.Path, side.path, compact(side.of.Object))
		} else if got := compact(decoded(t, side.value)); got != compact(v) && hub.GetKind() != "Secret" && !isCut(got) && !strings.Contains(got, "(redacted)") {
			t.Errorf("%s %s: is %s at %s, and %s is reported", d.Class, d.Path, compact(v), side.path, got)
		}
	}
}

// checkAtomic checks that the value that is owned as a whole contains the difference, in the
// object of its path.
func checkAtomic(t *testing.T, d drift.Difference, hub, member *unstructured.Unstructured) {
	t.Helper()
	if d.AtomicPath == "" {
		return
	}
	in := member
	if len(d.Member) == 0 {
		in = hub
	}
	v, ok := resolve(in.Object, d.AtomicPath)
	if _, list := v.([]any); !list {
		_, ok = v.(map[string]any)
	}
	if !ok || !strings.HasPrefix(d.Path, d.AtomicPath+"/") {
		t.Errorf("%s %s: %q is named as owned as a whole, which is %s", d.Class, d.Path, d.AtomicPath, compact(v))
	}
}

func isCut(text string) bool { return strings.Contains(text, " bytes, sha256 ") }

// resolve follows an RFC 6901 pointer.
func resolve(v any, pointer string) (any, bool) {
	for _, s := range segments(pointer) {
		switch at := v.(type) {
		case map[string]any:
			child, ok := at[s]
			if !ok {
				return nil, false
			}
			v = child
		case []any:
			var i int
			if _, err := fmt.Sscanf(s, "%d", &i); err != nil || i < 0 || i >= len(at) || fmt.Sprint(i) != s {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// compact is JSON as reports have it.
func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// checkSubset reports whether all that Partial reports, Full reports too.
func checkSubset(t *testing.T, hub, member *unstructured.Unstructured, schemas schema.Source) {
	t.Helper()
	partial := mustCompare(t, hub, member, unbounded(drift.Partial, schemas))
	full := mustCompare(t, hub, member, unbounded(drift.Full, schemas))
	var all []string
	for _, d := range full.Differences {
		all = append(all, compact(d))
	}
	for _, d := range partial.Differences {
		if !slices.Contains(all, compact(d)) {
			t.Errorf("only Partial has %s; Full has %s", compact(d), all)
		}
	}
}

// checkApplied reports whether the member's object with the differences undone has
// the hub's fields. The order of items aside.
func checkApplied(t *testing.T, hub, member *unstructured.Unstructured, o drift.Options) {
	t.Helper()
	r := mustCompare(t, hub, member, o)
	fixed := &unstructured.Unstructured{Object: undone(t, member.Object, r.Differences)}
	left := mustCompare(t, hub, fixed, o)
	for _, d := range left.Differences {
		if d.Class != drift.Order {
			t.Errorf("%s: %s is left when all was undone\nhub:    %s\nmember: %s\nfixed:  %s\nfound:  %s", o.Comparison, compact(d),
				compact(hub.Object["spec"]), compact(member.Object["spec"]), compact(fixed.Object["spec"]), compact(r.Differences))
		}
	}
}

// checkReplaced checks that the differences in an atomic list disappear if the hub's list
// replaces it, as in an apply, and that no list has more entries than a user can read.
func checkReplaced(t *testing.T, hub, member *unstructured.Unstructured, o drift.Options) {
	t.Helper()
	inside := map[string]int{}
	fixed := member.DeepCopy()
	for _, d := range mustCompare(t, hub, member, o).Differences {
		fields := segments(d.AtomicPath)
		if len(fields) != 2 {
			continue // deeper ones have other indexes on the hub
		}
		if v, _ := resolve(member.Object, d.AtomicPath); d.Class != drift.Order {
			if _, list := v.([]any); list {
				inside[d.AtomicPath]++
			}
		}
		v, _, err := unstructured.NestedFieldCopy(hub.Object, fields...)
		if err != nil {
			t.Fatal(err)
		}
		set(t, fixed, v, fields...)
	}
	for _, d := range mustCompare(t, hub, fixed, o).Differences {
		if _, ok := inside[d.AtomicPath]; ok {
			t.Errorf("%s: %s is left when the list is the hub's", o.Comparison, compact(d))
		}
	}
	for at, n := range inside {
		if n > 10 {
			t.Errorf("%s: %d entries are about %s", o.Comparison, n, at)
		}
	}
}

// checkReordered reports whether the same is found when items that have keys stand
// elsewhere, but for their order.
func checkReordered(t *testing.T, c *choices, hub, member *unstructured.Unstructured, o drift.Options) {
	t.Helper()
	moved := &unstructured.Unstructured{Object: c.reordered(member.DeepCopy().Object)}
	was, is := byKeys(mustCompare(t, hub, member, o)), byKeys(mustCompare(t, hub, moved, o))
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("%s: another order brings other differences (-was +is):\n%s", o.Comparison, diff)
	}
}

// byKeys are the differences without their indexes.
func byKeys(r drift.Report) (all []string) {
	for _, d := range r.Differences {
		if d.Class != drift.Order {
			all = append(all, fmt.Sprintf("%s %s", d.Class, d.KeyPath))
		}
	}
	slices.Sort(all)
	return all
}

// checkExplained reports whether a baseline explains all that the member had when
// it was taken.
func checkExplained(t *testing.T, hub, member *unstructured.Unstructured, schemas schema.Source) {
	t.Helper()
	m, err := drift.Compile(hub, unbounded(drift.Full, schemas))
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Compare(member, m.Baseline(member))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		if d.Class != drift.Missing {
			t.Errorf("%s is not explained by a baseline of the same object", compact(d))
		}
	}
}
