package main

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

func sre(name string) approval.Identity {
	return approval.Identity{Name: name, Groups: []string{"sre"}}
}

// Two of sre and the calendar of release pass the gate; the starter, a stranger and a second
// answer do not count.
func TestTheGateIsPassedByTwoGroups(t *testing.T) {
	var out strings.Builder
	people := []approval.Identity{sre("bob"), {Name: "eve", Groups: []string{"sales"}}, sre("ann"), sre("ann"), sre("joe")}
	if err := rollOut(t.Context(), &out, people); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ApprovalAccepted web-v1-after-canary calendar", "RunCompleted", "started the run", "in none of the groups", "ann"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// One of sre is not enough: the calendar does not answer, and the gate stays shut.
func TestOneOfSREIsNotEnough(t *testing.T) {
	r := approval.Request{Policy: *gate().Approval, Starter: sre("bob")}
	r, outcome, err := approval.Evaluate(r, approval.Decision{Verdict: approval.Approve, By: sre("ann")}, time.Time{})
	if err != nil || outcome != approval.Pending {
		t.Fatalf("%s, %v", outcome, err)
	}
	if d, err := release(t.Context(), r); err != nil || d.Verdict != "" {
		t.Errorf("release answers %q, %v", d.Verdict, err)
	}
	if r, _, err = approval.Evaluate(r, approval.Decision{Verdict: approval.Approve, By: sre("joe")}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if d, err := release(t.Context(), r); err != nil || d.Verdict != approval.Approve {
		t.Errorf("release answers %q, %v", d.Verdict, err)
	}
}
