package approval

import (
	"slices"
	"time"
)

// Outcome is the state of a request.
type Outcome string

// The outcomes of a request.
const (
	// Pending: more approvals are needed; [Missing] returns which.
	Pending Outcome = "Pending"
	// Accepted: every quorum is met. It cannot be revoked.
	Accepted Outcome = "Accepted"
	// Rejected: an entitled identity rejected it. It cannot be revoked.
	Rejected Outcome = "Rejected"
)

// Evaluate adds a decision to an open request and returns the new request and its outcome. It does
// not change its arguments. If the decider has groups, the new request keeps only the groups of the
// policy.
//
// One rejection ends a request; approvals end it when they meet every quorum. An approval with
// PointInTime counts for [PointInTimeAge]. If a lasting decision is recorded later, Evaluate
// removes such an approval from the request, and it must be given again. So only the last approval
// can be one with PointInTime.
//
// A decision that does not count is refused with a [*RefusedError], and the request is returned
// unchanged with its previous outcome. A decision does not count if the request is already
// decided, the verdict is unknown, the identity is empty or invalid, the binding differs, or the
// decision is from before the opening or after the expiry of the request. It does not count
// either if the identity started the run and the policy forbids that, if the identity has decided
// before or is in none of the groups, or if the quorums of its groups are already met. An
// approval with PointInTime is also refused if it is too old or in the future, or if a wait
// beside the request has not ended.
//
// now must never go back, so that a clock that is set back does not reopen an expired request.
func Evaluate(r Request, d Decision, now time.Time) (Request, Outcome, error) {
	next := r
	next.Decisions = holding(r.Decisions, &d, now)
	reason := decided(&r)
	if reason == "" {
		reason = refusal(&next, &d, now)
	}
	if reason != "" {
		return r, outcome(&r), &RefusedError{Request: r.Name, By: d.By.Name, Reason: reason}
	}
	d.By.Groups = groupsIn(r.Policy, d.By)
	next.Decisions = append(next.Decisions, d)
	return next, outcome(&next), nil
}

// IsMomentary reports whether the decision is an approval with PointInTime.
func (d *Decision) IsMomentary() bool { return d.PointInTime && d.Verdict == Approve }

// holding returns the recorded decisions that still count beside a new one.
func holding(all []Decision, d *Decision, now time.Time) []Decision {
	return slices.DeleteFunc(slices.Clone(all), func(e Decision) bool {
		return e.IsMomentary() && (!d.IsMomentary() || e.By.Name == d.By.Name || now.Sub(e.At) > PointInTimeAge)
	})
}

// Missing returns the quorums that are not met, in the order of the policy,
// each with the number of approvals that it still lacks.
func Missing(r Request) []Quorum { return tallyOf(&r).missing() }

// Wanted returns the quorums in which an approval by another identity counts now, in the order of
// the policy: those of [Missing], and with Count 0 those that are met. In a met quorum it counts if
// an approver of that quorum can count in an unmet one instead, see Policy.DistinctApprovers, or if
// an unmet quorum is open to any identity.
func Wanted(r Request) (out []Quorum) {
	missing := Missing(r)
	for _, q := range quorums(r.Policy) {
		i := slices.IndexFunc(missing, func(m Quorum) bool { return m.Group == q.Group })
		switch {
		case i >= 0:
			out = append(out, missing[i])
		case tallyOf(&r).add(Identity{Name: nobody, Groups: []string{q.Group}}):
			out = append(out, Quorum{Group: q.Group})
		}
	}
	return out
}

// nobody is a name that no approver has, because it is invisible.
const nobody = "\x00"

// Naming says how the requests of a run are named.
type Naming string

// The namings.
const (
	// NamedBySide names the request after a stage <run>-after-<stage>, as KubeFleet does since
	// December 2025. It is the default.
	NamedBySide Naming = ""
	// NamedByStage names the request after a stage <run>-<stage>, as KubeFleet did before.
	NamedByStage Naming = "Stage"
)

// RequestName returns the name of the request at a gate of a stage or, if group is not empty, at a
// gate of that group of the stage. Before a stage it is <run>-before-<stage> in both namings. The
// name at a gate of a group has -<group> at the end.
func (n Naming) RequestName(run, stage, group string, when When) string {
	if group != "" {
		stage += "-" + group
	}
	switch {
	case when == Before:
		return run + "-before-" + stage
	case n == NamedByStage:
		return run + "-" + stage
	default:
		return run + "-after-" + stage
	}
}

// GroupRequestName returns the name of the request at a gate of a group by the default naming.
// Without a group it equals [RequestName].
func GroupRequestName(run, stage, group string, when When) string {
	return NamedBySide.RequestName(run, stage, group, when)
}

// RequestName returns the name of the request at a gate of a whole stage by the default naming:
// <run>-after-<stage> after the stage and <run>-before-<stage> before it.
func RequestName(run, stage string, when When) string {
	return NamedBySide.RequestName(run, stage, "", when)
}

func outcome(r *Request) Outcome {
	switch {
	case slices.ContainsFunc(r.Decisions, func(d Decision) bool { return d.Verdict == Reject }):
		return Rejected
	case len(Missing(*r)) == 0:
		return Accepted
	default:
		return Pending
	}
}

// quorums returns the quorums of the policy, at least one and each of at least one approval: a
// policy without validation must not let a run pass.
func quorums(p Policy) []Quorum {
	if len(p.Quorums) == 0 {
		return []Quorum{{Count: 1}}
	}
	out := slices.Clone(p.Quorums)
	for i := range out {
		out[i].Count = max(out[i].Count, 1)
	}
	return out
}

func (i Identity) in(group string) bool {
	return i.Name != "" && (group == "" || slices.Contains(i.Groups, group))
}

// groupsIn returns the groups of an identity that the policy names.
func groupsIn(p Policy, i Identity) []string {
	var out []string
	for _, q := range p.Quorums {
		if q.Group != "" && i.in(q.Group) && !slices.Contains(out, q.Group) {
			out = append(out, q.Group)
		}
	}
	return out
}
