package approval

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// With DistinctApprovers a person approves for one group only, and the order of the approvals does not
// matter.
func TestDistinctApprovers(t *testing.T) {
	both := func(name string) Identity { return Identity{Name: name, Groups: []string{"ops", "security"}} }
	ops := func(name string) Identity { return Identity{Name: name, Groups: []string{"ops"}} }
	one := []Quorum{{"ops", 1}, {"security", 1}}
	for name, c := range map[string]struct {
		quorums  []Quorum
		by       []Identity
		refused  string
		outcome  Outcome
		missing  []Quorum
		together bool
	}{
		"one person in both groups":          {quorums: one, by: []Identity{both("ann")}, outcome: Pending, missing: []Quorum{{"security", 1}}},
		"the same without DistinctApprovers": {quorums: one, by: []Identity{both("ann")}, outcome: Accepted, together: true},
		"the second is in one group":         {quorums: one, by: []Identity{both("ann"), ops("bob")}, outcome: Accepted},
		"the first is in one group":          {quorums: one, by: []Identity{ops("bob"), both("ann")}, outcome: Accepted},
		"two of one group":                   {quorums: one, by: []Identity{ops("bob"), ops("eve")}, outcome: Pending, refused: "eve", missing: []Quorum{{"security", 1}}},
		"anybody and a group":                {quorums: []Quorum{{"", 1}, {"ops", 1}}, by: []Identity{ops("bob"), {Name: "joe"}}, outcome: Accepted},
		"two people for three approvals": {
			quorums: []Quorum{{"ops", 2}, {"security", 1}}, by: []Identity{both("ann"), both("bob")}, outcome: Pending, missing: []Quorum{{"security", 1}},
		},
		"a third who is only in the full group": {
			quorums: []Quorum{{"ops", 2}, {"security", 1}}, by: []Identity{both("ann"), both("bob"), ops("eve")}, outcome: Accepted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r := Request{Name: "r", Opened: now, Policy: Policy{Quorums: c.quorums, DistinctApprovers: !c.together}}
			got, refused := Outcome(""), ""
			for _, who := range c.by {
				var err error
				if r, got, err = Evaluate(r, Decision{Verdict: Approve, By: who, At: now}, now); err != nil {
					refused += who.Name
				}
			}
			if got != c.outcome || refused != c.refused {
				t.Errorf("%s, refused %q; want %s, refused %q", got, refused, c.outcome, c.refused)
			}
			if diff := cmp.Diff(c.missing, Missing(r)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// Wanted has the missing quorums, and the met ones in which an approval by another identity counts.
func TestWanted(t *testing.T) {
	one := []Quorum{{"ops", 1}, {"security", 1}}
	ann := Identity{Name: "ann", Groups: []string{"ops", "security"}}
	for name, c := range map[string]struct {
		policy Policy
		by     []Identity
		want   []Quorum
	}{
		"no policy":                      {want: []Quorum{{"", 1}}},
		"nobody has approved":            {policy: Policy{Quorums: one, DistinctApprovers: true}, want: one},
		"an approver in both groups":     {policy: Policy{Quorums: one, DistinctApprovers: true}, by: []Identity{ann}, want: []Quorum{{"ops", 0}, {"security", 1}}},
		"one in a single group":          {policy: Policy{Quorums: one, DistinctApprovers: true}, by: []Identity{{"bob", []string{"ops"}}}, want: one[1:]},
		"all have approved":              {policy: Policy{Quorums: one}, by: []Identity{ann}},
		"a member of a group is anybody": {policy: Policy{Quorums: []Quorum{{"ops", 1}, {"", 2}}}, by: []Identity{ann}, want: []Quorum{{"ops", 0}, {"", 1}}},
		"anybody frees a member": {
			policy: Policy{Quorums: []Quorum{{"", 1}, {"ops", 1}}, DistinctApprovers: true}, by: []Identity{ann}, want: []Quorum{{"", 0}, {"ops", 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Policy: c.policy}
			for _, who := range c.by {
				r.Decisions = append(r.Decisions, Decision{Verdict: Approve, By: who})
			}
			if diff := cmp.Diff(c.want, Wanted(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A request of distinct approvers is accepted exactly if there is an assignment of the approvers to
// the quorums in which each approver counts once.
func TestDistinctApproversAgreeWithAnAssignment(t *testing.T) {
	groups := []string{"", "a", "b", "c"}
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := Request{Policy: Policy{DistinctApprovers: true}}
		for _, g := range groups {
			if rng.IntN(2) == 0 {
				r.Policy.Quorums = append(r.Policy.Quorums, Quorum{g, 1 + rng.IntN(2)})
			}
		}
		for i := range rng.IntN(6) {
			who := Identity{Name: strconv.Itoa(i)}
			for _, g := range groups[1:] {
				if rng.IntN(2) == 0 {
					who.Groups = append(who.Groups, g)
				}
			}
			r.Decisions = append(r.Decisions, Decision{Verdict: Approve, By: who})
		}
		if got, want := outcome(&r) == Accepted, assignable(quorums(r.Policy), r.Decisions); got != want {
			t.Fatalf("seed %d: accepted %t, want %t: quorums %v, approvals %v", seed, got, want, r.Policy.Quorums, r.Decisions)
		}
	}
}

// assignable tries all assignments.
func assignable(open []Quorum, all []Decision) bool {
	lacking := 0
	for _, q := range open {
		lacking += q.Count
	}
	if lacking == 0 {
		return true
	}
	if len(all) < lacking {
		return false
	}
	for i, q := range open {
		if q.Count > 0 && all[0].By.in(q.Group) {
			open[i].Count--
			met := assignable(open, all[1:])
			open[i].Count++
			if met {
				return true
			}
		}
	}
	return assignable(open, all[1:])
}
