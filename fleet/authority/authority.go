package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// combination asks members and combines their answers into one decision.
type combination struct {
	members []*member
	// settled reports whether the missing answers make no difference.
	settled func(*approval.Request, []*answer) bool
	// verdict combines the answers into a decision; some answers may be missing. A decision without
	// a verdict means no decision.
	verdict func(*approval.Request, []*answer) approval.Decision
}

// Decide asks the members and returns their decision, or their errors if they reach none.
func (c *combination) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	answers := ask(ctx, c.members, r, func(all []*answer) bool { return c.settled(&r, all) })
	if d := c.verdict(&r, answers); d.Verdict != "" {
		return d, nil
	}
	return approval.Decision{}, problems(ctx, answers)
}

// NextAsk returns when the first member asks to be called.
func (c *combination) NextAsk(r approval.Request) time.Duration { return nextOf(c.members, r) }

// All approves if all members approve, by one joint decision: see the documentation of the package.
// The decision holds only at a point in time if the approval of any member does. All rejects if one
// member rejects, by that member's decision. Without members it approves nothing.
//
// The approvals must be given at the same time: every call asks every member, even a member that
// approved before.
func All(members ...approval.Authority) approval.Authority {
	return &combination{
		members: newMembers(members),
		settled: func(_ *approval.Request, all []*answer) bool { return slices.ContainsFunc(all, (*answer).rejects) },
		verdict: func(r *approval.Request, all []*answer) approval.Decision {
			if i := slices.IndexFunc(all, (*answer).rejects); i >= 0 {
				return all[i].Decision
			}
			if slices.ContainsFunc(all, func(a *answer) bool { return !a.approves() || isStarter(r, &a.Decision) }) {
				return approval.Decision{}
			}
			return joint(r, all, commonGroups(all))
		},
	}
}

// Any approves if one member approves, by its decision. A lasting approval takes precedence over an
// approval that holds only at a point in time. Any rejects if all members reject, by the decision
// of the first.
func Any(members ...approval.Authority) approval.Authority {
	lasting := func(r *approval.Request) func(*answer) bool {
		return func(a *answer) bool { return a.approves() && !a.PointInTime && counts(r, &a.Decision) }
	}
	return &combination{
		members: newMembers(members),
		settled: func(r *approval.Request, all []*answer) bool { return slices.ContainsFunc(all, lasting(r)) },
		verdict: func(r *approval.Request, all []*answer) approval.Decision {
			if i := slices.IndexFunc(all, lasting(r)); i >= 0 {
				return all[i].Decision
			}
			if slices.ContainsFunc(all, func(a *answer) bool { return !a.rejects() }) {
				return chosen(r, all, (*answer).approves)
			}
			return chosen(r, all, (*answer).rejects)
		},
	}
}

// First returns the verdict of the first member that has one: later members are substitutes for
// earlier ones. A member that fails, or does not answer in time, has no verdict, so a member that
// must not be passed over belongs into [All]. If a member's decision is already recorded, it does
// not count as a verdict, so that a later member's approval can count in addition.
func First(members ...approval.Authority) approval.Authority {
	return &combination{
		members: newMembers(members),
		settled: func(r *approval.Request, all []*answer) bool {
			for _, a := range all {
				switch {
				case !a.came:
					return false
				case a.err == nil && a.Verdict != "" && counts(r, &a.Decision):
					return true
				}
			}
			return true
		},
		verdict: func(r *approval.Request, all []*answer) approval.Decision {
			return chosen(r, all, func(a *answer) bool { return a.approves() || a.rejects() })
		},
	}
}

// chosen returns the first decision among the matching answers that counts. If no decision counts,
// it returns the first decision of an identity that has not decided yet, so that the engine
// refuses that decision with a reason.
func chosen(r *approval.Request, all []*answer, match func(*answer) bool) approval.Decision {
	for _, usable := range []func(*approval.Request, *approval.Decision) bool{counts, isNew} {
		if i := slices.IndexFunc(all, func(a *answer) bool { return match(a) && usable(r, &a.Decision) }); i >= 0 {
			return all[i].Decision
		}
	}
	return approval.Decision{}
}

// perGroup has an authority for each group.
type perGroup map[string]*member

// PerGroup asks the authorities of the groups in which an approval counts now: see approval.Wanted.
// The key "" is for the quorum of any identity. An authority answers only for its own group,
// whatever other groups its identity is in. An answer of an identity outside the group is an error.
//
// A rejection takes precedence over approvals, and a lasting approval over approvals that hold only
// at a point in time. PerGroup returns approvals that hold only at a point in time together, in one
// decision that counts once in each of their groups. If the policy has DistinctApprovers, such a
// decision would count in one group only. PerGroup then returns one of the approvals if the others
// are not needed beside it, or else an error: at most one group of such a policy may have an authority whose
// approvals hold only at a point in time.
func PerGroup(groups map[string]approval.Authority) approval.Authority {
	p := perGroup{}
	for group, a := range groups {
		name := "any group"
		if group != "" {
			name = "group " + group
		}
		p[group] = newMember(name, ofGroup{group, a})
	}
	return p
}

// ofGroup is an authority that answers for one group.
type ofGroup struct {
	group string
	approval.Authority
}

// Decide returns the decision of the authority, limited to its group.
func (a ofGroup) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	d, err := a.Authority.Decide(ctx, r)
	switch {
	case err != nil || d.Verdict == "":
		return approval.Decision{}, err
	case a.group == "":
		d.By.Groups = nil
	case !slices.Contains(d.By.Groups, a.group):
		return approval.Decision{}, fmt.Errorf("%.256q, which answers, is not in the group", d.By.Name)
	default:
		d.By.Groups = []string{a.group}
	}
	return d, nil
}

// NextAsk returns when the authority asks to be called.
func (a ofGroup) NextAsk(r approval.Request) time.Duration { return wish(a.Authority, r) }

// Decide asks the authorities of the groups in which an approval counts now.
func (p perGroup) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	lasting := func(a *answer) bool { return a.approves() && !a.PointInTime && counts(&r, &a.Decision) }
	answers := ask(ctx, p.asked(r), r, func(all []*answer) bool {
		return slices.ContainsFunc(all, (*answer).rejects) || slices.ContainsFunc(all, lasting)
	})
	for _, final := range []func(*answer) bool{(*answer).rejects, lasting} {
		if i := slices.IndexFunc(answers, final); i >= 0 {
			return answers[i].Decision, nil
		}
	}
	momentary := slices.DeleteFunc(slices.Clone(answers), func(a *answer) bool { return !a.approves() || !counts(&r, &a.Decision) })
	if r.Policy.DistinctApprovers && len(momentary) > 1 {
		if i := slices.IndexFunc(momentary, func(a *answer) bool { return isEnough(&r, a, momentary) }); i >= 0 {
			return momentary[i].Decision, nil
		}
		return approval.Decision{}, errors.Join(problems(ctx, answers), notDistinct(momentary))
	}
	d := chosen(&r, answers, (*answer).approves)
	if len(momentary) > 0 {
		d = joint(&r, momentary, allGroups(momentary))
	}
	if d.Verdict != "" {
		return d, nil
	}
	return approval.Decision{}, problems(ctx, answers)
}

// notDistinct returns the error for momentary approvals of several groups, which would count as one.
func notDistinct(all []*answer) error {
	var names []string
	for _, a := range all {
		names = append(names, a.by.name)
	}
	return fmt.Errorf("%s approve only at a point in time, which counts as one approval, and the policy has DistinctApprovers: at most one of these groups may have such an authority", strings.Join(names, " and "))
}

// NextAsk returns when the first authority of the groups in which an approval counts now asks to be
// called.
func (p perGroup) NextAsk(r approval.Request) time.Duration { return nextOf(p.asked(r), r) }

func (p perGroup) asked(r approval.Request) (out []*member) {
	for _, q := range approval.Wanted(r) {
		if m := p[q.Group]; m != nil && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// named gives the answers of an authority an identity.
type named struct {
	by approval.Identity
	approval.Authority
}

// Named gives the answers of an authority the identity by, which the host vouches for, and adds its
// name to errors. The identities that the authority returns are dropped, so that a policy that
// forbids the starter of a run to approve checks only the identity by.
func Named(by approval.Identity, a approval.Authority) approval.Authority { return &named{by, a} }

// Decide asks the authority.
func (n *named) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	d, err := n.Authority.Decide(ctx, r)
	if err != nil {
		return approval.Decision{}, fmt.Errorf("%s: %w", n.by.Name, err)
	}
	if d.Verdict != "" {
		d.By = approval.Identity{Name: n.by.Name, Groups: slices.Clone(n.by.Groups)}
	}
	return d, nil
}

// NextAsk returns when the authority asks to be called.
func (n *named) NextAsk(r approval.Request) time.Duration { return wish(n.Authority, r) }
