package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAnOverrideThatIsMadeAgainIsCountedAgain: if an override replaces an earlier override of the
// same name, its versions are counted from 0, even if the hub did not see the deletion. If a
// snapshot still needs a version of the earlier override, the count continues.
func TestAnOverrideThatIsMadeAgainIsCountedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		needed bool
		want   []string
	}{"not needed": {false, []string{"0"}}, "needed": {true, []string{"0", "1", "2"}}} {
		t.Run(name, func(t *testing.T) {
			w := newHubEnv(t, 1)
			first := w.start("hub")
			override := func(value int) *unstructured.Unstructured {
				return w.parse(fmt.Sprintf(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: o, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchExpressions: [{key: none, operator: DoesNotExist}]}}]}, jsonPatchOverrides: [{op: add, path: /data/more, value: "%d"}]}]}`, value))
			}
			versions := func(value int, want ...string) func() error {
				return func() error {
					list, err := w.on(w.client, "ros", w.name).List(t.Context(), metav1.ListOptions{})
					if err != nil {
						return err
					}
					var got []string
					latest := ""
					for _, u := range list.Items {
						got = append(got, u.GetLabels()["kubernetes-fleet.io/override-index"])
						if u.GetLabels()["kubernetes-fleet.io/is-latest-snapshot"] == "true" {
							latest += fmt.Sprint(u.Object["spec"].(map[string]any)["overrideSpec"])
						}
					}
					slices.Sort(got)
					if text := fmt.Sprintf("value:%d]", value); !slices.Equal(got, want) || !strings.Contains(latest, text) {
						return fmt.Errorf("the versions are %v, of which the latest is %s, want %v and %s", got, latest, want, text)
					}
					return nil
				}
			}
			w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
			w.create(override(0))
			w.eventually("the first version", versions(0, "0"))
			if c.needed {
				w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
				w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: $NAME}, spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}], strategy: {type: RollingUpdate}}}`)
				w.eventually("a snapshot to have it", func() error { return w.holds(w.members[0], "v1") })
				w.patch("crp", w.name, `{"spec":{"strategy":{"type":"External","rollingUpdate":null}}}`)
			}
			changed := override(1)
			live, err := w.on(w.client, "ro", w.name).Get(t.Context(), "o", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			live.Object["spec"] = changed.Object["spec"]
			if _, err := w.on(w.client, "ro", w.name).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventually("the second version", versions(1, "0", "1"))

			w.end(first)
			if err := w.on(w.client, "ro", w.name).Delete(t.Context(), "o", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventually("it to be gone", func() error {
				if _, err := w.on(w.client, "ro", w.name).Get(t.Context(), "o", metav1.GetOptions{}); err == nil {
					return fmt.Errorf("it is there")
				}
				return nil
			})
			w.create(override(2))
			w.start("hub2")
			w.eventually("the version of the new one", versions(2, c.want...))
		})
	}
}
