package hub_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMemberPropertiesDecideTheSelection plays a placement that selects members with many nodes,
// the largest first. A small member and a member with a taint are left out; the second is picked
// with a toleration. The next run releases a member that is leaving. Each time the policy snapshot
// explains the decision.
func TestMemberPropertiesDecideTheSelection(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 4)
	small, middle, large, tainted := w.members[0], w.members[1], w.members[2], w.members[3]
	for m, nodes := range map[*member]int{small: 2, middle: 10, large: 20, tainted: 40} {
		w.patch("mc", m.name, fmt.Sprintf(`{"status":{"properties":{"kubernetes-fleet.io/node-count":{"value":"%d"}}}}`, nodes), "status")
	}
	w.patch("mc", tainted.name, `{"spec":{"taints":[{"key":"dedicated","value":"batch","effect":"NoSchedule"}]}}`)
	w.patch("mc", large.name, `{"metadata":{"finalizers":["example.com/being-drained"]}}`)
	w.start("hub")
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy:
    placementType: PickN
    numberOfClusters: 1
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
          - propertySelector: {matchExpressions: [{name: kubernetes-fleet.io/node-count, operator: Ge, values: ["10"]}]}
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          preference: {propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}}
  strategy: {type: External}
`)
	w.staged("")

	w.finish("run-1", "")
	w.onlyThese("v1", large)
	w.explains(0, map[*member]string{small: "matches none of the required terms", middle: "others come before it", large: "picked", tainted: "dedicated"})

	w.patch("crp", w.name, `{"spec":{"policy":{"numberOfClusters":3,"tolerations":[{"key":"dedicated","operator":"Exists"}]}}}`)
	w.explains(1, map[*member]string{small: "matches none of the required terms", middle: "picked", large: "picked", tainted: "picked"})
	w.finish("run-2", "")
	w.onlyThese("v1", middle, large, tainted)

	if err := w.at("mc").Delete(t.Context(), large.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.explains(1, map[*member]string{small: "matches none of the required terms", large: "leaving"})
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "False")
	w.finish("run-3", "")
	w.onlyThese("v1", middle, tainted)
}

// onlyThese fails unless these members, and no others, have the ConfigMap.
func (w *hubEnv) onlyThese(value string, members ...*member) {
	w.t.Helper()
	want := map[*member]string{}
	for _, m := range members {
		want[m] = value
	}
	for _, m := range w.members {
		if err := w.holds(m, want[m]); err != nil {
			w.t.Error(err)
		}
	}
}

// explains waits until a policy snapshot has the wanted reason for each member.
func (w *hubEnv) explains(index int, want map[*member]string) {
	w.t.Helper()
	name := fmt.Sprintf("%s-%d", w.name, index)
	w.eventually("the policy snapshot "+name+" to explain itself", func() error {
		obj, err := w.at("csps").Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		said := map[string]string{}
		targets, _, _ := unstructured.NestedSlice(obj.Object, "status", "targetClusters")
		for _, target := range targets {
			m := target.(map[string]any)
			said[fmt.Sprint(m["clusterName"])] = fmt.Sprint(m["reason"])
		}
		for m, words := range want {
			if !strings.Contains(said[m.name], words) {
				return fmt.Errorf("of %s it says %q, want %q", m.name, said[m.name], words)
			}
		}
		return nil
	})
}
