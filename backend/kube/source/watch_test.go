package source_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

type seq = iter.Seq2[struct{}, error]

func watching(t *testing.T, s *source.Source, queries ...snapshot.Query) *kubetest.Ticks {
	t.Helper()
	k := kubetest.TicksOf(t, func(ctx context.Context) seq { return s.Watch(ctx, queries) })
	k.Next(t, "the beginning")
	return k
}

// A watch announces every change of the requested objects, and no other change.
func TestSourceWatch(t *testing.T) {
	h := theHub(t)
	a, b := h.Namespace(t), h.Namespace(t)
	s := sourceOf(t, h.Config(), source.Options{})
	k := watching(t, s, query("Namespace", "", a), snapshot.Query{Namespace: a})
	h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", a, "cm"))
	k.Next(t, "a new object")
	for _, change := range []func(){
		func() { h.Patch(t, kubetest.ConfigMaps(), a, "cm", `{"data":{"x":"y"}}`) },
		func() { h.Patch(t, namespaces(), "", a, `{"metadata":{"labels":{"x":"y"}}}`) },
		func() { h.Remove(t, kubetest.ConfigMaps(), a, "cm") },
	} {
		k.Drain()
		change()
		k.Next(t, "a change")
	}
	k.Drain()
	h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", b, "cm"))
	h.Patch(t, namespaces(), "", b, `{"metadata":{"labels":{"x":"y"}}}`)
	h.Create(t, leases(), kubetest.Object("coordination.k8s.io/v1", "Lease", a, "never-placed"))
	h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", a, "last"))
	k.Next(t, "the last change")
	if n := k.Drain(); n != 0 {
		t.Errorf("what was not asked for was told %d times", n)
	}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func leases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

// A query for one object of one namespace watches only that object.
func TestSourceWatchOfOneObject(t *testing.T) {
	h := theHub(t)
	a, b := h.Namespace(t), h.Namespace(t)
	k := watching(t, sourceOf(t, h.Config(), source.Options{}), query("ConfigMap", a, "cm"))
	for _, other := range [][2]string{{a, "other"}, {b, "cm"}, {a, "cm"}} {
		h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", other[0], other[1]))
	}
	k.Next(t, "the object")
	if n := k.Drain(); n != 0 {
		t.Errorf("other objects were told %d times", n)
	}
}

// A watch notices a kind that is defined or removed later, in a namespace and by its name.
func TestSourceWatchNoticesNewKinds(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	s := sourceOf(t, h.Config(), source.Options{})
	late := schema.GroupVersionResource{Group: "late.example.com", Version: "v1", Resource: "lates"}
	content := watching(t, s, snapshot.Query{Namespace: ns})
	named := watching(t, s, snapshot.Query{Group: late.Group, Version: "v1", Kind: "Late", Namespace: ns, Name: "x"})
	h.Define(t, late, "Late", "Namespaced")
	content.Next(t, "a new kind")
	named.Next(t, "the kind")
	for range 2 {
		content.Drain()
		named.Drain()
		obj := h.Create(t, late, kubetest.Object("late.example.com/v1", "Late", ns, "x"))
		content.Next(t, "an object of the new kind")
		named.Next(t, "the object")
		h.Remove(t, late, ns, obj.GetName())
		content.Next(t, "an object of the new kind that is gone")
	}
	if got, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err != nil || len(got) != 0 {
		t.Errorf("objects = %v, %v", got, err)
	}
	content.Drain()
	h.Undefined(t, late)
	content.Next(t, "a kind that is no more")
	h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", ns, "after"))
	content.Next(t, "an object after that")
}

// After an interruption or an expired version, a watch announces the changes in between.
func TestSourceWatchSurvives(t *testing.T) {
	t.Parallel()
	h := theHub(t)
	ns := h.Namespace(t)
	for name, fault := range map[string]kubeenv.Fault{
		"expired": kubeenv.Gone(), "expired-later": kubeenv.GoneEvent(), "reset": kubeenv.ResetBefore(), "busy": kubeenv.Answer(500, metav1.StatusReasonInternalError),
	} {
		t.Run(name, func(t *testing.T) {
			var faults kubeenv.Faults
			cfg := h.Config()
			cfg.Wrap(faults.Wrap)
			k := watching(t, sourceOf(t, cfg, source.Options{}), query("ConfigMap", ns, ""))
			struck := faults.Add(kubeenv.Rule{Verb: "watch", Path: "/configmaps", Times: 2, Fault: fault})
			kubetest.Eventually(t, "an interruption", func() bool { faults.CutWatches(); return struck() == 2 })
			k.Drain()
			h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", ns, name))
			k.Next(t, "a change after an interruption")
		})
	}
}

// All subscribers share one watch for each kind.
func TestSourceWatchesAreShared(t *testing.T) {
	h := theHub(t)
	var counts kubeenv.Counts
	cfg := h.Config()
	cfg.Wrap(counts.Wrap)
	s := sourceOf(t, cfg, source.Options{})
	watching(t, s, snapshot.Query{Namespace: h.Namespace(t)})
	for range 5 {
		watching(t, s, snapshot.Query{Namespace: h.Namespace(t)}, query("Namespace", "", "x"))
	}
	kubetest.Eventually(t, "watching", func() bool { return counts.OpenWatches() > 20 })
	for call, n := range counts.Calls() {
		if call.Verb == "watch" && n != 1 || call.Verb == "list" && n != 1 {
			t.Errorf("six watches began %d times with %v, want once for each kind", n, call)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the end of all watches", func() bool { return counts.OpenWatches() == 0 })
}

// A placement watches the objects of its selectors and the content of its namespaces.
func TestQueries(t *testing.T) {
	item := func(kind, name string) snapshot.Item {
		return snapshot.Item{ID: snapshot.ID{Version: "v1", Kind: kind, Name: name}}
	}
	got := source.Queries([]snapshot.Selector{
		{Version: "v1", Kind: "Namespace", LabelSelector: &metav1.LabelSelector{}},
		{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "a", Name: "web"},
	}, []snapshot.Item{item("Namespace", "b"), item("Namespace", "a"), item("ConfigMap", "c")})
	want := []snapshot.Query{
		{Version: "v1", Kind: "Namespace"},
		{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "a", Name: "web"},
		{Namespace: "a"},
		{Namespace: "b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A server that is restarted is followed again.
func TestSourceWatchSurvivesARestart(t *testing.T) {
	t.Parallel()
	env := kubeenv.ForTest(t)
	server := env.Server(t, "one")
	h := kubetest.HubAt(t, server)
	ns := server.Namespace(t)
	s := sourceOf(t, server.Config(), source.Options{})
	k := watching(t, s, snapshot.Query{Namespace: ns})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err == nil {
		t.Error("a server that is down has objects")
	} else {
		kubetest.WantTransient(t, err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	kubetest.Eventually(t, "creating an object", func() bool {
		_, err := h.In(ns, kubetest.ConfigMaps()).Create(t.Context(), kubetest.Object("v1", "ConfigMap", ns, fmt.Sprint("cm", time.Now().UnixNano())), metav1.CreateOptions{})
		return err == nil
	})
	k.Next(t, "a change after a restart")
}
