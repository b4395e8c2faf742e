package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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

// TestSnapshotWithKindObjectAndWebhook places a definition, an object of its
// kind and a webhook that refuses later objects, from an envelope, and removes them again.
func TestSnapshotWithKindObjectAndWebhook(t *testing.T) {
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
	if err := r.engine.Placement(ns).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
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

// TestAnEnvelopeReachesNoFurtherThanItsNamespace has a ResourceEnvelope with an object that only
// claims to be in the namespace: the hub cannot know its scope, so the member's server refuses
// it.
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

// TestAWebhookComesOnceItsServerIsHealthy places a webhook that fails closed beside the
// Deployment and the Service behind it. Until the Deployment is available, others create objects
// that the webhook would refuse.
func TestAWebhookComesOnceItsServerIsHealthy(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	group := ns + ".example.com"
	webhook := guard(ns, group)
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), snapshot.IDOf(webhook), backend.DeleteOptions{})
	})
	labels := map[string]any{"app": "hook"}
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "hook", "namespace": ns},
		"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "hook", "image": "hook:1"}}},
		}},
	}}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "hook", "namespace": ns},
		"spec": map[string]any{"selector": labels, "ports": []any{map[string]any{"port": int64(443)}}},
	}}
	r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
	r.start()
	r.put(clusterEnvelope("guards", map[string]*unstructured.Unstructured{"webhook.yaml": webhook, "crd.yaml": crd(group, "widgets", "Widget")}),
		deployment, service)
	r.begin("place")
	waits := snapshot.IDOf(webhook).String() + " waits until everything that is applied before it is healthy: Deployment.v1.apps " + ns + "/hook: "
	told := ""
	for end := time.Now().Add(20 * time.Second); !strings.Contains(told, waits); time.Sleep(100 * time.Millisecond) {
		x, err := r.engine.Run("place").Explain(t.Context(), "one")
		if told = fmt.Sprintf("%+v", x); err != nil || time.Now().After(end) {
			t.Fatalf("the run says %s, not %q: %v", told, waits, err)
		}
	}
	if _, err := c.Get(t.Context(), snapshot.IDOf(webhook)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the webhook is there before its server: %v", err)
	}
	applied(t, c, widget(group, "Widget", ns), backend.Precondition{})

	live, err := c.Get(t.Context(), snapshot.IDOf(deployment))
	if err != nil {
		t.Fatal(err)
	}
	one := int64(1)
	live.Object["status"] = map[string]any{
		"observedGeneration": live.GetGeneration(), "replicas": one, "updatedReplicas": one, "readyReplicas": one, "availableReplicas": one,
		"conditions": []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		},
	}
	deployments := dynamic.NewForConfigOrDie(s.Config()).Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	if _, err := deployments.Namespace(ns).UpdateStatus(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if status := r.wait("place"); status.Run.State != stages.Completed {
		t.Fatalf("the run is %s: %s", status.Run.State, r.explain("place"))
	}
	kubetest.Eventually(t, "the webhook refuses", func() bool {
		late := widget(group, "Widget", ns)
		late.SetName("late")
		_, err := c.Apply(t.Context(), late, backend.ApplyOptions{Manager: "tester"})
		return err != nil && strings.Contains(err.Error(), "guard."+group)
	})
}
