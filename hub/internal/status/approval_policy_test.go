package status

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
)

// The object of a request has its policy, so that a reader of the object alone sees the policy, the
// starter of the run, the answers that count and the answers that are missing.
func TestRequestObjectHasItsApprovalPolicy(t *testing.T) {
	two := approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}}}
	strict := two
	strict.ForbidStarter = true
	for name, c := range map[string]struct {
		policy  approval.Policy
		answers []string // name/group, in their order
		counted string
		missing []approval.Quorum
	}{
		"no answer":                {policy: two, missing: two.Quorums},
		"one of two":               {policy: two, answers: []string{"ann/sre"}, counted: "ann", missing: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "release", Count: 1}}},
		"one of no group":          {policy: two, answers: []string{"joe/sales"}, missing: two.Quorums},
		"the starter":              {policy: strict, answers: []string{"carol/sre"}, missing: two.Quorums},
		"one too many of a group":  {policy: two, answers: []string{"a/sre", "b/sre", "c/sre"}, counted: "a b", missing: []approval.Quorum{{Group: "release", Count: 1}}},
		"one without a policy":     {missing: []approval.Quorum{{Count: 1}}},
		"the starter is no matter": {policy: two, answers: []string{"carol/release"}, counted: "carol", missing: []approval.Quorum{{Group: "sre", Count: 2}}},
	} {
		f := tutorialRequest(t)
		f.Request.Policy, f.Request.Starter = c.policy, approval.Identity{Name: "carol", Groups: []string{"sre"}}
		obj := askedOf(t, f)
		obj.SetGeneration(1)
		var decisions []any
		for _, a := range c.answers {
			who, group, _ := strings.Cut(a, "/")
			decisions = append(decisions, map[string]any{"verdict": "Approve", "by": approvedBy(who, group)})
		}
		if len(decisions) > 0 {
			obj.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True"}}, "decisions": decisions}
		}
		r, open, err := OpenRequest(obj)
		if err != nil || !open || r.Starter.Name != "carol" {
			t.Errorf("%s: started by %q, open %t, %v", name, r.Starter.Name, open, err)
		}
		var counted []string
		for _, d := range r.Decisions {
			counted = append(counted, d.By.Name)
		}
		missing := approval.Missing(r)
		if got := strings.Join(counted, " "); got != c.counted || len(missing) != len(c.missing) {
			t.Errorf("%s: counted %q, missing %+v", name, got, missing)
			continue
		}
		for i := range missing {
			if missing[i] != c.missing[i] {
				t.Errorf("%s: missing %+v, want %+v", name, missing, c.missing)
			}
		}
	}
}
