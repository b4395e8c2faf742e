package memory_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

func object(kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	obj := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta}
	maps.Copy(obj, rest)
	return &unstructured.Unstructured{Object: obj}
}

func config(name string, data map[string]any) *unstructured.Unstructured {
	return object("ConfigMap", "default", name, map[string]any{"data": data})
}

func id(kind, namespace, name string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: kind, Namespace: namespace, Name: name}
}

func apply(t *testing.T, c *memory.Cluster, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out, err := c.Conn().Apply(t.Context(), obj, backend.ApplyOptions{Manager: "slipway/app"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func get(t *testing.T, c *memory.Cluster, id snapshot.ID) *unstructured.Unstructured {
	t.Helper()
	obj, err := c.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestClusterIsDeterministic(t *testing.T) {
	dump := func() []*unstructured.Unstructured {
		c := memory.NewCluster("one")
		apply(t, c, config("a", map[string]any{"k": "v"}))
		return c.List("")
	}
	if diff := cmp.Diff(dump(), dump()); diff != "" {
		t.Error(diff)
	}
	if memory.NewCluster("one").UID() == memory.NewCluster("two").UID() {
		t.Error("clusters of different names have the same uid")
	}
}

func TestDeletingANamespaceDeletesItsObjects(t *testing.T) {
	c := memory.NewCluster("one")
	apply(t, c, object("Namespace", "", "team", nil))
	apply(t, c, object("ConfigMap", "team", "a", nil))
	apply(t, c, config("b", nil))
	if err := c.Delete(id("Namespace", "", "team")); err != nil {
		t.Fatal(err)
	}
	if n := len(c.List("team")); n != 0 || c.Len() != 3 {
		t.Errorf("%d objects in the namespace, %d in the cluster, want 0 and 3", n, c.Len())
	}
	if err := c.Delete(id("Namespace", "", "kube-system")); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("deleting kube-system: %v, want ErrPermanent", err)
	}
}

func TestFinalizersHoldAnObjectAndItsNamespace(t *testing.T) {
	c := memory.NewCluster("one")
	c.SetClock(func() time.Time { return time.Unix(1e9, 0) })
	apply(t, c, object("Namespace", "", "team", nil))
	held := object("ConfigMap", "team", "a", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	apply(t, c, held)
	ns, a := id("Namespace", "", "team"), id("ConfigMap", "team", "a")
	if err := c.Delete(ns); err != nil {
		t.Fatal(err)
	}
	for _, id := range []snapshot.ID{ns, a} {
		if at := get(t, c, id).GetDeletionTimestamp(); at == nil || at.Unix() != 1e9 {
			t.Errorf("%s: deletionTimestamp is %v", id.Kind, at)
		}
	}
	_, err := c.Conn().Apply(t.Context(), object("ConfigMap", "team", "b", nil), backend.ApplyOptions{Manager: "m"})
	if err == nil || errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
		t.Errorf("creating in a terminating namespace: %v, want a transient error", err)
	}
	free := get(t, c, a)
	free.SetFinalizers(nil)
	if err := c.Update(free); err != nil {
		t.Fatal(err)
	}
	for _, id := range []snapshot.ID{ns, a} {
		if _, err := c.Get(id); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", id.Kind, err)
		}
	}
}

func TestApplyRestoresManualEdits(t *testing.T) {
	c := memory.NewCluster("one")
	want := config("a", map[string]any{"k": "v"})
	apply(t, c, want)
	edited := get(t, c, id("ConfigMap", "default", "a"))
	edited.Object["data"] = map[string]any{"k": "edited", "mine": "kept"}
	if err := c.Update(edited); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(edited); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("editing an old version: %v, want ErrConflict", err)
	}
	got := apply(t, c, want)
	if diff := cmp.Diff(map[string]any{"k": "v", "mine": "kept"}, got.Object["data"]); diff != "" {
		t.Error(diff)
	}
	// A field that a person took over stays when it is no longer applied.
	edited = got.DeepCopy()
	edited.Object["data"] = map[string]any{"k": "edited"}
	if err := c.Update(edited); err != nil {
		t.Fatal(err)
	}
	got = apply(t, c, config("a", map[string]any{"other": "1"}))
	if diff := cmp.Diff(map[string]any{"k": "edited", "other": "1"}, got.Object["data"]); diff != "" {
		t.Error(diff)
	}
}

func TestApplyMerges(t *testing.T) {
	type m = map[string]any
	for name, tc := range map[string]struct {
		first, other, second, want m
	}{
		"nested maps":           {m{"a": m{"b": m{"c": "1"}}}, m{"a": m{"b": m{"d": "2"}}}, m{"a": m{"b": m{"c": "3"}}}, m{"a": m{"b": m{"c": "3", "d": "2"}}}},
		"a map goes":            {m{"a": m{"b": "1"}, "x": "1"}, m{"y": "2"}, m{"x": "1"}, m{"x": "1", "y": "2"}},
		"half of a map goes":    {m{"a": m{"b": "1"}, "x": "1"}, m{"a": m{"c": "2"}}, m{"x": "1"}, m{"a": m{"c": "2"}, "x": "1"}},
		"lists are atomic":      {m{"a": []any{"1", "2"}}, m{"y": "2"}, m{"a": []any{"3"}}, m{"a": []any{"3"}, "y": "2"}},
		"a map becomes a value": {m{"a": m{"b": "1"}}, m{"y": "2"}, m{"a": "1"}, m{"a": "1", "y": "2"}},
		"a value becomes a map": {m{"a": "1"}, m{"y": "2"}, m{"a": m{"b": "1"}}, m{"a": m{"b": "1"}, "y": "2"}},
		"empty map":             {m{"a": m{}}, m{"y": "2"}, m{}, m{"y": "2"}},
		"null":                  {m{"a": nil}, m{"y": "2"}, m{"b": nil}, m{"b": nil, "y": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := memory.NewCluster("one").Conn()
			var got *unstructured.Unstructured
			for _, step := range []struct {
				manager string
				spec    m
			}{{"one", tc.first}, {"two", tc.other}, {"one", tc.second}} {
				var err error
				got, err = conn.Apply(t.Context(), object("Thing", "", "a", m{"spec": step.spec}), backend.ApplyOptions{Manager: step.manager})
				if err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, got.Object["spec"]); diff != "" {
				t.Error(diff)
			}
			if got.GetGeneration() != 3 {
				t.Errorf("generation is %d, want 3", got.GetGeneration())
			}
		})
	}
}

func TestApplyComparesNumbersByValue(t *testing.T) {
	c := memory.NewCluster("one")
	first := apply(t, c, object("Thing", "", "a", map[string]any{"spec": map[string]any{"n": int64(3)}}))
	second := apply(t, c, object("Thing", "", "a", map[string]any{"spec": map[string]any{"n": float64(3)}}))
	if first.GetResourceVersion() != second.GetResourceVersion() {
		t.Error("3 and 3.0 are different")
	}
}

func TestApplyIgnoresServerFields(t *testing.T) {
	c := memory.NewCluster("one")
	obj := config("a", nil)
	obj.SetUID("mine")
	obj.SetResourceVersion("77")
	obj.Object["status"] = map[string]any{"phase": "mine"}
	got := apply(t, c, obj)
	if got.GetUID() == "mine" || got.GetResourceVersion() == "77" || got.Object["status"] != nil {
		t.Errorf("got %v", got.Object)
	}
	if obj.GetUID() != "mine" {
		t.Error("the argument was changed")
	}
}

func TestStatusIsNoGeneration(t *testing.T) {
	c := memory.NewCluster("one")
	before := apply(t, c, config("a", nil))
	status := map[string]any{"observedGeneration": int64(1)}
	for range 2 {
		if err := c.SetStatus(id("ConfigMap", "default", "a"), status); err != nil {
			t.Fatal(err)
		}
	}
	after := get(t, c, id("ConfigMap", "default", "a"))
	if after.GetGeneration() != before.GetGeneration() || after.GetResourceVersion() == before.GetResourceVersion() {
		t.Errorf("generation %d, resourceVersion %s", after.GetGeneration(), after.GetResourceVersion())
	}
	if diff := cmp.Diff(status, after.Object["status"]); diff != "" {
		t.Error(diff)
	}
}

func TestReactSetsTheStatus(t *testing.T) {
	c := memory.NewCluster("one")
	c.React(func(obj *unstructured.Unstructured) map[string]any {
		return map[string]any{"observedGeneration": obj.GetGeneration()}
	})
	apply(t, c, config("a", map[string]any{"k": "1"}))
	got := apply(t, c, config("a", map[string]any{"k": "2"}))
	if n, _, _ := unstructured.NestedInt64(got.Object, "status", "observedGeneration"); n != 2 {
		t.Errorf("observedGeneration is %d, want 2", n)
	}
}

// The replicas of a Deployment are available immediately in each generation, except for a broken
// Deployment; other objects keep their status.
func TestDeployments(t *testing.T) {
	c := memory.NewCluster("one")
	c.React(memory.Deployments(func(image string) bool { return image == "broken" }))
	deployment := func(image string, replicas any) *unstructured.Unstructured {
		obj := object("Deployment", "", "a", map[string]any{"spec": map[string]any{"replicas": replicas, "template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"image": "sidecar"}, map[string]any{"image": image}}},
		}}})
		obj.SetAPIVersion("apps/v1")
		return obj
	}
	for _, tc := range []struct {
		image            string
		replicas         any
		ready, available int64
	}{{"v1", nil, 1, 1}, {"v2", int64(3), 3, 3}, {"broken", int64(2), 2, 0}} {
		got := apply(t, c, deployment(tc.image, tc.replicas))
		status := func(field string) int64 {
			n, _, _ := unstructured.NestedInt64(got.Object, "status", field)
			return n
		}
		if status("replicas") != tc.ready || status("availableReplicas") != tc.available || status("observedGeneration") != got.GetGeneration() {
			t.Errorf("%s: the status is %v", tc.image, got.Object["status"])
		}
	}
	if got := apply(t, c, config("b", nil)); got.Object["status"] != nil {
		t.Errorf("a ConfigMap has the status %v", got.Object["status"])
	}
}

func TestRefuseIsPermanent(t *testing.T) {
	c := memory.NewCluster("one")
	unknown := errors.New("no such kind")
	c.Refuse(func(obj *unstructured.Unstructured) error {
		if obj.GetKind() == "Widget" {
			return unknown
		}
		return nil
	})
	_, err := c.Conn().Apply(t.Context(), object("Widget", "", "a", nil), backend.ApplyOptions{Manager: "m"})
	if !errors.Is(err, backend.ErrPermanent) || !errors.Is(err, unknown) {
		t.Errorf("got %v", err)
	}
	apply(t, c, config("a", nil))
}

func TestBadObjectsArePermanent(t *testing.T) {
	conn := memory.NewCluster("one").Conn()
	bad := []*unstructured.Unstructured{
		nil,
		{},
		{Object: map[string]any{"metadata": "x"}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "A", "metadata": []any{}}},
		{Object: map[string]any{"apiVersion": 1, "kind": 2, "metadata": map[string]any{"name": 3}}},
	}
	for _, obj := range bad {
		if _, err := conn.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "m"}); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%v: %v", obj, err)
		}
	}
	if _, err := conn.Apply(t.Context(), config("a", nil), backend.ApplyOptions{}); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("no manager: %v", err)
	}
}

func TestGetAnswersInTheVersionAskedFor(t *testing.T) {
	c := memory.NewCluster("one")
	obj := config("a", nil)
	obj.SetAPIVersion("example.com/v1beta1")
	apply(t, c, obj)
	got := get(t, c, snapshot.ID{Group: "example.com", Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"})
	if got.GetAPIVersion() != "example.com/v1" {
		t.Errorf("apiVersion is %s", got.GetAPIVersion())
	}
	obj = obj.DeepCopy()
	obj.SetAPIVersion("example.com/v1")
	if again := apply(t, c, obj); again.GetGeneration() != 1 || again.GetUID() != got.GetUID() {
		t.Error("another version is another object, or another generation")
	}
}

func TestLogHasEffectiveWritesOnly(t *testing.T) {
	c := memory.NewCluster("one")
	apply(t, c, config("before", nil))
	c.Record(true)
	a := id("ConfigMap", "default", "a")
	apply(t, c, config("a", map[string]any{"k": "1"}))
	apply(t, c, config("a", map[string]any{"k": "1"}))
	apply(t, c, config("a", map[string]any{"k": "2"}))
	conn := c.Conn()
	release := backend.DeleteOptions{Manager: "slipway/app", Release: true}
	for range 2 {
		if err := conn.Delete(t.Context(), a, release); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(a); err != nil {
		t.Fatal(err)
	}
	want := []memory.Write{
		{Op: "create", ID: a, Manager: "slipway/app", ResourceVersion: "4"},
		{Op: "apply", ID: a, Manager: "slipway/app", ResourceVersion: "5"},
		{Op: "release", ID: a, Manager: "slipway/app", ResourceVersion: "6"},
		{Op: "delete", ID: a, ResourceVersion: "7"},
	}
	if diff := cmp.Diff(want, c.Log()); diff != "" {
		t.Error(diff)
	}
	if c.Record(false); c.Log() != nil {
		t.Error("the log outlives its recording")
	}
}

func TestManagedFieldsNameTheOwners(t *testing.T) {
	c := memory.NewCluster("one")
	c.ManagedFields(true)
	apply(t, c, config("a", map[string]any{"k": "v", "l": "v"}))
	edited := get(t, c, id("ConfigMap", "default", "a"))
	edited.Object["data"] = map[string]any{"k": "v", "l": "edited"}
	if err := c.Update(edited); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range get(t, c, id("ConfigMap", "default", "a")).GetManagedFields() {
		got[f.Manager+" "+string(f.Operation)] = f.FieldsV1.GetRawString()
	}
	want := map[string]string{
		"slipway/app Apply": `{"f:data":{"f:k":{}}}`,
		"editor Update":     `{"f:data":{"f:l":{}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClosedConnFails(t *testing.T) {
	conn := memory.NewCluster("one").Conn()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Get(t.Context(), id("Namespace", "", "default")); err == nil || errors.Is(err, backend.ErrNotFound) {
		t.Errorf("got %v, want a transient error", err)
	}
}

func TestRestoreReturnsAClusterToItsState(t *testing.T) {
	c := memory.NewCluster("one")
	c.ManagedFields(true)
	apply(t, c, config("a", map[string]any{"k": "v", "n": int64(3)}))
	if err := c.Update(config("a", map[string]any{"k": "edited"})); err != nil {
		t.Fatal(err)
	}
	state, err := c.State()
	if err != nil {
		t.Fatal(err)
	}
	want, other := c.List(""), memory.NewCluster("one")
	other.ManagedFields(true)
	for _, target := range []*memory.Cluster{c, other} {
		late := apply(t, target, config("late", nil))
		if err := target.Restore(state); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, target.List("")); diff != "" {
			t.Error(diff)
		}
		next := apply(t, target, config("late", nil))
		if next.GetUID() == late.GetUID() || next.GetResourceVersion() == late.GetResourceVersion() {
			t.Errorf("uid %s or resourceVersion %s was given out twice", next.GetUID(), next.GetResourceVersion())
		}
	}
	for _, bad := range []string{"", `{"objects":[{"live":{"kind":"A"}}]}`} {
		if err := c.Restore([]byte(bad)); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("restoring %q: %v", bad, err)
		}
	}
}

func TestApplyKeepsDroppedFieldsThatOthersOwn(t *testing.T) {
	c := memory.NewCluster("one")
	for _, by := range []string{"one", "two"} { // both own k
		if _, err := c.Conn().Apply(t.Context(), config("a", map[string]any{"k": "v"}), backend.ApplyOptions{Manager: by}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ manager, want string }{{"one", "v"}, {"two", ""}} {
		got, err := c.Conn().Apply(t.Context(), config("a", nil), backend.ApplyOptions{Manager: tc.manager})
		if err != nil {
			t.Fatal(err)
		}
		if k, _, _ := unstructured.NestedString(got.Object, "data", "k"); k != tc.want {
			t.Errorf("after %s gave k up it is %q, want %q", tc.manager, k, tc.want)
		}
	}
}

func TestReleaseTakesTheMarksFromEveryOwner(t *testing.T) {
	c := memory.NewCluster("one")
	c.ManagedFields(true)
	obj := config("a", nil)
	obj.SetAnnotations(map[string]string{"mark": "1"})
	apply(t, c, obj)
	if _, err := c.Conn().Apply(t.Context(), obj, backend.ApplyOptions{Manager: "other"}); err != nil {
		t.Fatal(err)
	}
	o := backend.DeleteOptions{Manager: "slipway/app", Release: true, Marks: []string{"mark", "unknown"}}
	if err := c.Conn().Delete(t.Context(), id("ConfigMap", "default", "a"), o); err != nil {
		t.Fatal(err)
	}
	got := get(t, c, id("ConfigMap", "default", "a"))
	managers := got.GetManagedFields()
	if len(got.GetAnnotations()) > 0 || len(managers) != 1 || managers[0].Manager != "other" || managers[0].FieldsV1.GetRawString() != `{"f:data":{}}` {
		t.Errorf("annotations %v, managed fields %v", got.GetAnnotations(), managers)
	}
}
