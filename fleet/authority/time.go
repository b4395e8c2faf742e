package authority

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// engineGroups is how the names of groups begin in which only the engine itself approves.
const engineGroups = "slipway:"

// deadline is an authority that answers in the place of another after a time.
type deadline struct {
	approval.Authority
	after time.Duration
	last  approval.Decision
}

// WithDeadline returns the decisions of an authority until a request has been open for d, and last from then on, without
// asking the authority. The time is that of the process.
//
// A last without a verdict rejects. One without an identity is by one called deadline, in all groups that the policy
// names but the engine's own, so that it is entitled; as any identity it counts once in each group. One without a comment
// says how long there was no answer.
func WithDeadline(a approval.Authority, d time.Duration, last approval.Decision) approval.Authority {
	if last.Verdict == "" {
		last.Verdict = approval.Reject
	}
	if last.Comment == "" {
		last.Comment = fmt.Sprintf("no answer within %v", d)
	}
	return &deadline{a, d, last}
}

// Decide asks the authority, or answers in its place.
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

// NextAsk is when the authority wants to be asked, or when the time is over.
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

// Last asks an authority once the policy lacks approvals of the named groups only and the waits beside the gate have
// ended, and has it approve at a point in time only: the gate opens on what was measured then, and a measurement that is
// dear is not made before. It is how fleet.NoDrift compares clusters.
//
// The groups are that of the authority and those of others that are asked last, or each of them would wait for the
// others: of a gate with fleet.NoDrift, fleet.NoDriftGroup is one.
func Last(a approval.Authority, groups ...string) approval.Authority {
	return &last{a, slices.Clone(groups)}
}

// Decide asks the authority where it is its turn.
func (l *last) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	if !l.turn(r) {
		return approval.Decision{}, nil
	}
	d, err := l.Authority.Decide(ctx, r)
	d.PointInTime = d.PointInTime || d.Verdict == approval.Approve
	return d, err
}

// NextAsk is when the authority wants to be asked, where it is its turn.
func (l *last) NextAsk(r approval.Request) time.Duration {
	if !l.turn(r) {
		return 0
	}
	return wish(l.Authority, r)
}

func (l *last) turn(r approval.Request) bool {
	others := func(q approval.Quorum) bool { return !slices.Contains(l.groups, q.Group) }
	return !slices.ContainsFunc(approval.Missing(r), others) && !time.Now().Before(r.NotBefore)
}
