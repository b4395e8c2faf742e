package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/placement"
)

func pickFixed(names ...string) placement.Policy {
	return placement.Policy{Type: placement.PickFixed, ClusterNames: names}
}

// A policy with too few clusters returns the most frequent reasons first, and not all of them; a
// policy with enough clusters returns none.
func TestShortfall(t *testing.T) {
	zone := placement.SpreadConstraint{TopologyKey: "zone"}
	many := make([]string, 9)
	for i := range many {
		many[i] = fmt.Sprintf("c%d k%d!", i, i)
	}
	for name, tc := range map[string]struct {
		policy   placement.Policy
		clusters string
		want     string
	}{
		"enough":     {pickN(1), "a, b sick", ""},
		"none":       {pickN(0), "a", ""},
		"all named":  {pickFixed("a", "b"), "a, b k!v, c", ""},
		"a sick one": {pickFixed("a", "b"), "a, b sick, c", "only 1 of 2 clusters can be picked. Not picked: b, since it is not healthy: no heartbeat"},
		"no names":   {pickFixed(), "a, b", ""},
		"named": {
			pickFixed("b", "x", "a", "y", "d"), "a, b, c, d leaving",
			"only 2 of 5 clusters can be picked. Not picked: x, y, since it is not in the inventory; d, since it is leaving the fleet",
		},
		"no PickN":  {placement.Policy{}, "a sick", ""},
		"no others": {pickN(2), "a", "only 1 of 2 clusters can be picked: there are no others"},
		"reasons": {
			spreading(pickN(9), zone), "a zone=x, b zone=x, c zone=x, d zone=y, e zone=z sick, f, g",
			"only 3 of 9 clusters can be picked. Not picked: 2, since it has no label zone, over which the policy spreads; " +
				"1, since it is not healthy: no heartbeat; 1, since one more with zone=x would be 2 more than there are elsewhere, and the policy allows 1",
		},
		"many reasons": {
			pickN(1), strings.Join(many, ", "), "only 0 of 1 clusters can be picked. Not picked: " +
				"1, since the policy does not tolerate its taint k0:NoSchedule; 1, since the policy does not tolerate its taint k1:NoSchedule; " +
				"1, since the policy does not tolerate its taint k2:NoSchedule; 1, since the policy does not tolerate its taint k3:NoSchedule; " +
				"1, since the policy does not tolerate its taint k4:NoSchedule; and for 4 more reasons",
		},
	} {
		_, verdicts := decide(t, tc.policy, members(tc.clusters), placement.Previous{})
		if got := placement.Shortfall(tc.policy, verdicts); got != tc.want {
			t.Errorf("%s: %q\nwant %q", name, got, tc.want)
		}
	}
}
