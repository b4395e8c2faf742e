package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

const manager = "slipway/shop"

// asItIs returns the precondition of the returned object.
func asItIs(obj *unstructured.Unstructured) backend.Precondition {
	return backend.Precondition{UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}
}

// applied applies an object and fails the test on an error.
func applied(t *testing.T, c backend.Conn, obj *unstructured.Unstructured, p backend.Precondition) *unstructured.Unstructured {
	t.Helper()
	got, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: manager, Precondition: p})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func dataOf(t *testing.T, obj *unstructured.Unstructured) map[string]string {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(obj.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestConcurrentCreatesWithAbsentPrecondition also shows that the creator owns the
// applied fields: fields that it no longer applies are removed.
func TestConcurrentCreatesWithAbsentPrecondition(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	for round := range 10 {
		var created atomic.Int32
		var racers sync.WaitGroup
		name := fmt.Sprint("a", round)
		for i := range 8 {
			racers.Go(func() {
				o := backend.ApplyOptions{Manager: manager, Precondition: backend.Precondition{Absent: true}}
				_, err := c.Apply(t.Context(), configMap(ns, name, "by", fmt.Sprint(i), "more", "x"), o)
				switch {
				case err == nil:
					created.Add(1)
				case !errors.Is(err, backend.ErrConflict):
					t.Error(err)
				}
			})
		}
		racers.Wait()
		if created.Load() != 1 {
			t.Fatalf("%d of 8 created the object", created.Load())
		}
		got := applied(t, c, configMap(ns, name, "by", "me"), backend.Precondition{})
		if data := dataOf(t, got); !maps.Equal(data, map[string]string{"by": "me"}) {
			t.Fatalf("the data is %v: what the creator applied is not its own", data)
		}
	}
}

// TestPreconditionsDetectARecreatedObject checks the preconditions of API servers and
// their translation to errors.
func TestPreconditionsDetectARecreatedObject(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: ns, Name: "a"}
	old := applied(t, c, configMap(ns, "a", "v", "old"), backend.Precondition{Absent: true})
	if err := c.Delete(t.Context(), id, backend.DeleteOptions{Precondition: asItIs(old)}); err != nil {
		t.Fatal(err)
	}
	stale := []backend.Precondition{
		asItIs(old), {UID: string(old.GetUID())}, {ResourceVersion: old.GetResourceVersion()}, {UID: string(old.GetUID()), ResourceVersion: "1"},
	}
	refused := func(when string, kind error) {
		for _, p := range stale {
			_, err := c.Apply(t.Context(), configMap(ns, "a", "v", "late"), backend.ApplyOptions{Manager: manager, Precondition: p})
			if !errors.Is(err, backend.ErrConflict) {
				t.Errorf("apply %s with %+v: the error is %v, want a conflict", when, p, err)
			}
			for _, release := range []bool{false, true} {
				err := c.Delete(t.Context(), id, backend.DeleteOptions{Manager: manager, Release: release, Precondition: p})
				if !errors.Is(err, kind) {
					t.Errorf("delete %s with %+v: the error is %v, want %v", when, p, err, kind)
				}
			}
		}
	}
	refused("what is gone", backend.ErrNotFound)
	if _, err := c.Get(t.Context(), id); !errors.Is(err, backend.ErrNotFound) {
		t.Fatalf("the object is there again: %v", err)
	}
	made := applied(t, c, configMap(ns, "a", "v", "new"), backend.Precondition{Absent: true})
	refused("what was made again", backend.ErrConflict)
	got, err := c.Get(t.Context(), id)
	if err != nil || asItIs(got) != asItIs(made) {
		t.Errorf("the object was changed: %v", err)
	}
}

func TestAnObjectThatIsNotValidIsNoConflict(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	good := applied(t, c, configMap(ns, "a", "v", "1"), backend.Precondition{})
	for what, change := range map[string]func(*unstructured.Unstructured){
		"a label":          func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "not a label!"}) },
		"a key":            func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"not a key!": canary} },
		"a type":           func(o *unstructured.Unstructured) { o.Object["data"] = []any{canary} },
		"an unknown field": func(o *unstructured.Unstructured) { o.Object["dota"] = map[string]any{"a": canary} },
	} {
		bad := configMap(ns, "a", "v", "2")
		change(bad)
		_, err := c.Apply(t.Context(), bad, backend.ApplyOptions{Manager: manager, Precondition: asItIs(good)})
		if !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrConflict) {
			t.Errorf("%s: the error is %v, want one that is permanent", what, err)
		}
	}
}

func TestAnUnknownKindIsDistinguishedFromAMissingObject(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	for _, apiVersion := range []string{"none.example.com/v1", "apps/v9", "apps/v1", "v1"} {
		obj := configMap(ns, "a")
		obj.SetAPIVersion(apiVersion)
		obj.SetKind("Nothing")
		if _, err := c.Get(t.Context(), snapshot.IDOf(obj)); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("get of a %s Nothing: the error is %v", apiVersion, err)
		}
		if err := c.Delete(t.Context(), snapshot.IDOf(obj), backend.DeleteOptions{}); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("delete of a %s Nothing: the error is %v", apiVersion, err)
		}
		_, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: manager})
		if !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("apply of a %s Nothing: the error is %v", apiVersion, err)
		}
	}
}

// TestANamespaceThatIsBeingDeletedIsWaitedFor is about a temporary refusal of an API server.
func TestANamespaceThatIsBeingDeletedIsWaitedFor(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t) // no controller runs that would end the deletion
	if err := c.Delete(t.Context(), snapshot.ID{Version: "v1", Kind: "Namespace", Name: ns}, backend.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Apply(t.Context(), configMap(ns, "a"), backend.ApplyOptions{Manager: manager, Precondition: backend.Precondition{Absent: true}})
	for _, kind := range []error{nil, backend.ErrPermanent, backend.ErrNotFound, backend.ErrConflict} {
		if errors.Is(err, kind) {
			t.Errorf("the error is %v, want one that is transient", err)
		}
	}
}

// crd returns a definition of a kind.
func crd(group, plural, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// widget returns an object of a kind that crd defines.
func widget(group, kind, namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": "a", "namespace": namespace}, "spec": map[string]any{"v": "1"},
	}}
}

// TestADefinitionAndItsObjectsCanBeAppliedAtOnce applies objects before the API server serves their
// kinds, whether or not their plural can be guessed, and through another connection.
func TestADefinitionAndItsObjectsCanBeAppliedAtOnce(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	group := ns + ".example.com"
	first, second := connTo(t, s), connTo(t, s)
	for i, c := range []backend.Conn{first, second} {
		for _, plural := range []string{fmt.Sprint("widget", i, "s"), fmt.Sprint("gadgetry", i)} {
			kind := fmt.Sprint("Widget", i)
			if plural[0] == 'g' {
				kind = fmt.Sprint("Gadget", i)
			}
			if i == 1 && plural[0] == 'g' {
				continue // another connection cannot guess it
			}
			obj := widget(group, kind, ns)
			if _, err := c.Get(t.Context(), snapshot.IDOf(obj)); !errors.Is(err, backend.ErrNotFound) {
				t.Fatal(err)
			}
			applied(t, first, crd(group, plural, kind), backend.Precondition{Absent: true})
			applied(t, c, obj, backend.Precondition{Absent: true})
			if _, err := c.Get(t.Context(), snapshot.IDOf(obj)); err != nil {
				t.Error(err)
			}
		}
	}
	// Once the definition is gone, so is the kind.
	if err := first.Delete(t.Context(), snapshot.IDOf(crd(group, "widget0s", "Widget0")), backend.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the end of the kind", func() bool {
		_, err := first.Get(t.Context(), snapshot.IDOf(widget(group, "Widget0", ns)))
		return errors.Is(err, backend.ErrNotFound)
	})
}

// TestWaitForAMissingKindEndsWithTheContext defines a kind whose short name is
// taken.
func TestWaitForAMissingKindEndsWithTheContext(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	group := ns + ".example.com"
	applied(t, c, crd(group, "ones", "One"), backend.Precondition{})
	applied(t, c, widget(group, "One", ns), backend.Precondition{})
	taken := crd(group, "others", "Other")
	if err := unstructured.SetNestedStringSlice(taken.Object, []string{"ones"}, "spec", "names", "shortNames"); err != nil {
		t.Fatal(err)
	}
	applied(t, c, taken, backend.Precondition{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Apply(ctx, widget(group, "Other", ns), backend.ApplyOptions{Manager: manager})
	if err == nil || ctx.Err() == nil || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the error is %v, want one that is transient", err)
	}
	version := widget(group, "One", ns)
	version.SetAPIVersion(group + "/v2")
	if _, err := c.Apply(t.Context(), version, backend.ApplyOptions{Manager: manager}); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the error of a version that is not defined is %v, want one that is permanent", err)
	}
}

// TestRequestsForStableKindsAskForNothingElse counts the requests of one call.
func TestRequestsForStableKindsAskForNothingElse(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	cfg := s.Config()
	var counts kubeenv.Counts
	cfg.Wrap(counts.Wrap)
	c, err := member.NewConn(cfg, member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := func(what string, n int) {
		t.Helper()
		if got := counts.Requests(); got != n {
			t.Errorf("%s took %d requests, want %d: %v", what, got, n, counts.Calls())
		}
		counts.Reset()
	}
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: ns, Name: "a"}
	_, _ = c.Get(t.Context(), id)
	want("a look at nothing", 1)
	obj := applied(t, c, configMap(ns, "a", "v", "1"), backend.Precondition{Absent: true})
	want("a creation", 1)
	obj = applied(t, c, configMap(ns, "a", "v", "2"), asItIs(obj))
	want("an apply", 1)
	if err := c.Delete(t.Context(), id, backend.DeleteOptions{Manager: manager, Release: true}); err != nil {
		t.Error(err)
	}
	want("a release", 2)
	if err := c.Delete(t.Context(), id, backend.DeleteOptions{Precondition: backend.Precondition{UID: string(obj.GetUID())}}); err != nil {
		t.Error(err)
	}
	want("a deletion", 1)
	for range 3 {
		_, _ = c.Get(t.Context(), snapshot.IDOf(widget("none.example.com", "Widget", ns)))
	}
	want("three looks at a kind that does not exist", 1)
}

// TestReleasedFieldsStayWhenTheManagerAppliesAgain also shows that other managers keep
// their fields.
func TestReleasedFieldsStayWhenTheManagerAppliesAgain(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: ns, Name: "a"}
	other := func(pairs ...string) {
		t.Helper()
		if _, err := c.Apply(t.Context(), configMap(ns, "a", pairs...), backend.ApplyOptions{Manager: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	applied(t, c, configMap(ns, "a", "a", "1", "b", "1"), backend.Precondition{})
	other("c", "1", "d", "1")
	if err := c.Delete(t.Context(), id, backend.DeleteOptions{Manager: manager, Release: true}); err != nil {
		t.Fatal(err)
	}
	applied(t, c, configMap(ns, "a", "e", "1"), backend.Precondition{})
	other("c", "1")
	got, err := c.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if data := dataOf(t, got); !maps.Equal(data, map[string]string{"a": "1", "b": "1", "c": "1", "e": "1"}) {
		t.Errorf("the data is %v", data)
	}
}
