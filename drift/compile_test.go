package drift_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

func TestNothingIsAllocatedWhileNothingDiffers(t *testing.T) {
	hub, member := deployment(t)
	bigHub, big := pair(t, unpacked(t, "crd"))
	dataHub, data := pair(t, unpacked(t, "configmap"))
	for name, o := range map[string][2]*unstructured.Unstructured{
		"deployment": {hub, member}, "definition": {bigHub, big}, "configmap": {dataHub, data},
	} {
		for _, c := range []drift.Comparison{drift.Partial, drift.Full} {
			m := compiled(t, o[0], c)
			allocs := testing.AllocsPerRun(20, func() {
				if r, err := m.Compare(o[1], nil); err != nil || r.Drifted() {
					t.Errorf("%s, %s: %v, %+v", name, c, err, r.Differences)
				}
			})
			if allocs != 0 {
				t.Errorf("%s, %s: %v allocations, want none", name, c, allocs)
			}
		}
	}
}

func TestCompileCopiesItsArguments(t *testing.T) {
	hub, member := deployment(t)
	before := hub.DeepCopy()
	o := drift.Options{Secrets: []string{"/spec/replicas"}, SecretKey: []byte("key"), Ignore: []drift.IgnoreRule{{Pointers: []string{"/spec/paused"}}}}
	m, err := drift.Compile(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, hub.Object); diff != "" {
		t.Errorf("Compile changed the hub's object (-before +after):\n%s", diff)
	}
	set(t, hub, "example.com/other:1", "metadata", "labels", "team")
	unstructured.RemoveNestedField(hub.Object, "spec")
	o.Secrets[0], o.SecretKey[0], o.Ignore[0].Pointers[0] = "/x", 'x', "/x"
	same := member.DeepCopy()
	set(t, member, int64(77), "spec", "replicas")
	set(t, member, true, "spec", "paused")
	live := member.DeepCopy()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, err := m.Compare(member, nil)
			if err != nil || r.Total != 1 || strings.Contains(string(r.Differences[0].Member), "77") {
				t.Errorf("%v, %+v", err, r.Differences)
			}
			if r, err := m.Compare(same, nil); err != nil || r.Total != 0 {
				t.Errorf("%v, %+v", err, r.Differences)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(live.Object, member.Object); diff != "" {
		t.Errorf("Compare changed the member's object (-before +after):\n%s", diff)
	}
}

// levels returns a value with n maps and lists in each other.
func levels(n int) any {
	v := any("bottom")
	for i := range n {
		if v = any([]any{v}); i%2 == 0 {
			v = map[string]any{"a": v.([]any)[0]}
		}
	}
	return v
}

func thingOf(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}
}

func TestAnObjectBeyondTheLimitsIsAnErrorThatSaysWhere(t *testing.T) {
	wide := make([]any, drift.MaxNodes)
	for i := range wide {
		wide[i] = "x"
	}
	good := compiled(t, thingOf(levels(drift.MaxDepth-1)), drift.Full)
	if r, err := good.Compare(thingOf(levels(drift.MaxDepth-1)), nil); err != nil || r.Drifted() {
		t.Errorf("an object at the limit: %v, %+v", err, r.Differences)
	}
	for name, c := range map[string]struct {
		spec any
		want string
	}{
		"deep":        {levels(10_000), "nested more than 128 levels deep"},
		"one deeper":  {levels(drift.MaxDepth), "nested more than 128 levels deep"},
		"where":       {map[string]any{"b": int64(1), "c/d": []any{levels(200)}}, "/spec/c~1d/0/"},
		"wide":        {wide, "more than 1000000 values"},
		"no JSON":     {map[string]any{"a": []any{map[string]string{}}}, "/spec/a/0: a map[string]string is no JSON value"},
		"not finite":  {map[string]any{"a": math.NaN()}, "/spec/a: a float64 is no JSON value"},
		"a structure": {struct{ A string }{"x"}, "/spec: a struct"},
	} {
		for side, compare := range map[string]func() error{
			"hub":    func() error { _, err := drift.Compile(thingOf(c.spec), drift.Options{}); return err },
			"member": func() error { _, err := good.Compare(thingOf(c.spec), nil); return err },
		} {
			err := compare()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), side+"'s Thing \"a\"") {
				t.Errorf("%s, %s: %.200v, want %q in it", name, side, err, c.want)
			}
		}
	}
}

func TestAnotherObjectThanTheHubsIsAnError(t *testing.T) {
	hub := thingOf(map[string]any{"a": "b"})
	hub.SetNamespace("shop")
	m := compiled(t, hub, drift.Partial)
	for field, change := range map[string]func(*unstructured.Unstructured){
		"kind":      func(o *unstructured.Unstructured) { o.SetKind("Other") },
		"group":     func(o *unstructured.Unstructured) { o.SetAPIVersion("v1") },
		"name":      func(o *unstructured.Unstructured) { o.SetName("b") },
		"namespace": func(o *unstructured.Unstructured) { o.SetNamespace("b") },
	} {
		member := hub.DeepCopy()
		change(member)
		if _, err := m.Compare(member, nil); err == nil || !strings.Contains(err.Error(), "another "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	member := hub.DeepCopy()
	member.SetAPIVersion("example.com/v2")
	r, err := m.Compare(member, nil)
	if err != nil || r.Drifted() || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "example.com/v2") {
		t.Errorf("another version: %v, %+v", err, r)
	}
}

func TestASecretThatAServerWouldRefuseIsAnErrorWithoutItsValues(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login"},
		"data":       map[string]any{"a": int64(4711), "b": "not base64 hunter2", "c": "YQ==", "d": nil},
		"stringData": map[string]any{"e": true, "f": "hunter3"},
	}}
	_, err := drift.Compile(secret, drift.Options{})
	for _, want := range []string{"/data/a", "/data/b", "/stringData/e", `Secret "login"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for _, never := range []string{"4711", "hunter", "/data/c", "/data/d", "/stringData/f"} {
		if strings.Contains(fmt.Sprint(err), never) {
			t.Errorf("%v, and there is %q in it", err, never)
		}
	}
}

func TestStringDataIsDataAndWinsOverIt(t *testing.T) {
	hub := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login"},
		"data":       map[string]any{"a": "b2xk", "n": nil},
		"stringData": map[string]any{"a": "new", "b": "also"},
	}}
	member := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login"}, "type": "Opaque",
		"data": map[string]any{"a": "bmV3", "b": "YWxz\nbw==", "n": ""},
	}}
	for _, c := range []drift.Comparison{drift.Partial, drift.Full} {
		if r, err := compiled(t, hub, c).Compare(member, nil); err != nil || r.Drifted() {
			t.Errorf("%s: %v, %+v", c, err, r.Differences)
		}
	}
}

// envItems returns n items of a keyed list, in order or in the opposite one.
func envItems(n int, backwards bool) *unstructured.Unstructured {
	l := make([]any, n)
	for i := range l {
		at := i
		if backwards {
			at = n - 1 - i
		}
		l[at] = map[string]any{"name": fmt.Sprint("item-", i), "value": "x"}
	}
	container := map[string]any{"name": "app", "env": l}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"containers": []any{container}},
	}}
}

func TestAListOf100000ItemsInTheOppositeOrderIsOneDifference(t *testing.T) {
	m := compiled(t, envItems(100_000, false), drift.Partial)
	r, err := m.Compare(envItems(100_000, true), nil)
	if err != nil || r.Total != 1 || r.Differences[0].Class != drift.Order || r.Differences[0].Path != "/spec/containers/0/env" {
		t.Errorf("%v, %d differences", err, r.Total)
	}
}

func BenchmarkReversedList(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("items=", n), func(b *testing.B) {
			m, member := compiled(b, envItems(n, false), drift.Partial), envItems(n, true)
			for b.Loop() {
				if _, err := m.Compare(member, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
		})
	}
}

// An error names twenty of many problems, and none of the values.
func TestProblemsOfAnObjectAreCounted(t *testing.T) {
	data := map[string]any{}
	for i := range 50 {
		data[fmt.Sprint("key", i)] = "%hunter2"
	}
	_, err := drift.Compile(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}, "data": data,
	}}, drift.Options{})
	if err == nil || strings.Count(err.Error(), "must be base64") != 20 || !strings.HasSuffix(err.Error(), "and 30 more") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
