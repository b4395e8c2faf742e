package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// guard is a webhook whose server does not exist: while it is there no user creates
// or deletes an object of the group.
func guard(name, group string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": name},
		"webhooks": []any{map[string]any{
			"name": "guard." + group, "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": int64(1),
			"admissionReviewVersions": []any{"v1"},
			"clientConfig":            map[string]any{"service": map[string]any{"namespace": "nowhere", "name": "nothing"}},
			"rules": []any{map[string]any{
				"apiGroups": []any{group}, "apiVersions": []any{"*"}, "resources": []any{"*"}, "operations": []any{"CREATE", "DELETE"},
			}},
		}},
	}}
}

// clusterEnvelope carries objects that are in no namespace.
func clusterEnvelope(name string, objs map[string]*unstructured.Unstructured) *unstructured.Unstructured {
	data := map[string]any{}
	for key, obj := range objs {
		data[key] = obj.Object
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceEnvelope", "metadata": map[string]any{"name": name}, "data": data,
	}}
}

// TestOneSnapshotHasAKindItsObjectAndTheWebhookThatJudgesIt places a definition, an object of its kind and
// a webhook that refuses what comes after it, from an envelope, and removes them again.
func TestOneSnapshotHasAKindItsObjectAndTheWebhookThatJudgesIt(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	group := ns + ".example.com"
	definition, object, settings, webhook := crd(group, "widgets", "Widget"), widget(group, "Widget", ns), configMap(ns, "settings", "v", "1"), guard(ns, group)
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), snapshot.IDOf(webhook), backend.DeleteOptions{})
	})
	r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
	r.start()
	r.put(clusterEnvelope("guards", map[string]*unstructured.Unstructured{"webhook.yaml": webhook, "crd.yaml": definition}), object, settings)
	if status := r.run("place"); status.Run.State != stages.Completed {
		t.Fatalf("the run is %s: %s", status.Run.State, r.explain("place"))
	}
	is := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		live, err := c.Get(t.Context(), snapshot.IDOf(obj))
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatal(err)
		}
		return live
	}
	for _, obj := range []*unstructured.Unstructured{definition, object, settings, webhook} {
		if is(obj) == nil {
			t.Errorf("%s is not there", snapshot.IDOf(obj))
		}
	}
	if is(clusterEnvelope("guards", nil)) != nil {
		t.Error("the envelope itself was placed")
	}

	// A controller on the member is not done with the object yet.
	finalize := func(finalizers ...any) {
		obj := widget(group, "Widget", ns)
		delete(obj.Object, "spec")
		if len(finalizers) > 0 {
			obj.Object["metadata"].(map[string]any)["finalizers"] = finalizers
		}
		applied(t, c, obj, backend.Precondition{})
	}
	finalize("example.com/not-yet")
	if err := r.engine.DeletePlacement(t.Context(), ns, fleet.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the deletion of the object", func() bool { live := is(object); return live != nil && live.GetDeletionTimestamp() != nil })
	if is(webhook) != nil {
		t.Error("the webhook is there when the object is deleted")
	}
	if live := is(definition); live == nil || live.GetDeletionTimestamp() != nil || is(settings) == nil {
		t.Error("what the object may need is gone before it")
	}
	finalize()
	kubetest.Eventually(t, "the end of all", func() bool { return is(object) == nil && is(settings) == nil && is(definition) == nil })
}

// TestAnEnvelopeReachesNoFurtherThanItsNamespace has a ResourceEnvelope with an object that only says that it
// is in the namespace: what no server of ours can know, the member's refuses.
func TestAnEnvelopeReachesNoFurtherThanItsNamespace(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	group := ns + ".example.com"
	definition := crd(group, "realms", "Realm")
	if err := unstructured.SetNestedField(definition.Object, "Cluster", "spec", "scope"); err != nil {
		t.Fatal(err)
	}
	applied(t, c, definition, backend.Precondition{})
	realm := widget(group, "Realm", ns)
	kubetest.Eventually(t, "the kind", func() bool {
		_, err := c.Apply(t.Context(), widget(group, "Realm", ""), backend.ApplyOptions{Manager: "tester", Precondition: backend.Precondition{Absent: true}})
		return err == nil || errors.Is(err, backend.ErrConflict)
	})
	_, err := c.Apply(t.Context(), realm, backend.ApplyOptions{Manager: "tester"})
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "not namespaced") {
		t.Errorf("error %v, want one that is permanent", err)
	}
}
