package hub_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub"
)

// TestAResourcePlacementPicksMembersWithItsNamespace: if the namespaces of members are collected, a
// member without the placement's namespace is not picked, and the policy snapshot gives the reason,
// until the member has the namespace. If the namespaces are no longer collected, the placed objects
// stay.
func TestAResourcePlacementPicksMembersWithItsNamespace(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	with, without := w.members[0], w.members[1]
	namespace := w.parse(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.create(namespace.DeepCopy())
	w.createOn(with.client, namespace.DeepCopy())
	first := w.start("hub", func(c *hub.Config) { c.MemberNamespaces = true })
	w.eventually("the namespaces to be collected", func() error {
		for _, m := range w.members {
			obj, err := w.at("mc").Get(t.Context(), m.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			all, _, _ := unstructured.NestedStringMap(obj.Object, "status", "namespaces")
			if _, has := all[w.name]; has != (m == with) || all["kube-system"] != "" || len(all) == 0 {
				return fmt.Errorf("%s has %v", m.name, all)
			}
		}
		return nil
	})
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: web, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 0}}
`)
	w.eventually("the member with the namespace to have it", func() error { return w.holds(with, "v1") })
	w.eventually("it alone to be picked", func() error { return w.picks(with.name) })

	w.createOn(without.client, namespace.DeepCopy())
	w.patch("mc", without.name, `{"metadata":{"labels":{"asked":"again"}}}`)
	w.eventually("the other one to have it, too", func() error { return w.holds(without, "v1") })
	w.eventually("both to be picked", func() error { return w.picks(with.name, without.name) })

	w.end(first)
	w.start("hub2")
	w.eventually("the namespaces to be gone", func() error {
		obj, err := w.at("mc").Get(t.Context(), with.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedMap(obj.Object, "status", "namespaces"); found {
			return fmt.Errorf("%v", obj.Object["status"])
		}
		return nil
	})
	if err := w.picks(with.name, without.name); err != nil {
		t.Error(err)
	}
}

// TestAResourcePlacementFollowsItsNamespace: once a placement has brought a namespace to a member,
// placements of that namespace follow. They do not wait until the members are asked again, which
// happens every 2 minutes.
func TestAResourcePlacementFollowsItsNamespace(t *testing.T) {
	w := newHubEnv(t, 2)
	w.start("hub", func(c *hub.Config) { c.MemberNamespaces = true })
	w.eventually("the namespaces to be collected", func() error {
		for _, m := range w.members {
			obj, err := w.at("mc").Get(t.Context(), m.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if all, _, _ := unstructured.NestedStringMap(obj.Object, "status", "namespaces"); len(all) == 0 {
				return fmt.Errorf("%s has none", m.name)
			}
		}
		return nil
	})
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: web, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 0}}
`)
	w.eventually("none to be picked", func() error { return w.picks() })
	since := time.Now()
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME, selectionScope: NamespaceOnly}]
  policy: {placementType: PickFixed, clusterNames: [` + w.members[0].name + `]}
`)
	w.eventually("the member with the namespace to have it", func() error { return w.holds(w.members[0], "v1") })
	if took := time.Since(since); took > 45*time.Second {
		t.Errorf("it took %v", took)
	}
	w.eventually("it alone to be picked", func() error { return w.picks(w.members[0].name) })

	since = time.Now()
	if err := w.at("crp").Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the namespace to be gone from the member's status", func() error {
		obj, err := w.at("mc").Get(t.Context(), w.members[0].name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if all, _, _ := unstructured.NestedStringMap(obj.Object, "status", "namespaces"); slices.Contains(slices.Collect(maps.Keys(all)), w.name) {
			return fmt.Errorf("it is in %v", all)
		}
		return nil
	})
	if took := time.Since(since); took > 45*time.Second {
		t.Errorf("it took %v", took)
	}
}

// picks fails unless the status of the placement web names these clusters.
func (w *hubEnv) picks(want ...string) error {
	obj, err := w.on(w.client, "rp", w.name).Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var got []string
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "placementStatuses")
	for _, one := range all {
		if name, ok := one.(map[string]any)["clusterName"].(string); ok {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the status names %v, want %v", got, want)
	}
	return nil
}
