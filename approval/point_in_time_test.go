package approval_test

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// An approval with PointInTime counts only if it is the last one: after every lasting decision,
// within its age, and after the waits beside the request.
func TestPointInTimeApprovalMustBeTheLast(t *testing.T) {
	const age = approval.PointInTimeAge
	type step struct {
		by string
		// at is the time of the decision and now the time of its evaluation, after the request opened;
		// if now is 0 it equals at.
		at, now time.Duration
		want    approval.Outcome
		// refused is a part of the reason for the refusal; empty if the decision counts.
		refused string
	}
	people := approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}, {Group: "gauge", Count: 1}}}
	gauges := approval.Policy{Quorums: []approval.Quorum{{Group: "gauge", Count: 2}}}
	for name, tt := range map[string]struct {
		policy approval.Policy
		wait   time.Duration
		steps  []step
	}{
		"last it opens the gate": {policy: people, steps: []step{
			{by: "ann", at: 1}, {by: "bob", at: time.Hour}, {by: "gauge-a", at: 2 * time.Hour, want: approval.Accepted},
		}},
		"before a person it is asked again": {policy: people, steps: []step{
			{by: "ann", at: 1}, {by: "gauge-a", at: 2}, {by: "bob", at: 3}, {by: "gauge-a", at: 4, want: approval.Accepted},
		}},
		"before a person at the same instant, too": {policy: people, steps: []step{
			{by: "gauge-a", at: 1}, {by: "ann", at: 1}, {by: "bob", at: 1}, {by: "gauge-a", at: 1, want: approval.Accepted},
		}},
		"two of them count together": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 1}, {by: "gauge-b", at: age, want: approval.Accepted},
		}},
		"two of them are not apart": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 1}, {by: "gauge-b", at: age + 2}, {by: "gauge-a", at: age + 3, want: approval.Accepted},
		}},
		"one of them is not two": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 1}, {by: "gauge-a", at: 2}, {by: "gauge-a", at: 3}, {by: "gauge-b", at: 4, want: approval.Accepted},
		}},
		"late it does not count": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 1, now: age + 2, refused: "which is more than 1m0s ago: ask again"},
		}},
		"of the future it does not count": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 2, now: 1, refused: "yet to come"},
		}},
		"before it opened it does not count": {policy: gauges, steps: []step{
			{by: "gauge-a", at: -1, now: 1, refused: "before the request opened"},
		}},
		"beside a wait it waits": {policy: gauges, wait: time.Hour, steps: []step{
			{by: "gauge-a", at: time.Hour - 1, refused: "a wait beside the request ends at"},
			{by: "gauge-a", at: time.Hour},
			{by: "gauge-b", at: time.Hour, want: approval.Accepted},
		}},
		"a rejection is final": {policy: people, wait: time.Hour, steps: []step{
			{by: "ann", at: 1}, {by: "reject-gauge", at: 2, want: approval.Rejected}, {by: "bob", at: 3, want: approval.Rejected, refused: "decided already"},
		}},
		"an approval is final": {policy: gauges, steps: []step{
			{by: "gauge-a", at: 1},
			{by: "gauge-b", at: 2, want: approval.Accepted},
			{by: "reject-gauge", at: time.Hour, want: approval.Accepted, refused: "decided already"},
		}},
		"of none of the groups it does not count": {policy: gauges, steps: []step{{by: "other", at: 1, refused: "none of the groups"}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tt.policy)
			if tt.wait > 0 {
				r.NotBefore = opened.Add(tt.wait)
			}
			for i, s := range tt.steps {
				d := momentary(r, s.by)
				d.At = opened.Add(s.at)
				now := d.At
				if s.now != 0 {
					now = opened.Add(s.now)
				}
				want := s.want
				if want == "" {
					want = approval.Pending
				}
				if s.refused != "" {
					refuse(t, r, d, now, s.refused)
					continue
				}
				next, got, err := approval.Evaluate(r, d, now)
				if err != nil || got != want {
					t.Fatalf("step %d: the decision of %s: %s, %v; want %s", i, s.by, got, err, want)
				}
				r = next
			}
		})
	}
}

// momentary returns an approval of by: a lasting one of a person, or a PointInTime one of a
// gauge.
func momentary(r approval.Request, by string) approval.Decision {
	switch by {
	case "ann", "bob":
		return approve(r, by, "sre")
	case "gauge-a", "gauge-b":
		d := approve(r, by, "gauge")
		d.PointInTime = true
		return d
	case "reject-gauge":
		d := decision(r, approval.Reject, by, "gauge")
		d.PointInTime = true
		return d
	default:
		d := approve(r, by)
		d.PointInTime = true
		return d
	}
}

// With such approvals, Missing returns the approvals that the gate lacks if they are the last.
func TestMissingWithMomentaryApprovals(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "gauge", Count: 1}}})
	r = take(t, r, momentary(r, "gauge-a"), approval.Pending)
	if m := approval.Missing(r); len(m) != 1 || m[0].Group != "sre" {
		t.Errorf("missing are %v", m)
	}
	r = take(t, r, momentary(r, "ann"), approval.Pending)
	if m := approval.Missing(r); len(m) != 1 || m[0].Group != "gauge" || len(r.Decisions) != 1 {
		t.Errorf("missing are %v, decisions %v", m, r.Decisions)
	}
}
