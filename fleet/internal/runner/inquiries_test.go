package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/stages"
)

// asked are inquiries to an authority, with their commands and log lines.
type asked struct {
	*inquiries
	mu       sync.Mutex
	requests []approval.Request
	commands []stages.Command
	woken    int
	log      bytes.Buffer
}

// newAsked returns inquiries to an authority that answers with a function, for runs that ask again
// after ten seconds at first.
func newAsked(answer approval.Func) *asked {
	a := &asked{}
	count := func(ctx context.Context, r approval.Request) (approval.Decision, error) {
		a.mu.Lock()
		a.requests = append(a.requests, r)
		a.mu.Unlock()
		return answer(ctx, r)
	}
	a.inquiries = &inquiries{
		authority: approval.Func(count), poll: 10 * time.Second, clock: time.Now, now: time.Now, log: slog.New(slog.NewTextHandler(&a.log, nil)),
		put: func(_ context.Context, _ string, c stages.Command) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.commands = append(a.commands, c)
			return nil
		},
		wake: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.woken++
		},
		open: map[string]*inquiry{},
	}
	return a
}

func (a *asked) end() {
	a.cancel()
	a.wait()
}

// times returns how often the authority was asked.
func (a *asked) times() int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

func requestOf(stage string) *approval.Request {
	return &approval.Request{Name: "r-" + stage, Binding: approval.Binding{RunUID: "uid", Stage: stage, When: approval.After}, Opened: time.Now()}
}

// A lasting answer is stored as a command to the run, dated not before the request. The same answer
// again is the same command.
func TestALastingAnswerIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(context.Context, approval.Request) (approval.Decision, error) {
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}, nil
		})
		defer a.end()
		r := requestOf("canary")
		r.Opened = time.Now().Add(time.Minute) // by the time of the run
		a.reconcile(t.Context(), []*approval.Request{r})
		time.Sleep(15 * time.Second)
		if a.times() != 2 || len(a.commands) != 2 || a.commands[0].ID != a.commands[1].ID {
			t.Fatalf("asked %d times, stored %+v", a.times(), a.commands)
		}
		c := a.commands[0]
		if c.Verb != stages.Decide || c.By.Name != "ann" || !c.At.Equal(r.Opened) || c.Decision.Binding != r.Binding {
			t.Errorf("stored %+v", c)
		}
		if answers := a.answers(time.Now()); len(answers) != 0 {
			t.Errorf("it counts as momentary too: %+v", answers)
		}
	})
}

// A momentary answer is not stored. It wakes the driver, is dated when it came, and counts for a
// minute or until the request changes, after which the authority is asked at once.
func TestAMomentaryAnswerCountsForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		a := newAsked(func(context.Context, approval.Request) (d approval.Decision, _ error) {
			once.Do(func() { d = approval.Decision{Verdict: approval.Approve, PointInTime: true} })
			return d, nil
		})
		defer a.end()
		a.poll = time.Hour
		r := requestOf("canary")
		came := time.Now()
		a.reconcile(t.Context(), []*approval.Request{r})
		synctest.Wait()
		if a.woken != 1 || len(a.commands) != 0 {
			t.Errorf("woken %d times, stored %+v", a.woken, a.commands)
		}
		time.Sleep(approval.PointInTimeAge)
		if answers := a.answers(time.Now()); len(answers) != 1 || !answers[0].Decision.At.Equal(came) || answers[0].Request.Name != r.Name {
			t.Errorf("after a minute: %+v", answers)
		}
		// The run may have stepped at a time that is ahead of the clock.
		if answers := a.answers(time.Now().Add(time.Hour)); len(answers) != 1 || !answers[0].Decision.At.Equal(came.Add(time.Hour)) {
			t.Errorf("by the time of a run that is ahead: %+v", answers)
		}
		time.Sleep(time.Nanosecond)
		if answers := a.answers(time.Now()); len(answers) != 0 {
			t.Errorf("after more than a minute: %+v", answers)
		}
	})
}

// If the request changes, a momentary answer to the old one is void, and the authority is asked at
// once. An unchanged request is not put again.
func TestAChangedRequestIsPutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(ctx context.Context, r approval.Request) (approval.Decision, error) {
			if len(r.Decisions) > 0 {
				<-ctx.Done() // it does not answer again
			}
			return approval.Decision{Verdict: approval.Approve, PointInTime: true}, nil
		})
		defer a.end()
		a.poll = time.Hour
		r := requestOf("canary")
		for range 2 {
			a.reconcile(t.Context(), []*approval.Request{r})
			if n := a.times(); n != 1 || len(a.answers(time.Now())) != 1 {
				t.Errorf("asked %d times, answers %+v", n, a.answers(time.Now()))
			}
		}
		changed := *r
		changed.Decisions = []approval.Decision{{Verdict: approval.Approve, By: approval.Identity{Name: "bob"}}}
		a.reconcile(t.Context(), []*approval.Request{&changed})
		if n := a.times(); n != 2 || len(a.answers(time.Now())) != 0 {
			t.Errorf("asked %d times after a change, answers %+v", n, a.answers(time.Now()))
		}
	})
}

// An answer to a request that has changed in the meantime is void.
func TestALateAnswerToAChangedRequestIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(ctx context.Context, r approval.Request) (approval.Decision, error) {
			if len(r.Decisions) > 0 {
				<-ctx.Done() // it does not answer again
			}
			time.Sleep(time.Second)
			return approval.Decision{Verdict: approval.Approve, PointInTime: true}, nil
		})
		defer a.end()
		r := requestOf("canary")
		a.reconcile(t.Context(), []*approval.Request{r})
		synctest.Wait()
		changed := *r
		changed.Decisions = make([]approval.Decision, 1)
		a.reconcile(t.Context(), []*approval.Request{&changed})
		time.Sleep(time.Second)
		if n := a.times(); n != 2 || len(a.answers(time.Now())) != 0 {
			t.Errorf("asked %d times, answers %+v", n, a.answers(time.Now()))
		}
	})
}

// A request that the run no longer has is withdrawn: the authority's call is cancelled, and its
// answer does not count.
func TestARequestIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := false
		a := newAsked(func(ctx context.Context, r approval.Request) (approval.Decision, error) {
			if r.Stage == "canary" {
				<-ctx.Done()
				cancelled = true
			}
			return approval.Decision{Verdict: approval.Approve, PointInTime: true}, ctx.Err()
		})
		a.reconcile(t.Context(), []*approval.Request{requestOf("canary"), requestOf("rest")})
		if n := a.times(); n != 2 || cancelled {
			t.Fatalf("asked %d times, cancelled: %t", n, cancelled)
		}
		a.reconcile(t.Context(), []*approval.Request{requestOf("rest")})
		synctest.Wait()
		if answers := a.answers(time.Now()); !cancelled || len(a.open) != 1 || len(answers) != 1 || answers[0].Request.Stage != "rest" {
			t.Errorf("cancelled: %t, open %d, answers %+v", cancelled, len(a.open), answers)
		}
		if a.end(); strings.Contains(a.log.String(), "did not answer") {
			t.Errorf("the withdrawal is logged as an error: %s", a.log.String())
		}
	})
}

// An authority that fails is asked again after growing intervals, or when it asks to be asked.
func TestAnAuthorityIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		wish  time.Duration
		times int // in the first 60 s
	}{
		"by the engine's intervals": {times: 3}, // after 0, 10 and 30 s
		"by its own":                {wish: 7 * time.Second, times: 9},
		"not too often":             {wish: time.Millisecond, times: 61},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked(func(context.Context, approval.Request) (approval.Decision, error) {
					return approval.Decision{}, errors.New("no route")
				})
				defer a.end()
				a.authority = guarded(guard.New(time.Minute), wishful{a.authority, c.wish})
				a.reconcile(t.Context(), []*approval.Request{requestOf("canary")})
				time.Sleep(60 * time.Second)
				if got := a.times(); got != c.times {
					t.Errorf("asked %d times, want %d", got, c.times)
				}
			})
		})
	}
}

// wishful is an authority that wants to be asked again after a time.
type wishful struct {
	approval.Authority
	after time.Duration
}

func (w wishful) NextAsk(approval.Request) time.Duration { return w.after }

// The engine's own authority is asked only if a policy requires its approval, and no other can
// answer for it.
func TestOnlyTheEngineAnswersForDrift(t *testing.T) {
	for name, policy := range map[string]approval.Policy{
		"required": {Quorums: []approval.Quorum{{Group: planning.NoDriftGroup, Count: 1}}}, "not required": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim := func(context.Context, approval.Request) (approval.Decision, error) {
					return approval.Decision{Verdict: approval.Approve, PointInTime: true, By: approval.Identity{Name: "x", Groups: []string{planning.NoDriftGroup}}}, nil
				}
				a := newAsked(claim)
				defer a.end()
				gates := 0
				a.drift = func() approval.Authority {
					gates++
					return approval.Func(claim)
				}
				r := requestOf("canary")
				r.Policy = policy
				a.reconcile(t.Context(), []*approval.Request{r})
				synctest.Wait()
				if want := len(policy.Quorums); gates != want || len(a.answers(time.Now())) != want {
					t.Errorf("%d gates, answers %+v", gates, a.answers(time.Now()))
				}
				if !strings.Contains(a.log.String(), "which is the engine's own") {
					t.Errorf("the log does not tell of the false claim: %s", a.log.String())
				}
			})
		})
	}
}

// When an authority gives a momentary answer, the others that have not are asked at once, with that
// answer among the decisions: one may wait for the other.
func TestAMomentaryAnswerIsShownToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(context.Context, approval.Request) (approval.Decision, error) {
			time.Sleep(time.Second)
			return approval.Decision{Verdict: approval.Approve, PointInTime: true, By: approval.Identity{Name: "host"}}, nil
		})
		defer a.end()
		a.poll = time.Hour
		var seen []int
		a.drift = func() approval.Authority {
			return approval.Func(func(_ context.Context, r approval.Request) (d approval.Decision, _ error) {
				seen = append(seen, len(r.Decisions))
				if len(r.Decisions) > 0 {
					d = approval.Decision{Verdict: approval.Approve, PointInTime: true}
				}
				return d, nil
			})
		}
		r := requestOf("canary")
		r.Policy.Quorums = []approval.Quorum{{Group: planning.NoDriftGroup, Count: 1}}
		a.reconcile(t.Context(), []*approval.Request{r})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(seen) != 2 || seen[0] != 0 || seen[1] != 1 || len(a.answers(time.Now())) != 2 {
			t.Errorf("the second authority saw %v decisions, answers %+v", seen, a.answers(time.Now()))
		}
	})
}
