package hub_test

import (
	"errors"
	"fmt"
	"testing"
)

// TestAMemberIsSelectedByItsName: a MemberCluster has its name in a label, even after another
// client changed or removed the label. An override that selects a member by the label changes only
// that member.
func TestAMemberIsSelectedByItsName(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	labelled := func() error {
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", s.name, i+1)
			u, err := s.get("mc/" + name)
			if err != nil {
				return err
			}
			if got := u.GetLabels()["kubernetes-fleet.io/member-name"]; got != name {
				return fmt.Errorf("%s has the label %q", name, got)
			}
		}
		return nil
	}
	s.eventually("both to have the label", labelled)
	s.patch("mc/NAME-1", `{metadata: {labels: {kubernetes-fleet.io/member-name: null}}}`)
	s.patch("mc/NAME-2", `{metadata: {labels: {kubernetes-fleet.io/member-name: NAME-1}}}`)
	s.eventually("both to have it again", labelled)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: NAME, namespace: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {kubernetes-fleet.io/member-name: NAME-2}}}]}
      jsonPatchOverrides: [{op: replace, path: /data/key, value: own}]`)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 0}")
	s.eventually("the second to have its own", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "own")()) })
}
