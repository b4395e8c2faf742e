package fleet_test

import (
	"testing"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// A policy that the engine does not carry out is refused before anything is
// written, not carried out in part.
func TestPoliciesThatAreNotSupportedYetAreRefused(t *testing.T) {
	w, e := declared(t, nil)
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   []string
	}{
		"a number": {
			placement.Policy{Type: placement.PickN, NumberOfClusters: new(1)},
			[]string{"policy.placementType: Forbidden: PickN is not supported by this engine yet; use PickAll or PickFixed"},
		},
		"terms and tolerations": {
			placement.Policy{RequiredTerms: []placement.Term{{}}, Tolerations: []placement.Toleration{{Operator: placement.Exists}}},
			[]string{"policy.requiredTerms: Forbidden: not supported by this engine yet", "policy.tolerations: Forbidden: not supported by this engine yet"},
		},
	} {
		p := fleet.Placement{Name: "other", Policy: tc.policy}
		refused(t, w.store, name, func() error { return e.PutPlacement(t.Context(), p) }, tc.want...)
	}
}
