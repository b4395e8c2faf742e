package authority

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// engineGroups is the prefix of the names of groups that only the engine itself approves for.
const engineGroups = "slipway:"

// deadline is an authority that answers for another authority after some time.
type deadline struct {
	approval.Authority
	after time.Duration
	last  approval.Decision
}

// WithDeadline returns the decisions of an authority until a request has been open for d. From then
// on it returns last without asking the authority. It uses the clock of the process.
//
// If last has no verdict, it rejects. If last has no identity, the identity is named deadline and
// is in all groups that the policy names except the engine's own, so that it is entitled; like any
// identity it counts once in each group. If last has no comment, the comment says how long there
// was no answer.
func WithDeadline(a approval.Authority, d time.Duration, last approval.Decision) approval.Authority {
	if last.Verdict == "" {
		last.Verdict = approval.Reject
	}
	if last.Comment == "" {
		last.Comment = fmt.Sprintf("no answer within %v", d)
	}
	return &deadline{a, d, last}
}

// Decide asks the authority, or answers for it after the deadline.
func (a *deadline) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	if a.left(r) > 0 {
		return a.Authority.Decide(ctx, r)
	}
	d := a.last
	d.By.Groups = slices.Clone(d.By.Groups)
	if d.By.Name == "" {
		d.By.Name = "deadline"
		for _, q := range r.Policy.Quorums {
			if q.Group != "" && !strings.HasPrefix(q.Group, engineGroups) && !slices.Contains(d.By.Groups, q.Group) {
				d.By.Groups = append(d.By.Groups, q.Group)
			}
		}
	}
	return d, nil
}

// NextAsk returns when the authority asks to be called, or when the deadline is over.
func (a *deadline) NextAsk(r approval.Request) time.Duration {
	left := a.left(r)
	if left <= 0 {
		return 0
	}
	next := wish(a.Authority, r)
	if next <= 0 {
		next = usualAsk(r)
	}
	return min(next, left)
}

func (a *deadline) left(r approval.Request) time.Duration { return time.Until(r.Opened.Add(a.after)) }

// last is an authority that is asked when nothing else is missing.
type last struct {
	approval.Authority
	groups []string
}

// Last asks an authority once the policy lacks only approvals of the named groups, and the waits
// beside the gate have ended. If the policy has DistinctApprovers, an approval of another group is
// not lacking if an earlier approver counts there once the named groups approve. The authority's
// approval then holds only at a point in time: the gate
// opens because of a measurement at that moment, and an expensive measurement is not made earlier.
// This is how fleet.NoDrift compares clusters.
//
// The groups must name the group of the authority, and the groups of other authorities that are
// asked last; otherwise they would wait for each other. If a gate has fleet.NoDrift, the groups
// must include fleet.NoDriftGroup.
func Last(a approval.Authority, groups ...string) approval.Authority {
	return &last{a, slices.Clone(groups)}
}

// Decide asks the authority if only its groups are missing.
func (l *last) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	if !l.turn(r) {
		return approval.Decision{}, nil
	}
	d, err := l.Authority.Decide(ctx, r)
	d.PointInTime = d.PointInTime || d.Verdict == approval.Approve
	return d, err
}

// NextAsk returns when the authority asks to be called, if only its groups are missing.
func (l *last) NextAsk(r approval.Request) time.Duration {
	if !l.turn(r) {
		return 0
	}
	return wish(l.Authority, r)
}

func (l *last) turn(r approval.Request) bool {
	if r.Policy.DistinctApprovers {
		r.Decisions = slices.Clone(r.Decisions)
		for i, g := range l.groups {
			by := approval.Identity{Name: fmt.Sprintf("\x00%d", i), Groups: []string{g}}
			r.Decisions = append(r.Decisions, approval.Decision{Verdict: approval.Approve, By: by, Binding: r.Binding})
		}
	}
	others := func(q approval.Quorum) bool { return !slices.Contains(l.groups, q.Group) }
	return !slices.ContainsFunc(approval.Missing(r), others) && !time.Now().Before(r.NotBefore)
}
