package main

import (
	"context"
	"iter"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/snapshot"
)

// brokenTag is the tag of images that never come up in a simulated cluster.
const brokenTag = ":broken"

// simulate is the controllers of a simulated member: a Deployment is what it should be at once, unless an
// image of it does not come up.
func simulate(obj *unstructured.Unstructured) map[string]any {
	if obj.GroupVersionKind().GroupKind() != deployments.GroupKind() {
		status, _, _ := unstructured.NestedMap(obj.Object, "status")
		return status
	}
	wanted, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	status := map[string]any{"observedGeneration": obj.GetGeneration(), "replicas": wanted, "updatedReplicas": wanted}
	available := map[string]any{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."}
	if !broken(obj) {
		status["readyReplicas"], status["availableReplicas"] = wanted, wanted
		available = holds("Available", "MinimumReplicasAvailable", "Deployment has minimum availability.", time.Now())
	}
	status["conditions"] = []any{available}
	return status
}

// broken reports whether an image of a Deployment does not come up.
func broken(deployment *unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		m, _ := c.(map[string]any)
		if image, _ := m["image"].(string); strings.HasSuffix(image, brokenTag) {
			return true
		}
	}
	return false
}

// managedCluster is what stands for a member on the hub.
func managedCluster(name string, labels map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hubAcceptsClient": true}}}
	obj.SetGroupVersionKind(managedClusters.GroupVersionKind)
	obj.SetName(name)
	obj.SetLabels(labels)
	return obj
}

// joinedStatus is the status of a ManagedCluster of which there is a cluster, which can be reached or not.
func joinedStatus(now time.Time, reached bool) map[string]any {
	available := holds("ManagedClusterConditionAvailable", "ManagedClusterAvailable", "Managed cluster is available", now)
	if !reached {
		available["status"], available["reason"], available["message"] = "False", "ManagedClusterUnreachable", "Managed cluster does not answer"
	}
	return map[string]any{"conditions": []any{
		holds("HubAcceptedManagedCluster", "HubClusterAdminAccepted", "Accepted by hub cluster admin", now),
		holds("ManagedClusterJoined", "ManagedClusterJoined", "Managed cluster joined", now),
		available,
	}}
}

// clusterSource is a simulated hub.
type clusterSource struct {
	fleet   *durable.Fleet
	cluster *memory.Cluster
}

// change changes the hub, and stores what is changed.
func (s clusterSource) change(ctx context.Context, how func(*memory.Cluster) error) error {
	return s.fleet.Change(ctx, s.cluster.Name(), how)
}

func (s clusterSource) update(ctx context.Context, obj *unstructured.Unstructured) error {
	return s.change(ctx, func(c *memory.Cluster) error { return c.Update(obj) })
}

// Objects yields the objects that match a query.
func (s clusterSource) Objects(_ context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for _, obj := range s.cluster.List(q.Namespace) {
			if matches(q, obj) && !yield(obj, nil) {
				return
			}
		}
	}
}

func matches(q snapshot.Query, obj *unstructured.Unstructured) bool {
	gvk := obj.GroupVersionKind()
	if q.Kind == "" {
		return obj.GetNamespace() != "" // what is in the namespace, not the namespace itself
	}
	return gvk.Group == q.Group && gvk.Kind == q.Kind && (q.Name == "" || obj.GetName() == q.Name)
}

// SetStatus makes status that of an application.
func (s clusterSource) SetStatus(ctx context.Context, app *unstructured.Unstructured, status map[string]any) error {
	return s.change(ctx, func(c *memory.Cluster) error { return c.SetStatus(snapshot.IDOf(app), status) })
}

// SetFinalizers makes finalizers those of an application.
func (s clusterSource) SetFinalizers(ctx context.Context, app *unstructured.Unstructured, finalizers []string) error {
	app = app.DeepCopy()
	app.SetFinalizers(finalizers)
	return s.update(ctx, app)
}
