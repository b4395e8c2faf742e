package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func approving(name string, b approval.Binding) approval.Decision {
	return approval.Decision{
		Verdict: approval.Approve, By: approval.Identity{Name: name, Groups: []string{"sre"}}, At: time.Now(), Binding: b, Comment: "by " + name,
	}
}

// atFirstGate drives a run to its first gate.
func atFirstGate(t *testing.T, p approval.Policy, do func(s *approvalEnv, r approval.Request)) {
	synctest.Test(t, func(t *testing.T) {
		s := newApprovalEnv(t, p)
		defer s.drive(s.engine(Config{Name: "one"}))()
		s.create()
		do(s, s.request("r-before-a"))
	})
}

func (s *approvalEnv) wantEvent(ev stages.Event, want stages.EventType, r approval.Request, d approval.Decision) {
	s.t.Helper()
	if ev.Type != want || ev.Digest != r.Plan || ev.Attempt != r.Attempt || ev.Message != d.Comment || ev.Time.IsZero() {
		s.t.Errorf("the journal tells %+v of %+v, want %s", ev, d, want)
	}
}

// Threat T2: an approval does not count for a new run of the same name, or for another stage, side
// or plan, not even as the bytes that the engine stored itself.
func TestT2AnApprovalIsNotReplayed(t *testing.T) {
	t.Parallel()
	atFirstGate(t, approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}, func(s *approvalEnv, first approval.Request) {
		ann := approving("ann", first.Binding)
		bytes := smuggled("first", ann)
		s.smuggle(first.RunUID, "first", bytes)
		time.Sleep(time.Minute)
		if n := len(s.request("r-before-a").Decisions); n != 1 {
			s.t.Fatalf("%d decisions count, want 1", n)
		}
		s.must(s.host.Run("r").Delete(s.t.Context(), true))
		s.create()
		again := s.request("r-before-a")
		s.refuses("the bytes for a run made again", "first", bytes)
		s.threatened("a replay for a run made again", again.Name, ann)
		ann.Binding = again.Binding
		s.wantEvent(s.answer(ann), stages.ApprovalGiven, again, ann)
		bob := approving("bob", again.Binding)
		s.wantEvent(s.answer(bob), stages.ApprovalAccepted, again, bob)

		after := s.request("r-after-a")
		s.threatened("a replay for the other side of the stage", after.Name, bob)
		for what, bend := range map[string]func(*approval.Binding){
			"stage": func(b *approval.Binding) { b.Stage = "b" },
			"side":  func(b *approval.Binding) { b.When = approval.Before },
			"plan":  func(b *approval.Binding) { b.Plan = first.RunUID },
			"run":   func(b *approval.Binding) { b.RunUID = first.RunUID },
		} {
			d := approving("bob", after.Binding)
			bend(&d.Binding)
			s.threatened("an approval of another "+what, after.Name, d)
		}
	})
}

// Threat T3: an approval from before its request opened does not count after the request has
// opened.
func TestT3AnApprovalDoesNotComeBeforeItsRequest(t *testing.T) {
	t.Parallel()
	atFirstGate(t, approval.Policy{Expires: metav1.Duration{Duration: time.Hour}}, func(s *approvalEnv, r approval.Request) {
		next := approving("ann", r.Binding)
		next.Binding.Attempt = 2
		s.threatened("an approval of the next attempt", r.Name, next)
		next.Binding.Attempt, next.Binding.When = 1, approval.After
		s.threatened("an approval of a gate that the run has not come to", "r-after-a", next)
		next.Binding = r.Binding
		time.Sleep(time.Hour)
		now := s.request(r.Name)
		if now.Attempt != 2 {
			s.t.Fatalf("attempt %d, want 2", now.Attempt)
		}
		s.threatened("an approval of an attempt that has expired", r.Name, next)
		next.Binding = now.Binding
		s.refuses("an approval that waited for its request", "early", smuggled("early", next))
		d := approving("ann", now.Binding)
		s.wantEvent(s.answer(d), stages.ApprovalAccepted, now, d)
	})
}

// Threat T4: neither the starter nor the same person twice makes a quorum.
func TestT4NoApprovalTwiceOrOfOnesOwnRun(t *testing.T) {
	t.Parallel()
	p := approval.Policy{ForbidStarter: true, Quorums: []approval.Quorum{{Group: "sre", Count: 2}}}
	atFirstGate(t, p, func(s *approvalEnv, r approval.Request) {
		ann := approving("ann", r.Binding)
		s.wantEvent(s.answer(ann), stages.ApprovalGiven, r, ann)
		for _, name := range []string{"ann", "ann ", "an\u200bn", "sam", ""} {
			s.threatened("an approval by "+name, r.Name, approving(name, r.Binding))
		}
		bob := approving("bob", r.Binding)
		s.wantEvent(s.answer(bob), stages.ApprovalAccepted, r, bob)
	})
}
