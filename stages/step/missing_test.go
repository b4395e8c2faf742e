package step

import (
	"testing"

	"github.com/slipway-dev/slipway/approval"
)

// The message of an open gate names the missing approvals, and the groups in which an approval
// counts although they lack none.
func TestTheMessageOfMissingApprovals(t *testing.T) {
	both := approval.Identity{Name: "ann", Groups: []string{"sre", "dev"}}
	for want, policy := range map[string]approval.Policy{
		"1 more approval by dev needed, an approval by sre counts, too":     {Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "dev", Count: 1}}, DistinctApprovers: true},
		"1 more approval by dev needed, an approval by anybody counts, too": {Quorums: []approval.Quorum{{Count: 1}, {Group: "dev", Count: 1}}, DistinctApprovers: true},
		"1 more approval needed":         {Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Count: 2}}},
		"2 more approvals by dev needed": {Quorums: []approval.Quorum{{Group: "dev", Count: 3}}},
	} {
		r := approval.Request{Policy: policy, Decisions: []approval.Decision{{Verdict: approval.Approve, By: both}}}
		if got := missing(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
