package hub_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// If a placement has statusReportingScope NamespaceAccessible, the part of its status about the
// selected namespace is also in that namespace, and is deleted with the placement. Another
// namespace can no longer be selected.
func TestAStatusIsShownInTheNamespaceThatIsSelected(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("is choosing a different namespace")
	w.start("hub")
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: $NAME-role}}`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  statusReportingScope: NamespaceAccessible
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: $NAME}
  - {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: $NAME-role}
`)
	w.await("crp", w.name, "ClusterResourcePlacementAvailable", "True")
	w.await("crp", w.name, "ClusterResourcePlacementStatusSynced", "True")
	replicas := w.on(w.client, "crps", w.name)
	w.eventually("the status in the namespace", func() error {
		placed, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		u, err := replicas.Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !metav1.IsControlledBy(u, placed) {
			t.Fatalf("it is owned by %v", u.GetOwnerReferences())
		}
		resources, _, _ := unstructured.NestedSlice(u.Object, "sourceStatus", "selectedResources")
		clusters, _, _ := unstructured.NestedSlice(u.Object, "sourceStatus", "placementStatuses")
		conditions, _, _ := unstructured.NestedSlice(u.Object, "sourceStatus", "conditions")
		var told []string
		for _, c := range conditions {
			c := c.(map[string]any)
			told = append(told, fmt.Sprintf("%s=%s%s", c["type"], c["status"], c["message"]))
		}
		if len(resources) != 2 || len(clusters) != 1 || !strings.Contains(strings.Join(told, " "), "ClusterResourcePlacementAvailable=True") {
			return fmt.Errorf("%d resources, %d clusters, %v", len(resources), len(clusters), told)
		}
		if strings.Contains(strings.Join(told, " "), "StatusSynced") {
			t.Errorf("the replica tells of itself: %v", told)
		}
		if at, _, _ := unstructured.NestedString(u.Object, "lastUpdatedTime"); at == "" {
			t.Error("it has no time")
		}
		return nil
	})

	same := func() (err error) {
		placed, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		u, err := replicas.Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		replica, _, _ := unstructured.NestedMap(u.Object, "sourceStatus")
		whole, _, _ := unstructured.NestedMap(placed.Object, "status")
		for _, st := range []map[string]any{replica, whole} { // without the parts about other objects
			delete(st, "selectedResources")
			delete(st, "selectedResourcesTotal")
			conditions, _, _ := unstructured.NestedSlice(st, "conditions")
			st["conditions"] = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "ClusterResourcePlacementStatusSynced" })
		}
		if !reflect.DeepEqual(replica, whole) {
			return fmt.Errorf("it is %v, want %v", replica, whole)
		}
		return nil
	}
	w.eventually("all that is well with its messages", same)
	if err := replicas.Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the status to be shown again", same)

	before, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.patch("crp", w.name, `{"spec":{"resourceSelectors":[{"group":"","version":"v1","kind":"Namespace","name":"default"}]}}`)
	w.eventually("the other namespace to be refused", func() error {
		u, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		told, why := conditionOf(u, "ClusterResourcePlacementScheduled")
		if told != "False" || !strings.HasPrefix(why, "InvalidResourceSelectors: ") || !strings.Contains(why, "choosing a different namespace 'default' from what was originally picked '"+w.name+"'") {
			return errors.New(told + " " + why)
		}
		for _, st := range []map[string]any{before.Object, u.Object} {
			conditions, _, _ := unstructured.NestedSlice(st, "status", "conditions")
			conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "ClusterResourcePlacementScheduled" })
			_ = unstructured.SetNestedSlice(st, conditions, "status", "conditions")
		}
		if !reflect.DeepEqual(before.Object["status"], u.Object["status"]) {
			t.Errorf("the rest of the status became %v, and was %v", u.Object["status"], before.Object["status"])
		}
		return nil
	})
	if err := w.holds(w.members[0], "v1"); err != nil {
		t.Errorf("what was placed is gone: %v", err)
	}
}

// An object of that name from another client is not changed, and the placement reports it.
func TestAStatusInANamespaceDoesNotReplaceAnothersObject(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.start("hub")
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementStatus, metadata: {name: $NAME, namespace: $NAME}, sourceStatus: {observedResourceIndex: "7"}}`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  statusReportingScope: NamespaceAccessible
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
`)
	w.await("crp", w.name, "ClusterResourcePlacementStatusSynced", "False")
	w.await("crp", w.name, "ClusterResourcePlacementAvailable", "True")
	u, err := w.on(w.client, "crps", w.name).Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if index, _, _ := unstructured.NestedString(u.Object, "sourceStatus", "observedResourceIndex"); index != "7" {
		t.Errorf("it has become %v", u.Object)
	}
}
