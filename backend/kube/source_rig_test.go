package kube_test

import (
	"context"
	"iter"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

// hub is an API server that is read.
type hub struct {
	*kubeenv.Server
	objects dynamic.Interface
}

func theHub(t testing.TB) hub {
	t.Helper()
	return hubAt(t, clusters.Server(t, "one"))
}

func hubAt(t testing.TB, s *kubeenv.Server) hub {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return hub{s, client}
}

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func crds() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// in returns the objects of a resource, in a namespace unless that is empty.
func (h hub) in(namespace string, r schema.GroupVersionResource) dynamic.ResourceInterface {
	if namespace == "" {
		return h.objects.Resource(r)
	}
	return h.objects.Resource(r).Namespace(namespace)
}

// create creates an object, and deletes it when the test ends.
func (h hub) create(t testing.TB, r schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := h.in(obj.GetNamespace(), r).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = h.in(obj.GetNamespace(), r).Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
	})
	return made
}

// remove deletes an object, which may be waited for.
func (h hub) remove(t testing.TB, r schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := h.in(namespace, r).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (h hub) patch(t testing.TB, r schema.GroupVersionResource, namespace, name, merge string, sub ...string) {
	t.Helper()
	if _, err := h.in(namespace, r).Patch(t.Context(), name, "application/merge-patch+json", []byte(merge), metav1.PatchOptions{}, sub...); err != nil {
		t.Fatal(err)
	}
}

// define installs the definition of a kind without a schema, and waits until it
// is served. It is gone when the test has ended.
func (h hub) define(t *testing.T, r schema.GroupVersionResource, kind, scope string) {
	t.Helper()
	h.create(t, crds(), definition(r, kind, scope))
	namespace := ""
	if scope == "Namespaced" {
		namespace = metav1.NamespaceDefault
	}
	probe := plainObject(schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), kind, namespace, "probe")
	eventually(t, "serving "+kind, func() bool { // what is left of an earlier definition can be listed, and takes nothing
		_, err := h.in(namespace, r).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
	t.Cleanup(func() { h.undefined(t, r) })
}

// undefined waits until a definition is gone and nothing serves the kind, so that the
// next test may make it.
func (h hub) undefined(t *testing.T, r schema.GroupVersionResource) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	name := r.Resource + "." + r.Group
	_ = h.objects.Resource(crds()).Delete(ctx, name, metav1.DeleteOptions{})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, defined := h.objects.Resource(crds()).Get(ctx, name, metav1.GetOptions{})
		_, served := h.objects.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(defined) && apierrors.IsNotFound(served) || ctx.Err() != nil {
			return
		}
		<-tick.C
	}
}

func definition(r schema.GroupVersionResource, kind, scope string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group": r.Group, "scope": scope,
			"names": map[string]any{"kind": kind, "plural": r.Resource},
			"versions": []any{map[string]any{
				"name": r.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(r.Resource + "." + r.Group)
	return crd
}

// plainObject returns an object that has a name only.
func plainObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func sourceOf(t testing.TB, cfg *rest.Config, o kube.SourceOptions) *kube.Source {
	t.Helper()
	s, err := kube.NewSource(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// idsOf returns the names of what a source yields.
func idsOf(ctx context.Context, s snapshot.Source, q snapshot.Query) (ids []string, err error) {
	for obj, err := range s.Objects(ctx, q) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, snapshot.IDOf(obj).String())
	}
	return ids, nil
}

// ticks follows what yields nothing but that something changed.
type ticks struct {
	told chan struct{}
	end  chan error
	stop context.CancelFunc
}

func ticksOf(t *testing.T, of func(context.Context) iter.Seq2[struct{}, error]) *ticks {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	k := &ticks{told: make(chan struct{}, 1000), end: make(chan error, 1), stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range of(ctx) {
			if err != nil {
				k.end <- err
				return
			}
			k.told <- struct{}{}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return k
}

// next waits until something is told.
func (k *ticks) next(t *testing.T, why string) {
	t.Helper()
	timeout := time.NewTimer(2 * time.Minute)
	defer timeout.Stop()
	select {
	case <-k.told:
	case err := <-k.end:
		t.Fatalf("%s: the watch ended: %v", why, err)
	case <-timeout.C:
		t.Fatalf("%s: nothing was told", why)
	}
}

// drain forgets what was told and returns how often.
func (k *ticks) drain() (n int) {
	for {
		select {
		case <-k.told:
			n++
		default:
			return n
		}
	}
}
