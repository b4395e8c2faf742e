package hub_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// TestOverridesApplyFromTheFirst: a placement and a run have the overrides that were created before
// them, even if the hub sees the placement or the run first.
func TestOverridesApplyFromTheFirst(t *testing.T) {
	t.Parallel()
	override := func(value string) string {
		return `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: $NAME}
spec:
  placement: {name: $NAME}
  clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, overrideType: JSONPatch, jsonPatchOverrides: [{op: add, path: /metadata/annotations, value: {seen: ` + value + `}}]}]}`
	}
	for name, external := range map[string]bool{"a new placement": false, "a run": true} {
		t.Run(name, func(t *testing.T) {
			w := newHubEnv(t, 1)
			first := w.start("hub")
			if external {
				w.place("v1")
				w.staged("")
				w.createText(override("old"))
				w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
				w.run(w.name+"-old", "")
				w.await("csur", w.name+"-old", "Succeeded", "True")
			}
			// The watch of overrides reports nothing any more; lists are answered.
			blind := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if kubeenv.CallOf(r).Verb == "list" && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
					return next.RoundTrip(r)
				}
				return nil, errors.New("the network is down")
			}
			first.faults.Add(kubeenv.Rule{Verb: "list", Path: "clusterresourceoverrides", Times: -1, Fault: blind})
			first.faults.Add(kubeenv.Rule{Verb: "watch", Path: "clusterresourceoverrides", Times: -1, Fault: blind})
			first.faults.CutWatches()
			time.Sleep(time.Second)
			if external {
				w.patch("cro", w.name, `{"spec":{"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[]},"overrideType":"JSONPatch","jsonPatchOverrides":[{"op":"add","path":"/metadata/annotations","value":{"seen":"new"}}]}]}}}`)
				w.run(w.name+"-new", "")
			} else {
				w.createText(override("new"))
				w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
				w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: $NAME},
  spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}], policy: {placementType: PickAll}, strategy: {type: RollingUpdate}}}`)
			}
			time.Sleep(2 * time.Second)
			if external {
				if err := w.condition("csur", w.name+"-new", "Initialized", "True"); err == nil {
					t.Error("the run has begun without the change of the override")
				}
			} else if _, err := w.on(w.members[0].client, "ns", "").Get(t.Context(), w.name, getOptions()); err == nil {
				t.Error("the namespace was placed without the override")
			}
			first.faults.Heal()
			w.eventually("the override to apply", func() error {
				u, err := w.on(w.members[0].client, "ns", "").Get(t.Context(), w.name, getOptions())
				if err == nil && u.GetAnnotations()["seen"] != "new" {
					err = errors.New("it does not")
				}
				return err
			})
		})
	}
}
