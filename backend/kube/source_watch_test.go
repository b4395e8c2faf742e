package kube_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

type seq = iter.Seq2[struct{}, error]

func watching(t *testing.T, s *kube.Source, queries ...snapshot.Query) *ticks {
	t.Helper()
	k := ticksOf(t, func(ctx context.Context) seq { return s.Watch(ctx, queries) })
	k.next(t, "the beginning")
	return k
}

// A watch tells of every change of what is asked for, and of nothing else.
func TestSourceWatch(t *testing.T) {
	h := theHub(t)
	a, b := h.Namespace(t), h.Namespace(t)
	s := sourceOf(t, h.Config(), kube.SourceOptions{})
	k := watching(t, s, query("Namespace", "", a), snapshot.Query{Namespace: a})
	h.create(t, configMaps(), plainObject("v1", "ConfigMap", a, "cm"))
	k.next(t, "a new object")
	for _, change := range []func(){
		func() { h.patch(t, configMaps(), a, "cm", `{"data":{"x":"y"}}`) },
		func() { h.patch(t, namespaces(), "", a, `{"metadata":{"labels":{"x":"y"}}}`) },
		func() { h.remove(t, configMaps(), a, "cm") },
	} {
		k.drain()
		change()
		k.next(t, "a change")
	}
	k.drain()
	h.create(t, configMaps(), plainObject("v1", "ConfigMap", b, "cm"))
	h.patch(t, namespaces(), "", b, `{"metadata":{"labels":{"x":"y"}}}`)
	h.create(t, leases(), plainObject("coordination.k8s.io/v1", "Lease", a, "never-placed"))
	h.create(t, configMaps(), plainObject("v1", "ConfigMap", a, "last"))
	k.next(t, "the last change")
	if n := k.drain(); n != 0 {
		t.Errorf("what was not asked for was told %d times", n)
	}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func leases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

// One object of one namespace is watched as that.
func TestSourceWatchOfOneObject(t *testing.T) {
	h := theHub(t)
	a, b := h.Namespace(t), h.Namespace(t)
	k := watching(t, sourceOf(t, h.Config(), kube.SourceOptions{}), query("ConfigMap", a, "cm"))
	for _, other := range [][2]string{{a, "other"}, {b, "cm"}, {a, "cm"}} {
		h.create(t, configMaps(), plainObject("v1", "ConfigMap", other[0], other[1]))
	}
	k.next(t, "the object")
	if n := k.drain(); n != 0 {
		t.Errorf("other objects were told %d times", n)
	}
}

// A kind that is defined later is noticed, in a namespace and by its name, and so
// is one that is no more.
func TestSourceWatchNoticesNewKinds(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	s := sourceOf(t, h.Config(), kube.SourceOptions{})
	late := schema.GroupVersionResource{Group: "late.example.com", Version: "v1", Resource: "lates"}
	content := watching(t, s, snapshot.Query{Namespace: ns})
	named := watching(t, s, snapshot.Query{Group: late.Group, Version: "v1", Kind: "Late", Namespace: ns, Name: "x"})
	h.define(t, late, "Late", "Namespaced")
	content.next(t, "a new kind")
	named.next(t, "the kind")
	for range 2 {
		content.drain()
		named.drain()
		obj := h.create(t, late, plainObject("late.example.com/v1", "Late", ns, "x"))
		content.next(t, "an object of the new kind")
		named.next(t, "the object")
		h.remove(t, late, ns, obj.GetName())
		content.next(t, "an object of the new kind that is gone")
	}
	if got, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err != nil || len(got) != 0 {
		t.Errorf("objects = %v, %v", got, err)
	}
	content.drain()
	h.undefined(t, late)
	content.next(t, "a kind that is no more")
	h.create(t, configMaps(), plainObject("v1", "ConfigMap", ns, "after"))
	content.next(t, "an object after that")
}

// What happened while a watch was interrupted, or its version expired, is told
// afterwards.
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
			k := watching(t, sourceOf(t, cfg, kube.SourceOptions{}), query("ConfigMap", ns, ""))
			struck := faults.Add(kubeenv.Rule{Verb: "watch", Path: "/configmaps", Times: 2, Fault: fault})
			eventually(t, "an interruption", func() bool { faults.CutWatches(); return struck() == 2 })
			k.drain()
			h.create(t, configMaps(), plainObject("v1", "ConfigMap", ns, name))
			k.next(t, "a change after an interruption")
		})
	}
}

// However many watch, there is one watch for each kind.
func TestSourceWatchesAreShared(t *testing.T) {
	h := theHub(t)
	var counts kubeenv.Counts
	cfg := h.Config()
	cfg.Wrap(counts.Wrap)
	s := sourceOf(t, cfg, kube.SourceOptions{})
	watching(t, s, snapshot.Query{Namespace: h.Namespace(t)})
	for range 5 {
		watching(t, s, snapshot.Query{Namespace: h.Namespace(t)}, query("Namespace", "", "x"))
	}
	eventually(t, "watching", func() bool { return counts.OpenWatches() > 20 })
	for call, n := range counts.Calls() {
		if call.Verb == "watch" && n != 1 || call.Verb == "list" && n != 1 {
			t.Errorf("six watches began %d times with %v, want once for each kind", n, call)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all watches", func() bool { return counts.OpenWatches() == 0 })
}

// The watches of a placement are for what its selectors name and for the content
// of the namespaces that it has.
func TestQueries(t *testing.T) {
	item := func(kind, name string) snapshot.Item {
		return snapshot.Item{ID: snapshot.ID{Version: "v1", Kind: kind, Name: name}}
	}
	got := kube.Queries([]snapshot.Selector{
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
	h := hubAt(t, server)
	ns := server.Namespace(t)
	s := sourceOf(t, server.Config(), kube.SourceOptions{})
	k := watching(t, s, snapshot.Query{Namespace: ns})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err == nil {
		t.Error("a server that is down has objects")
	} else {
		wantTransient(t, err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.drain()
	eventually(t, "creating an object", func() bool {
		_, err := h.in(ns, configMaps()).Create(t.Context(), plainObject("v1", "ConfigMap", ns, fmt.Sprint("cm", time.Now().UnixNano())), metav1.CreateOptions{})
		return err == nil
	})
	k.next(t, "a change after a restart")
}
