package authority_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/authority"
)

// says returns an authority with a constant answer in words: a verdict (approve, reject, or
// momentary for an approval that holds only at a point in time), a name and groups, or "error",
// "panic", "exit", "hang" or "nothing".
func says(text string) approval.Authority {
	return approval.Func(func(ctx context.Context, _ approval.Request) (approval.Decision, error) {
		word := strings.Fields(text)
		d := approval.Decision{Comment: "I " + word[0]}
		switch word[0] {
		case "error":
			return d, errors.New("no connection")
		case "panic":
			panic("of the authority")
		case "exit":
			runtime.Goexit()
		case "hang":
			<-ctx.Done()
			return approval.Decision{}, ctx.Err()
		case "nothing":
			return approval.Decision{}, nil
		case "momentary":
			d.Verdict, d.PointInTime = approval.Approve, true
		case "approve":
			d.Verdict = approval.Approve
		case "reject":
			d.Verdict = approval.Reject
		}
		d.By = approval.Identity{Name: word[1], Groups: word[2:]}
		return d, nil
	})
}

// said describes a decision in the words of says.
func said(d approval.Decision) string {
	verdict := map[approval.Verdict]string{"": "nothing", approval.Approve: "approve", approval.Reject: "reject"}[d.Verdict]
	if d.PointInTime {
		verdict = "momentary"
	}
	return strings.Join(slices.Concat([]string{verdict, d.By.Name}, d.By.Groups), " ")
}

func request(quorums ...approval.Quorum) approval.Request {
	return approval.Request{
		Name: "r-after-all", Run: "r", Placement: "p", Binding: approval.Binding{RunUID: "uid", Stage: "all", When: approval.After},
		Starter: approval.Identity{Name: "starter"}, Policy: approval.Policy{Quorums: quorums}, Opened: time.Now(),
	}
}

func group(name string, count int) approval.Quorum { return approval.Quorum{Group: name, Count: count} }

// decided adds a recorded approval to a request.
func decided(r approval.Request, name string, groups ...string) approval.Request {
	r.Decisions = append(r.Decisions, approval.Decision{
		Verdict: approval.Approve, By: approval.Identity{Name: name, Groups: groups}, At: r.Opened, Binding: r.Binding,
	})
	return r
}

// distinct makes the approvers of a request count in one quorum each.
func distinct(r approval.Request) approval.Request {
	r.Policy.DistinctApprovers = true
	return r
}

func all(members []string) (out []approval.Authority) {
	for _, m := range members {
		out = append(out, says(m))
	}
	return out
}

// combined is a case of a combination: the answers of its members, and the result.
type combined struct {
	members []string
	request func() approval.Request
	want    string
	// problem is a part of the error.
	problem string
}

func (c combined) check(t *testing.T, combine func(...approval.Authority) approval.Authority) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := request(group("sre", 2))
		if c.request != nil {
			r = c.request()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		d, err := combine(all(c.members)...).Decide(ctx, r)
		if c.want != "" && (err != nil || said(d) != c.want) {
			t.Errorf("got %q, %v, want %q", said(d), err, c.want)
		}
		if c.want == "" && (d.Verdict != "" || !isProblem(err, c.problem)) {
			t.Errorf("got %q, %v, want no verdict and %q", said(d), err, c.problem)
		}
	})
}

// isProblem reports whether an error contains a text, or is nil if the text is empty.
func isProblem(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.Contains(err.Error(), text)
}

func forbidding() approval.Request {
	r := request(group("sre", 1))
	r.Policy.ForbidStarter = true
	return r
}

func TestAll(t *testing.T) {
	for name, c := range map[string]combined{
		"none":                    {},
		"one":                     {members: []string{"approve a sre"}, want: "approve a sre"},
		"two":                     {members: []string{"approve a sre", "approve b sre"}, want: "approve a, b sre"},
		"groups in common":        {members: []string{"approve a sre dev", "approve b qa sre"}, want: "approve a, b sre"},
		"no group in common":      {members: []string{"approve a sre", "approve b dev"}, want: "approve a, b"},
		"one identity":            {members: []string{"approve a sre", "approve a sre"}, want: "approve a sre"},
		"the weakest":             {members: []string{"approve a sre", "momentary b sre"}, want: "momentary a, b sre"},
		"a rejection":             {members: []string{"approve a sre", "reject b sre"}, want: "reject b sre"},
		"a rejection of the last": {members: []string{"hang", "error", "reject b sre"}, want: "reject b sre"},
		"one does not say":        {members: []string{"approve a sre", "nothing"}},
		"an error":                {members: []string{"approve a sre", "error"}, problem: "authority 2: no connection"},
		"errors": {
			members: []string{"error", "exit", "panic"},
			problem: "authority 1: no connection\nauthority 2: it ended its goroutine\nauthority 3: Decide failed by a panic",
		},
		"one hangs":   {members: []string{"approve a sre", "hang"}, problem: "authority 2: context deadline exceeded"},
		"the starter": {members: []string{"approve starter sre", "approve b sre"}, request: forbidding},
		"all are recorded": {members: []string{"approve a sre", "approve b sre"}, request: func() approval.Request {
			return decided(decided(request(group("sre", 3)), "a", "sre"), "b", "sre")
		}},
		"one is recorded": {members: []string{"approve a sre", "approve b sre"}, want: "approve a, b sre", request: func() approval.Request {
			return decided(request(group("sre", 2)), "a", "sre")
		}},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, authority.All) })
	}
}

func TestAny(t *testing.T) {
	for name, c := range map[string]combined{
		"none":              {},
		"one":               {members: []string{"nothing", "approve b sre"}, want: "approve b sre"},
		"beside a problem":  {members: []string{"error", "panic", "hang", "reject c sre", "approve b sre"}, want: "approve b sre"},
		"momentary":         {members: []string{"nothing", "momentary b sre"}, want: "momentary b sre"},
		"a lasting one":     {members: []string{"momentary b sre", "approve a sre"}, want: "approve a sre"},
		"some reject":       {members: []string{"reject a sre", "nothing"}},
		"all reject":        {members: []string{"reject a sre", "reject b sre"}, want: "reject a sre"},
		"one cannot reject": {members: []string{"reject a sre", "error"}, problem: "authority 2: no connection"},
		"one that counts": {
			members: []string{"approve starter sre", "approve x dev", "approve b sre"}, request: forbidding, want: "approve b sre",
		},
		"one is recorded": {members: []string{"approve a sre", "approve b sre"}, want: "approve b sre", request: func() approval.Request {
			return decided(request(group("sre", 2)), "a", "sre")
		}},
		"none counts": {members: []string{"approve x dev"}, want: "approve x dev"}, // the engine says why
	} {
		t.Run(name, func(t *testing.T) { c.check(t, authority.Any) })
	}
}

func TestFirst(t *testing.T) {
	for name, c := range map[string]combined{
		"none":              {},
		"in order":          {members: []string{"reject a sre", "approve b sre"}, want: "reject a sre"},
		"a substitute":      {members: []string{"nothing", "approve b sre"}, want: "approve b sre"},
		"of one that fails": {members: []string{"error", "panic", "momentary b sre", "hang"}, want: "momentary b sre"},
		"of one that hangs": {members: []string{"hang", "approve b sre"}, want: "approve b sre"},
		"no verdict":        {members: []string{"nothing", "error"}, problem: "authority 2: no connection"},
		"one is recorded": {members: []string{"approve a sre", "approve b sre"}, want: "approve b sre", request: func() approval.Request {
			return decided(request(group("sre", 2)), "a", "sre")
		}},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, authority.First) })
	}
}

func TestPerGroup(t *testing.T) {
	three := func() approval.Request { return request(group("sre", 1), group("qa", 1), group("sec", 1)) }
	for name, c := range map[string]struct {
		groups  map[string]string
		request func() approval.Request
		want    string
		problem string
	}{
		"one of the missing groups": {map[string]string{"qa": "nothing", "sre": "approve a sre"}, three, "approve a sre", ""},
		"what is missing": {map[string]string{"qa": "approve b qa", "sre": "approve a sre"}, func() approval.Request {
			return decided(three(), "x", "sre")
		}, "approve b qa", ""},
		"nothing is missing of them": {map[string]string{"sre": "approve a sre"}, func() approval.Request {
			return decided(three(), "x", "sre")
		}, "", ""},
		"only for its group": {map[string]string{"sre": "approve a sre qa sec"}, three, "approve a sre", ""},
		"not in its group":   {map[string]string{"sre": "approve a qa"}, three, "", `group sre: "a", which answers, is not in the group`},
		"a rejection goes first": {
			map[string]string{"sre": "momentary a sre", "qa": "error", "sec": "reject c sec"}, three, "reject c sec", "",
		},
		"a lasting one goes first": {
			map[string]string{"sre": "momentary a sre", "qa": "error", "sec": "approve c sec"}, three, "approve c sec", "",
		},
		"momentary ones together": {
			map[string]string{"sre": "momentary a sre x", "qa": "momentary b qa", "sec": "nothing"}, three, "momentary a, b sre qa", "",
		},
		"errors": {
			map[string]string{"sre": "error", "qa": "hang"},
			three, "",
			"group sre: no connection\ngroup qa: context deadline exceeded",
		},
		"distinct momentary ones": {
			map[string]string{"sre": "momentary a sre", "qa": "momentary b qa", "sec": "error"},
			func() approval.Request { return distinct(three()) },
			"",
			"group sec: no connection\ngroup sre and group qa approve only at a point in time, which counts as one approval, and the policy has DistinctApprovers: at most one of these groups may have such an authority",
		},
		"a distinct momentary one": {
			map[string]string{"sre": "momentary a sre", "qa": "nothing"}, func() approval.Request { return distinct(three()) }, "momentary a sre", "",
		},
		"distinct momentary ones, one is enough": {
			map[string]string{"sre": "momentary a sre", "qa": "momentary b qa"}, func() approval.Request {
				return distinct(decided(request(group("sre", 1), group("qa", 1), group("slipway:no-drift", 1)), "x", "sre", "qa"))
			}, "momentary a sre", "",
		},
		"distinct, a complete group": {map[string]string{"sre": "approve a sre"}, func() approval.Request {
			return distinct(decided(three(), "x", "sre", "qa"))
		}, "approve a sre", ""},
		"any group":    {map[string]string{"": "approve a sre"}, func() approval.Request { return request() }, "approve a", ""},
		"no authority": {nil, three, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			groups := map[string]approval.Authority{}
			for g, text := range c.groups {
				groups[g] = says(text)
			}
			combination := func(...approval.Authority) approval.Authority { return authority.PerGroup(groups) }
			combined{request: c.request, want: c.want, problem: c.problem}.check(t, combination)
		})
	}
}

func TestTheCommentOfAll(t *testing.T) {
	third := authority.Named(approval.Identity{Name: "c"}, says("approve x"))
	d, err := authority.All(says("approve a"), says("momentary b"), third).Decide(t.Context(), request())
	if want := "a: I approve; b: I momentary; c: I approve"; err != nil || d.Comment != want {
		t.Errorf("got %q, %v", d.Comment, err)
	}
	long := func(name string) approval.Authority {
		return approval.Func(func(_ context.Context, r approval.Request) (approval.Decision, error) {
			by := approval.Identity{Name: strings.Repeat(name, 512)}
			return approval.Decision{Verdict: approval.Approve, By: by, Comment: strings.Repeat("ä", 512)}, nil
		})
	}
	r := request()
	d, err = authority.All(long("a"), long("b")).Decide(t.Context(), r)
	d.Binding, d.At = r.Binding, time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if _, outcome, err := approval.Evaluate(r, d, time.Now()); err != nil || outcome != approval.Accepted {
		t.Errorf("what is joined of long texts: %s, %v", outcome, err)
	}
}

func TestNamed(t *testing.T) {
	bot := approval.Identity{Name: "bot", Groups: []string{"robots"}}
	for text, want := range map[string]string{
		"momentary a sre": "momentary bot robots", "reject a sre": "reject bot robots", "nothing": "nothing ",
	} {
		if d, err := authority.Named(bot, says(text)).Decide(t.Context(), request()); err != nil || said(d) != want {
			t.Errorf("%s: got %q, %v", text, said(d), err)
		}
	}
	_, err := authority.Any(says("nothing"), authority.Named(bot, says("error"))).Decide(t.Context(), request())
	if err == nil || !strings.HasPrefix(err.Error(), "bot: ") {
		t.Errorf("%v", err)
	}
}

func TestWithDeadline(t *testing.T) {
	bot := approval.Identity{Name: "bot", Groups: []string{"sre"}}
	for name, c := range map[string]struct {
		asked string
		last  approval.Decision
		want  string
	}{
		"before it":        {"approve a sre", approval.Decision{}, "approve a sre, then reject deadline sre qa: no answer within 1h0m0s"},
		"with an identity": {"nothing", approval.Decision{By: bot}, "nothing , then reject bot sre: no answer within 1h0m0s"},
		"that approves": {
			"nothing",
			approval.Decision{Verdict: approval.Approve, By: bot, Comment: "by default"},
			"nothing , then approve bot sre: by default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := authority.WithDeadline(says(c.asked), time.Hour, c.last)
				r := request(group("sre", 1), group("slipway:no-drift", 1), group("qa", 1), group("", 1))
				time.Sleep(time.Hour - 1)
				before, err := a.Decide(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Nanosecond)
				after, err := a.Decide(t.Context(), r)
				if got := said(before) + ", then " + said(after) + ": " + after.Comment; err != nil || got != c.want {
					t.Errorf("got %s, %v, want %s", got, err, c.want)
				}
			})
		})
	}
}

func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority.Last(says("approve m metrics"), "metrics", "slipway:no-drift")
		policy := []approval.Quorum{group("sre", 1), group("metrics", 1), group("slipway:no-drift", 1)}
		for _, c := range []struct {
			name string
			r    approval.Request
			want string
		}{
			{"others are missing", request(policy...), "nothing "},
			{"its turn", decided(request(policy...), "a", "sre"), "momentary m metrics"},
			{"a wait has not ended", func() approval.Request {
				r := decided(request(policy...), "a", "sre")
				r.NotBefore = time.Now().Add(1)
				return r
			}(), "nothing "},
		} {
			if d, err := a.Decide(t.Context(), c.r); err != nil || said(d) != c.want {
				t.Errorf("%s: got %q, %v", c.name, said(d), err)
			}
		}
		d, err := authority.Last(says("reject m metrics"), "metrics").Decide(t.Context(), request(group("metrics", 1)))
		if err != nil || said(d) != "reject m metrics" {
			t.Errorf("got %q, %v", said(d), err)
		}
	})
}

// every is an authority that asks to be called at an interval.
type every struct {
	approval.Authority
	d time.Duration
}

func (e every) NextAsk(approval.Request) time.Duration { return e.d }

func TestCombinationUsesTheEarliestScheduleOfItsMembers(t *testing.T) {
	const s = time.Second
	quiet := says("nothing")
	for name, c := range map[string]struct {
		a    approval.Authority
		open time.Duration
		want time.Duration
	}{
		"no member says":          {authority.All(quiet, quiet), 5 * s, 0},
		"each says":               {authority.Any(every{quiet, 50 * s}, every{quiet, 40 * s}), 5 * s, 40 * s},
		"one says":                {authority.First(quiet, every{quiet, 40 * s}), 5 * s, 5 * s},
		"one says, at first":      {authority.First(quiet, every{quiet, 40 * s}), 0, s},
		"one says, later":         {authority.First(quiet, every{quiet, 40 * s}), time.Hour, 10 * s},
		"one says sooner":         {authority.First(quiet, every{quiet, s / 2}), time.Hour, s / 2},
		"a deadline":              {authority.WithDeadline(quiet, time.Minute, approval.Decision{}), 57 * s, 3 * s},
		"a deadline far away":     {authority.WithDeadline(quiet, time.Hour, approval.Decision{}), 57 * s, 10 * s},
		"a deadline that is over": {authority.WithDeadline(every{quiet, s}, time.Minute, approval.Decision{}), time.Minute, 0},
		"a deadline and a wish":   {authority.WithDeadline(every{quiet, 40 * s}, time.Hour, approval.Decision{}), 57 * s, 40 * s},
		"a name":                  {authority.Named(approval.Identity{Name: "bot"}, every{quiet, 7 * s}), 0, 7 * s},
		"its turn":                {authority.Last(every{quiet, 7 * s}, "sre", "qa"), 0, 7 * s},
		"not its turn":            {authority.Last(every{quiet, 7 * s}, "qa"), 0, 0},
		"the missing groups": {authority.PerGroup(map[string]approval.Authority{
			"sre": every{quiet, 7 * s}, "qa": every{quiet, 9 * s}, "sec": every{quiet, s},
		}), 0, 7 * s},
		"a panic": {authority.All(every{nil, 7 * s}, panics{quiet}), 0, s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := request(group("sre", 1), group("qa", 1))
				time.Sleep(c.open)
				if got := c.a.(approval.Scheduler).NextAsk(r); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

type panics struct{ approval.Authority }

func (panics) NextAsk(approval.Request) time.Duration { panic("no") }

// TestAMemberIsAskedAgainOnceItHasReturned checks that a member which ignores its context does not
// keep the others from answering, and is not called again before it returns.
func TestAMemberIsAskedAgainOnceItHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		stuck := approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
			calls.Add(1)
			time.Sleep(time.Minute)
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "slow"}}, nil
		})
		a := authority.All(stuck, says("approve b"))
		decide := func(r approval.Request) (approval.Decision, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return a.Decide(ctx, r)
		}
		r, other := request(), request()
		other.Stage = "other"
		for range 3 {
			begin := time.Now()
			if d, err := decide(r); d.Verdict != "" || err == nil || time.Since(begin) > 10*time.Second {
				t.Errorf("got %q, %v after %v", said(d), err, time.Since(begin))
			}
		}
		if _, err := decide(other); err == nil || calls.Load() != 2 {
			t.Errorf("%d calls, %v, want one of each request", calls.Load(), err)
		}
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if d, err := a.Decide(ctx, r); err != nil || said(d) != "approve slow, b" {
			t.Errorf("got %q, %v", said(d), err)
		}
	})
}

// TestMembersAreAskedConcurrently checks that members are asked concurrently, and that calls are
// cancelled once they are no longer needed.
func TestMembersAreAskedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(name string) approval.Authority {
			return approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
				time.Sleep(3 * time.Second)
				return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: name}}, nil
			})
		}
		begin := time.Now()
		d, err := authority.All(slow("a"), slow("b"), slow("c")).Decide(t.Context(), request())
		if err != nil || said(d) != "approve a, b, c" || time.Since(begin) != 3*time.Second {
			t.Errorf("got %q, %v after %v", said(d), err, time.Since(begin))
		}
		var ended atomic.Bool
		waiting := approval.Func(func(ctx context.Context, _ approval.Request) (approval.Decision, error) {
			<-ctx.Done()
			ended.Store(true)
			return approval.Decision{}, ctx.Err()
		})
		if d, err := authority.Any(waiting, says("approve b")).Decide(t.Context(), request()); err != nil || said(d) != "approve b" {
			t.Errorf("got %q, %v", said(d), err)
		}
		synctest.Wait()
		if !ended.Load() {
			t.Error("the call that was not needed goes on")
		}
	})
}

// TestMembersHaveTheirOwnRequest checks that a member cannot change the request that another member
// receives.
func TestMembersHaveTheirOwnRequest(t *testing.T) {
	writes := approval.Func(func(_ context.Context, r approval.Request) (approval.Decision, error) {
		r.Decisions[0].By.Name, r.Policy.Quorums[0].Count = "changed", 9
		return approval.Decision{}, nil
	})
	r := decided(request(group("sre", 2)), "a", "sre")
	want := decided(request(group("sre", 2)), "a", "sre")
	if _, err := authority.All(writes, writes).Decide(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Policy, r.Policy); d != "" || r.Decisions[0].By.Name != "a" {
		t.Errorf("%s%v", d, r.Decisions)
	}
}
