// Package kubetest contains helpers for the tests of the backends on API servers.
package kubetest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// Hub is an API server for reading.
type Hub struct {
	*kubeenv.Server
	Objects dynamic.Interface
}

// HubAt returns the hub on a server.
func HubAt(t testing.TB, s *kubeenv.Server) Hub {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return Hub{s, client}
}

// ConfigMaps is the resource of ConfigMaps.
func ConfigMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// CRDs is the resource of CustomResourceDefinitions.
func CRDs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// In returns the objects of a resource, in a namespace unless that is empty.
func (h Hub) In(namespace string, r schema.GroupVersionResource) dynamic.ResourceInterface {
	if namespace == "" {
		return h.Objects.Resource(r)
	}
	return h.Objects.Resource(r).Namespace(namespace)
}

// Create creates an object, and deletes it when the test ends.
func (h Hub) Create(t testing.TB, r schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := h.In(obj.GetNamespace(), r).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = h.In(obj.GetNamespace(), r).Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
	})
	return made
}

// Remove deletes an object and may wait until it is gone.
func (h Hub) Remove(t testing.TB, r schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := h.In(namespace, r).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Patch patches an object or a subresource of it by a merge patch.
func (h Hub) Patch(t testing.TB, r schema.GroupVersionResource, namespace, name, merge string, sub ...string) {
	t.Helper()
	if _, err := h.In(namespace, r).Patch(t.Context(), name, "application/merge-patch+json", []byte(merge), metav1.PatchOptions{}, sub...); err != nil {
		t.Fatal(err)
	}
}

// Define installs the definition of a kind without a schema, and waits until it is served. It is
// removed at the end of the test.
func (h Hub) Define(t *testing.T, r schema.GroupVersionResource, kind, scope string) {
	t.Helper()
	h.Create(t, CRDs(), Definition(r, kind, scope))
	namespace := ""
	if scope == "Namespaced" {
		namespace = metav1.NamespaceDefault
	}
	probe := Object(schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), kind, namespace, "probe")
	Eventually(t, "serving "+kind, func() bool { // an earlier definition may still answer lists
		_, err := h.In(namespace, r).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
	t.Cleanup(func() { h.Undefined(t, r) })
}

// Undefined waits until a definition is gone and the kind is not served, so that the next test
// may create it.
func (h Hub) Undefined(t *testing.T, r schema.GroupVersionResource) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	name := r.Resource + "." + r.Group
	_ = h.Objects.Resource(CRDs()).Delete(ctx, name, metav1.DeleteOptions{})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, defined := h.Objects.Resource(CRDs()).Get(ctx, name, metav1.GetOptions{})
		_, served := h.Objects.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(defined) && apierrors.IsNotFound(served) || ctx.Err() != nil {
			return
		}
		<-tick.C
	}
}

// Definition returns the definition of a kind without a schema.
func Definition(r schema.GroupVersionResource, kind, scope string) *unstructured.Unstructured {
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

// Object returns an object with only a name.
func Object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// Role lets a user read kinds, in all namespaces.
func (h Hub) Role(t *testing.T, user string, rules ...any) {
	t.Helper()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	role := Object(rbac.String(), "ClusterRole", "", user)
	role.Object["rules"] = rules
	h.Create(t, rbac.WithResource("clusterroles"), role)
	binding := Object(rbac.String(), "ClusterRoleBinding", "", user)
	binding.Object["roleRef"] = map[string]any{"apiGroup": rbac.Group, "kind": "ClusterRole", "name": user}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": rbac.Group, "kind": "User", "name": user}}
	h.Create(t, rbac.WithResource("clusterrolebindings"), binding)
}

// Rule returns a rule of a role.
func Rule(verbs []any, group string, resources ...any) any {
	return map[string]any{"verbs": verbs, "apiGroups": []any{group}, "resources": resources}
}
