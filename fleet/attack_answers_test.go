package fleet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/runner"
	"github.com/slipway-dev/slipway/stages"
)

// The same answer of an authority, given twice, is one answer. If it may count although the first
// did not, it is a new answer.
func TestCommandIDOfAnAuthoritysAnswer(t *testing.T) {
	request := func() approval.Request {
		return approval.Request{Binding: approval.Binding{RunUID: "u", Stage: "a", When: approval.Before, Attempt: 1, Plan: "p"}}
	}
	answer := func() approval.Decision {
		return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann", Groups: []string{"sre"}}}
	}
	r, d := request(), answer()
	first := runner.CommandID(&d, &r)
	for what, c := range map[string]struct {
		bend func(*approval.Request, *approval.Decision)
		same bool
	}{
		"nothing":     {func(*approval.Request, *approval.Decision) {}, true},
		"comment":     {func(_ *approval.Request, d *approval.Decision) { d.Comment = "other" }, true},
		"moment":      {func(_ *approval.Request, d *approval.Decision) { d.At = time.Now() }, true},
		"name":        {func(_ *approval.Request, d *approval.Decision) { d.By.Name = "bob" }, false},
		"verdict":     {func(_ *approval.Request, d *approval.Decision) { d.Verdict = approval.Reject }, false},
		"no group":    {func(_ *approval.Request, d *approval.Decision) { d.By.Groups = nil }, false},
		"other group": {func(_ *approval.Request, d *approval.Decision) { d.By.Groups = []string{"release"} }, false},
		"more groups": {func(_ *approval.Request, d *approval.Decision) { d.By.Groups = []string{"sre", "release"} }, false},
		"run":         {func(r *approval.Request, _ *approval.Decision) { r.RunUID = "v" }, false},
		"stage":       {func(r *approval.Request, _ *approval.Decision) { r.Stage = "b" }, false},
		"side":        {func(r *approval.Request, _ *approval.Decision) { r.When = approval.After }, false},
		"attempt":     {func(r *approval.Request, _ *approval.Decision) { r.Attempt = 2 }, false},
		"a name that ends like a group": {func(_ *approval.Request, d *approval.Decision) {
			d.By = approval.Identity{Name: "ann\x00Approve\x00sre"}
		}, false},
	} {
		r, d := request(), answer()
		c.bend(&r, &d)
		if same := runner.CommandID(&d, &r) == first; same != c.same {
			t.Errorf("another answer by %s has the same ID: %t, want %t", what, same, c.same)
		}
	}
	d.By = approval.Identity{Name: "ann\x00Approve"}
	other := approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann", Groups: []string{"Approve"}}}
	if runner.CommandID(&d, &r) == runner.CommandID(&other, &r) {
		t.Error("a name that cannot be seen takes the ID of another answer")
	}
}

// An answer was refused because of its author's groups. It counts after the author has joined the
// required group.
func TestAnAuthorityIsAskedAgainWhenAnotherClientHasJoinedAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newApprovalEnv(t, approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}}})
		var joined atomic.Bool
		ask := func(_ context.Context, r approval.Request) (approval.Decision, error) {
			d := approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}, Binding: approval.Binding{RunUID: "forged"}}
			if joined.Load() {
				d.By.Groups = []string{"sre"}
			}
			return d, nil
		}
		defer s.drive(s.engine(Config{Name: "one", Authority: approval.Func(ask)}))()
		s.create()
		s.request("r-before-a")
		joined.Store(true)
		time.Sleep(10 * time.Minute)
		if run := s.status().Run; run.State != stages.Completed {
			t.Errorf("the run is %s (%s)", run.State, run.Reason)
		}
	})
}

// A command with the ID of another command changes nothing. It is an error while the other command
// is stored.
func TestACommandWithTheIDOfAnotherIsAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newApprovalEnv(t, approval.Policy{})
		run := s.create()
		first := stages.Command{ID: "x", Verb: stages.Start, By: approval.Identity{Name: "op"}, Message: "why"}
		for what, c := range map[string]struct {
			bend func(*stages.Command)
			want string
		}{
			"the same":     {func(*stages.Command) {}, "nil"},
			"another verb": {func(c *stages.Command) { c.Verb = stages.Abort }, "conflict"},
			"another name": {func(c *stages.Command) { c.By.Name = "eve" }, "conflict"},
			"another text": {func(c *stages.Command) { c.Message = "" }, "conflict"},
			"another ID":   {func(c *stages.Command) { c.ID = "y" }, "nil"},
		} {
			s.must(s.host.Run("r").Command(t.Context(), first))
			time.Sleep(time.Second)
			bent := first
			c.bend(&bent)
			if got := kindOf(s.host.Run("r").Command(t.Context(), bent)); got != c.want {
				t.Errorf("%s: %s, want %s", what, got, c.want)
			}
		}
		for range 2 {
			s.must(s.host.state.CarryOut(t.Context(), new(record.Placement), []lifecycle.Effect{lifecycle.Supersede{Run: lifecycle.Entry{UID: run.UID}, By: lifecycle.Entry{UID: "uid", Run: "next"}}}))
			time.Sleep(time.Second)
		}
	})
}

// An answer with the ID of another command is a conflict, whether that command was carried out or
// not.
func TestAnAnswerWithTheIDOfAnotherIsAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newApprovalEnv(t, approval.Policy{Quorums: []approval.Quorum{{Count: 3}}})
		stop := s.drive(s.engine(Config{Name: "one"}))
		s.create()
		r := s.request("r-before-a")
		stop()
		for _, state := range []string{"stored", "carried out"} {
			for what, c := range map[string]struct {
				d    approval.Decision
				want string
			}{
				"the same":        {approving("ann", approval.Binding{}), "nil"},
				"another person":  {approving("bob", approval.Binding{}), "conflict"},
				"another verdict": {approval.Decision{Verdict: approval.Reject, By: approving("ann", r.Binding).By}, "conflict"},
			} {
				s.tryID(t, "ann", approving("ann", approval.Binding{}), "nil")
				s.tryID(t, state+": "+what, c.d, c.want)
			}
			stop := s.drive(s.engine(Config{Name: "one"}))
			if n := len(s.request(r.Name).Decisions); n != 1 {
				t.Errorf("%d decisions count, want 1", n)
			}
			stop()
		}
	})
}

func (s *approvalEnv) tryID(t *testing.T, what string, d approval.Decision, want string) {
	t.Helper()
	err := s.host.Run("r").Command(t.Context(), stages.Command{Verb: stages.Decide, ID: "x", Name: "r-before-a", By: d.By, Decision: &approval.Decision{Verdict: d.Verdict, Comment: d.Comment}})
	if got := kindOf(err); got != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// A policy that requires the binding refuses answers of people without it. An authority need not
// name it, because the engine sets the binding of its answers.
func TestPolicyMayRequireABinding(t *testing.T) {
	t.Parallel()
	for _, require := range []bool{false, true} {
		atFirstGate(t, approval.Policy{RequireBinding: require, Quorums: []approval.Quorum{{Count: 5}}}, func(s *approvalEnv, r approval.Request) {
			other := r.Binding
			other.Attempt++
			unnamed := map[bool]string{false: "nil", true: "refused"}[require]
			for _, c := range []struct {
				by      string
				binding approval.Binding
				want    string
			}{{"ann", approval.Binding{}, unnamed}, {"bob", r.Binding, "nil"}, {"cid", other, "refused"}} {
				err := s.host.Run("r").Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: r.Name, By: approval.Identity{Name: c.by}, Decision: &approval.Decision{Verdict: approval.Approve, Binding: c.binding}})
				if got := kindOf(err); got != c.want {
					s.t.Errorf("the binding is required: %t: the answer of %s: %v, want %s", require, c.by, err, c.want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newApprovalEnv(t, approval.Policy{RequireBinding: true})
		yes := func(context.Context, approval.Request) (approval.Decision, error) {
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "bot"}}, nil
		}
		defer s.drive(s.engine(Config{Name: "one", Authority: approval.Func(yes)}))()
		s.create()
		time.Sleep(10 * time.Minute)
		if run := s.status().Run; run.State != stages.Completed {
			t.Errorf("the run is %s (%s)", run.State, run.Reason)
		}
	})
}

// The journal shows the plan's digest for every request, answer, acceptance, rejection and expiry.
func TestEveryEventOfAnApprovalHasTheDigestOfThePlan(t *testing.T) {
	t.Parallel()
	atFirstGate(t, approval.Policy{Expires: metav1.Duration{Duration: time.Hour}, Quorums: []approval.Quorum{{Count: 2}}}, func(s *approvalEnv, r approval.Request) {
		time.Sleep(time.Hour)
		for _, name := range []string{"ann", "bob"} {
			s.answer(approving(name, s.request(r.Name).Binding))
		}
		no := approving("cid", s.request("r-after-a").Binding)
		no.Verdict = approval.Reject
		s.answer(no)
		seen := map[stages.EventType]int{}
		for _, ev := range s.events() {
			if ev.Request == "" {
				continue
			}
			if seen[ev.Type]++; ev.Digest != r.Plan || ev.Attempt == 0 {
				s.t.Errorf("%+v", ev)
			}
		}
		for _, want := range []stages.EventType{stages.ApprovalRequested, stages.ApprovalGiven, stages.ApprovalAccepted, stages.ApprovalRejected, stages.ApprovalExpired} {
			if seen[want] == 0 {
				s.t.Errorf("no %s", want)
			}
		}
	})
}
