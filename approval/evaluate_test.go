package approval_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
)

var opened = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

func request(p approval.Policy) approval.Request {
	return approval.Request{
		Name: "r1-prod", Run: "r1", Placement: "web", Snapshot: 3, Policy: p, Opened: opened,
		Binding: approval.Binding{RunUID: "u1", Stage: "prod", When: approval.After, Attempt: 1, Plan: "sha256:aa"},
		Starter: approval.Identity{Name: "sam"},
	}
}

func decision(r approval.Request, v approval.Verdict, name string, groups ...string) approval.Decision {
	return approval.Decision{
		Verdict: v, By: approval.Identity{Name: name, Groups: groups},
		At: opened.Add(time.Minute), Binding: r.Binding,
	}
}

func approve(r approval.Request, name string, groups ...string) approval.Decision {
	return decision(r, approval.Approve, name, groups...)
}

// take evaluates a decision that counts.
func take(t *testing.T, r approval.Request, d approval.Decision, want approval.Outcome) approval.Request {
	t.Helper()
	next, got, err := approval.Evaluate(r, d, d.At)
	if err != nil || got != want {
		t.Fatalf("the decision of %s: %s, %v; want %s", d.By.Name, got, err, want)
	}
	return next
}

// refuse evaluates a decision that does not count and changes nothing.
func refuse(t *testing.T, r approval.Request, d approval.Decision, now time.Time, reason string) {
	t.Helper()
	next, _, err := approval.Evaluate(r, d, now)
	var refused *approval.RefusedError
	if !errors.Is(err, approval.ErrRefused) || !errors.As(err, &refused) {
		t.Fatalf("got %v; want a RefusedError because %q", err, reason)
	}
	if refused.Request != r.Name || refused.By != d.By.Name || !strings.Contains(refused.Reason, reason) {
		t.Errorf("got %v; want the reason %q", err, reason)
	}
	if diff := cmp.Diff(r, next); diff != "" {
		t.Errorf("a refused decision changed the request:\n%s", diff)
	}
}

func TestZeroPolicyTakesOneApprovalByAnybodyAndNeverExpires(t *testing.T) {
	r := request(approval.Policy{})
	d := approve(r, "sam")
	d.At = opened.AddDate(50, 0, 0)
	take(t, r, d, approval.Accepted)
}

func TestRefused(t *testing.T) {
	hour := approval.Policy{Expires: metav1.Duration{Duration: time.Hour}}
	sre := approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}}}
	later := opened.Add(2 * time.Minute)
	for name, tc := range map[string]struct {
		policy approval.Policy
		edit   func(r *approval.Request, d *approval.Decision)
		now    time.Time
		want   string
	}{
		"no verdict":       {edit: func(_ *approval.Request, d *approval.Decision) { d.Verdict = "" }, want: `verdict "" is neither Approve nor Reject`},
		"unknown verdict":  {edit: func(_ *approval.Request, d *approval.Decision) { d.Verdict = "approve" }, want: "neither Approve nor Reject"},
		"no name":          {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "" }, want: "has no name"},
		"leading space":    {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = " ann" }, want: "begins or ends with a space"},
		"trailing space":   {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "ann\u00a0" }, want: "begins or ends with a space"},
		"control":          {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "an\x1b[2Kn" }, want: "cannot be seen"},
		"zero width":       {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "an\u200bn" }, want: "cannot be seen"},
		"not UTF-8":        {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "an\xffn" }, want: "is not UTF-8"},
		"long name":        {edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = strings.Repeat("a", 513) }, want: "has 513 bytes, more than 512"},
		"long comment":     {edit: func(_ *approval.Request, d *approval.Decision) { d.Comment = strings.Repeat("a", 1025) }, want: "the comment has 1025 bytes"},
		"broken comment":   {edit: func(_ *approval.Request, d *approval.Decision) { d.Comment = "\xff" }, want: "the comment is not UTF-8"},
		"before opening":   {edit: func(_ *approval.Request, d *approval.Decision) { d.At = opened.Add(-1) }, want: "before the request opened at 2026-05-04T09:00:00Z"},
		"no stamp":         {edit: func(_ *approval.Request, d *approval.Decision) { d.At = time.Time{} }, want: "before the request opened"},
		"at expiry":        {policy: hour, now: opened.Add(time.Hour), want: "expired at 2026-05-04T10:00:00Z"},
		"after expiry":     {policy: hour, now: opened.Add(9 * time.Hour), want: "expired"},
		"stamped too late": {policy: hour, now: later, edit: func(_ *approval.Request, d *approval.Decision) { d.At = opened.Add(time.Hour) }, want: "expired"},
		"negative expiry":  {policy: approval.Policy{Expires: metav1.Duration{Duration: -1}}, now: later, want: "expired"},
		"starter":          {policy: approval.Policy{ForbidStarter: true}, edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name = "sam" }, want: "forbids the one who started the run"},
		"starter rejects":  {policy: approval.Policy{ForbidStarter: true}, edit: func(_ *approval.Request, d *approval.Decision) { d.By.Name, d.Verdict = "sam", approval.Reject }, want: "forbids the one who started the run"},
		"unknown starter":  {policy: approval.Policy{ForbidStarter: true}, edit: func(r *approval.Request, _ *approval.Decision) { r.Starter = approval.Identity{} }, want: "is not known"},
		"no such group":    {policy: sre, edit: func(_ *approval.Request, d *approval.Decision) { d.By.Groups = []string{"dev", ""} }, want: "in none of the groups sre, release"},
		"outsider rejects": {policy: sre, edit: func(_ *approval.Request, d *approval.Decision) { d.Verdict = approval.Reject }, want: "in none of the groups sre, release"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tc.policy)
			d := approve(r, "ann")
			if tc.edit != nil {
				tc.edit(&r, &d)
			}
			now := tc.now
			if now.IsZero() {
				now = d.At
			}
			refuse(t, r, d, now, tc.want)
		})
	}
}

func TestADecisionCountsUntilItsRequestExpires(t *testing.T) {
	r := request(approval.Policy{Expires: metav1.Duration{Duration: time.Hour}})
	d := approve(r, "ann")
	d.At = opened.Add(time.Hour - 1)
	take(t, r, d, approval.Accepted)
	d.At = opened
	take(t, r, d, approval.Accepted)
}

func TestOneEntitledRejectionEndsTheRequest(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "release", Count: 2}}})
	r = take(t, r, approve(r, "ann", "sre"), approval.Pending)
	no := take(t, r, decision(r, approval.Reject, "bob", "sre"), approval.Rejected)
	refuse(t, no, approve(no, "cat", "release"), opened.Add(time.Hour), "decided already: Rejected")
}

func TestAcceptedRequestRefusesFurtherDecisions(t *testing.T) {
	r := request(approval.Policy{})
	r = take(t, r, approve(r, "ann"), approval.Accepted)
	refuse(t, r, decision(r, approval.Reject, "bob"), opened.Add(time.Hour), "decided already: Accepted")
	if _, o, _ := approval.Evaluate(r, approve(r, "bob"), opened); o != approval.Accepted {
		t.Errorf("a refused decision made the outcome %s", o)
	}
}

func TestOnePersonCountsOnceInEachOfTheirGroups(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}, {Count: 3}}})
	r = take(t, r, approve(r, "ann", "sre", "release", "sre"), approval.Pending)
	want := []approval.Quorum{{Group: "sre", Count: 1}, {Count: 2}}
	if diff := cmp.Diff(want, approval.Missing(r)); diff != "" {
		t.Errorf("missing after the first approval (-want +got):\n%s", diff)
	}
	r = take(t, r, approve(r, "bob", "sre"), approval.Pending)
	r = take(t, r, approve(r, "cat"), approval.Accepted)
	if got := approval.Missing(r); got != nil {
		t.Errorf("an accepted request misses %v", got)
	}
}

func TestAnApprovalThatIsNotNeededIsRefused(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "release", Count: 1}}})
	r = take(t, r, approve(r, "ann", "sre"), approval.Pending)
	refuse(t, r, approve(r, "bob", "sre"), opened.Add(time.Hour), "no more approvals are needed")
}

func TestDecisionsKeepOnlyRequiredGroups(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}})
	r = take(t, r, approve(r, "ann", "dev", "sre", "staff"), approval.Pending)
	if diff := cmp.Diff([]string{"sre"}, r.Decisions[0].By.Groups); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluateChangesNeitherArgument(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Count: 3}}})
	r.Decisions = make([]approval.Decision, 0, 8)
	first := take(t, r, approve(r, "ann", "x"), approval.Pending)
	a := take(t, first, approve(r, "bob"), approval.Pending)
	take(t, first, approve(r, "cat"), approval.Pending)
	if len(r.Decisions) != 0 || len(first.Decisions) != 1 || a.Decisions[1].By.Name != "bob" {
		t.Errorf("evaluating wrote into another request's decisions: %v", a.Decisions)
	}
}

func TestInvalidQuorumCountStillNeedsOneApproval(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: -4}}})
	refuse(t, r, approve(r, "ann"), opened.Add(time.Hour), "none of the groups")
	take(t, r, approve(r, "bob", "sre"), approval.Accepted)
}

// A decision for another run, a run made again, another stage, side, attempt
// or plan is refused, and so is one from before the gate opened (T2, T3).
func TestT2AnApprovalIsNotReplayed(t *testing.T) {
	for field, edit := range map[string]func(b *approval.Binding){
		"runUID":  func(b *approval.Binding) { b.RunUID = "u0" },
		"stage":   func(b *approval.Binding) { b.Stage = "canary" },
		"group":   func(b *approval.Binding) { b.Group = "eu" },
		"when":    func(b *approval.Binding) { b.When = approval.Before },
		"attempt": func(b *approval.Binding) { b.Attempt = 0 },
		"plan":    func(b *approval.Binding) { b.Plan = "" },
	} {
		t.Run(field, func(t *testing.T) {
			r := request(approval.Policy{})
			d := approve(r, "ann")
			edit(&d.Binding)
			refuse(t, r, d, d.At, "about something else: "+field+" is ")
		})
	}
}

func TestT2EveryFieldThatDiffersIsNamed(t *testing.T) {
	r := request(approval.Policy{})
	d := approve(r, "ann")
	d.Binding = approval.Binding{RunUID: strings.Repeat("u", 1<<20)}
	_, _, err := approval.Evaluate(r, d, d.At)
	for _, field := range []string{"runUID", "stage", "when", "attempt", "plan"} {
		if !strings.Contains(err.Error(), field+" is ") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func TestT2KeptDecisionsOfAnotherAttemptDoNotCount(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Count: 2}}})
	r = take(t, r, approve(r, "ann"), approval.Pending)
	r.Attempt = 2
	if diff := cmp.Diff([]approval.Quorum{{Count: 2}}, approval.Missing(r)); diff != "" {
		t.Error(diff)
	}
}

// Random mutations of a decision that would be accepted never are.
func TestT3RandomReplaysAreNeverAccepted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string { return []string{"", "u1", "prod", "u1 ", "sha256:aa", "Prod"}[rng.IntN(6)] }
	for range 5_000 {
		r := request(approval.Policy{Expires: metav1.Duration{Duration: time.Hour}})
		d := approve(r, "ann")
		switch rng.IntN(7) {
		case 0:
			d.Binding.RunUID = text()
		case 1:
			d.Binding.Stage = text()
		case 2:
			d.Binding.When = approval.When(text())
		case 3:
			d.Binding.Attempt = rng.IntN(5) - 2
		case 4:
			d.Binding.Plan = text()
		case 5:
			d.Binding.Group = text()
		case 6:
			d.At = opened.Add(-time.Duration(rng.Int64N(int64(time.Hour))))
		}
		valid := d.Binding == r.Binding && !d.At.Before(opened)
		if _, o, err := approval.Evaluate(r, d, opened.Add(time.Minute)); !valid && (err == nil || o != approval.Pending) {
			t.Fatalf("%+v was taken: %s", d, o)
		}
	}
}

func TestT4TheSamePersonDecidesOnce(t *testing.T) {
	r := request(approval.Policy{Quorums: []approval.Quorum{{Count: 2}}})
	r = take(t, r, approve(r, "ann"), approval.Pending)
	refuse(t, r, approve(r, "ann", "other-group"), opened.Add(time.Hour), "has decided already")
	refuse(t, r, decision(r, approval.Reject, "ann"), opened.Add(time.Hour), "has decided already")
	r.Decisions = append(r.Decisions, r.Decisions[0])
	if diff := cmp.Diff([]approval.Quorum{{Count: 1}}, approval.Missing(r)); diff != "" {
		t.Errorf("a decision that stands twice counts twice:\n%s", diff)
	}
}

// Whatever the policy, and whichever identities decide in whatever order, a request is
// accepted at the first moment when enough different people of each group have
// approved, and never before.
func TestT4NOfMCountsDifferentPeople(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	groups, people := []string{"", "a", "b", "c"}, []string{"p", "q", "r", "s", "t", "sam"}
	for range 500 {
		p := approval.Policy{ForbidStarter: rng.IntN(2) == 0}
		for _, i := range rng.Perm(len(groups))[:1+rng.IntN(3)] {
			p.Quorums = append(p.Quorums, approval.Quorum{Group: groups[i], Count: 1 + rng.IntN(3)})
		}
		in := map[string][]string{}
		for _, name := range people {
			for _, g := range groups[1:] {
				if rng.IntN(2) == 0 {
					in[name] = append(in[name], g)
				}
			}
		}
		holdElection(t, rng, p, people, in)
	}
}

func holdElection(t *testing.T, rng *rand.Rand, p approval.Policy, people []string, in map[string][]string) {
	t.Helper()
	r, approved := request(p), map[string]bool{}
	for range 25 {
		name := people[rng.IntN(len(people))]
		next, o, err := approval.Evaluate(r, approve(r, name, in[name]...), opened.Add(time.Minute))
		if err == nil && (approved[name] || p.ForbidStarter && name == "sam") {
			t.Fatalf("%+v: %s was let in", p, name)
		}
		if err == nil {
			approved[name] = true
		}
		r = next
		if want := enough(p, approved, in); want != (o == approval.Accepted) {
			t.Fatalf("%+v: approved by %v, member of %v: %s", p, approved, in, o)
		}
	}
	if diff := cmp.Diff(approval.Missing(r), approval.Missing(stored(t, r))); diff != "" {
		t.Fatalf("%+v: storing changed what is missing:\n%s", p, diff)
	}
}

func enough(p approval.Policy, approved map[string]bool, in map[string][]string) bool {
	for _, q := range p.Quorums {
		n := 0
		for name := range approved {
			if q.Group == "" || strings.Contains(strings.Join(in[name], ""), q.Group) {
				n++
			}
		}
		if n < q.Count {
			return false
		}
	}
	return true
}

// stored returns the request as a store gives it back.
func stored(t *testing.T, r approval.Request) approval.Request {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back approval.Request
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestRequestName(t *testing.T) {
	for _, tc := range []struct {
		group         string
		when          approval.When
		name, byStage string
	}{
		{"", approval.After, "r1-after-prod", "r1-prod"},
		{"", approval.Before, "r1-before-prod", "r1-before-prod"},
		{"eu", approval.After, "r1-after-prod-eu", "r1-prod-eu"},
		{"eu", approval.Before, "r1-before-prod-eu", "r1-before-prod-eu"},
	} {
		if got := approval.NamedByStage.RequestName("r1", "prod", tc.group, tc.when); got != tc.byStage {
			t.Errorf("by stage, %s %q: %s", tc.when, tc.group, got)
		}
		if got := approval.GroupRequestName("r1", "prod", tc.group, tc.when); got != tc.name {
			t.Errorf("%s %q: %s", tc.when, tc.group, got)
		}
		if got := approval.RequestName("r1", "prod", tc.when); tc.group == "" && got != tc.name {
			t.Errorf("%s: %s", tc.when, got)
		}
	}
}

func TestRefusedErrorIsBoundedAndPrintable(t *testing.T) {
	r := request(approval.Policy{})
	_, _, err := approval.Evaluate(r, approve(r, strings.Repeat("\x1b", 1<<20)), opened)
	if len(err.Error()) > 4096 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%d bytes: %.100q", len(err.Error()), err.Error())
	}
}
