package runner

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// inquiry is an open request that authorities are asked to decide.
type inquiry struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	// request is the request as the run has it; version counts its changes.
	request approval.Request
	version int
	parties []*party
}

// party is an authority that is asked about a request.
type party struct {
	approval.Authority
	// wake makes consult ask the authority at once, because a change may affect its answer.
	wake chan struct{}
	// momentary is the authority's last answer if it is a momentary approval, and nil otherwise. It
	// is not stored: after a crash the authority is asked again.
	momentary *momentaryAnswer
}

// momentaryAnswer is a momentary approval, which is valid only at a point in time. It records its
// arrival by two clocks: the monotonic time of the process, which does not jump, and the engine's
// clock, which continues while the process is suspended.
type momentaryAnswer struct {
	stages.Answer
	came, clock time.Time
}

// age returns the time since the answer arrived, by the clock that measures more.
func (h *momentaryAnswer) age(clock time.Time) time.Duration {
	return max(time.Since(h.came), clock.Sub(h.clock))
}

// ask asks the authorities about a request until the run no longer has it, and returns the key of
// the request.
func (d *driver) ask(ctx context.Context, r *approval.Request) string {
	key := CommandID(&approval.Decision{}, r)
	if q := d.asking[key]; q != nil {
		q.update(r)
		return key
	}
	actx, cancel := context.WithCancel(ctx)
	q := &inquiry{cancel: cancel, request: *r}
	if a := d.e.cfg.Authority; a != nil {
		q.join(guarded(d.e.authorities, a))
	}
	if planning.AsksForDrift(&r.Policy) {
		q.join(d.e.drifts.Gate(d.plan))
	}
	d.asking[key] = q
	for _, p := range q.parties {
		d.asks.Go(func() { d.consult(actx, q, p) })
	}
	return key
}

func (q *inquiry) join(a approval.Authority) {
	q.parties = append(q.parties, &party{Authority: a, wake: make(chan struct{}, 1)})
}

// update stores the current request of the run. If it has changed, answers to the old request are
// void and all authorities are asked again at once.
func (q *inquiry) update(r *approval.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.request.Decisions) == len(r.Decisions) && q.request.NotBefore.Equal(r.NotBefore) {
		return
	}
	q.request = *r
	q.version++
	for _, p := range q.parties {
		p.momentary = nil
		backoff.Wake(p.wake)
	}
}

// put returns the request for one party and its version. The request includes the valid momentary
// answers of the other parties.
func (q *inquiry) put(to *party, clock time.Time) (approval.Request, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-to.wake:
	default:
	}
	r := q.request
	r.Decisions = slices.Clone(r.Decisions)
	for _, p := range q.parties {
		if p != to && p.holds(clock) {
			r.Decisions = append(r.Decisions, p.momentary.Decision)
		}
	}
	return r, q.version
}

func (p *party) holds(clock time.Time) bool {
	return p.momentary != nil && p.momentary.age(clock) <= approval.PointInTimeAge
}

// answered records a party's answer to a version of the request. d is nil if the answer is not a
// momentary approval. An answer to an older version is dropped, because the party is asked again.
// If the answer makes the party's approval valid, the parties without a valid approval are asked at
// once.
func (q *inquiry) answered(by *party, version int, d *approval.Decision, clock time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := by.holds(clock)
	by.momentary = nil
	if d == nil || version != q.version {
		return
	}
	by.momentary = &momentaryAnswer{Answer: stages.Answer{Request: q.request, Decision: *d}, came: time.Now(), clock: clock}
	for _, p := range q.parties {
		if !before && !p.holds(clock) {
			backoff.Wake(p.wake)
		}
	}
}

// answers returns the valid momentary answers, with timestamps in the time of the run.
func (d *driver) answers() (out []stages.Answer) {
	clock := d.e.cfg.Clock()
	now := commands.Later(clock, d.rec.Run.Now.Time())
	for _, q := range d.asking {
		q.mu.Lock()
		for _, p := range q.parties {
			if p.holds(clock) {
				a := p.momentary.Answer
				a.Decision.At = commands.Later(now.Add(-p.momentary.age(clock)), q.request.Opened)
				out = append(out, a)
			}
		}
		q.mu.Unlock()
	}
	return out
}

// consult asks an authority until the run no longer asks. It asks again at the time that the
// authority requests, or else after intervals that double from Poll to ten times Poll, and at once
// after a change.
func (d *driver) consult(ctx context.Context, q *inquiry, p *party) {
	e := d.e
	pause := backoff.Poll(e.cfg.Poll)
	for ctx.Err() == nil {
		r, version := q.put(p, e.cfg.Clock())
		answer, err := p.Decide(ctx, r)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("the authority did not answer", "request", r.Name, "error", err)
		}
		if _, own := p.Authority.(*driftwatch.Gate); err == nil && !own && planning.ClaimsDrift(answer.By) {
			err = fmt.Errorf("%s says that it is in group %s, which is the engine's own", answer.By.Name, planning.NoDriftGroup)
			e.log.Warn("an answer is not heeded", "request", r.Name, "error", err)
		}
		answer.At, answer.Binding = commands.Later(e.state.Now(), r.Opened), r.Binding
		switch {
		case err != nil || answer.Verdict == "":
			q.answered(p, version, nil, e.cfg.Clock())
		case answer.IsMomentary():
			q.answered(p, version, &answer, e.cfg.Clock())
			d.wakeUp()
		default:
			q.answered(p, version, nil, e.cfg.Clock())
			c := stages.Command{ID: CommandID(&answer, &r), Verb: stages.Decide, By: answer.By, At: answer.At, Decision: &answer}
			if err := e.commands.Put(ctx, r.RunUID, c); err != nil && ctx.Err() == nil { // the run may have ended
				e.log.Warn("an answer was not stored", "request", r.Name, "error", err)
			}
		}
		d.pause(ctx, p, &r, pause)
	}
}

// pause waits until it is time to ask an authority again. The intervals start from Poll again after
// an authority has requested a time.
func (d *driver) pause(ctx context.Context, p *party, r *approval.Request, poll *backoff.Backoff) {
	own, ok := p.Authority.(guardedScheduler)
	if !ok {
		poll.WaitFor(ctx, p.wake)
		return
	}
	wish, err := own.nextAsk(ctx, *r)
	if err != nil && ctx.Err() == nil {
		d.e.log.Warn("the authority did not say when to ask it next", "request", r.Name, "error", err)
	}
	if err != nil || wish <= 0 {
		poll.WaitFor(ctx, p.wake)
		return
	}
	wish = max(wish, d.e.cfg.Poll/10)
	backoff.SleepFor(ctx, wish, p.wake)
	poll.Reset()
}

// guarded protects the engine from an authority of the host that hangs.
func guarded(g *guard.Guard, a approval.Authority) approval.Authority {
	safe := guardedAuthority{a, g}
	if s, ok := a.(approval.Scheduler); ok {
		return guardedScheduler{safe, s}
	}
	return safe
}

type guardedAuthority struct {
	approval.Authority
	guard *guard.Guard
}

// Decide calls Decide of the host's authority.
func (a guardedAuthority) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	return guard.Call(ctx, a.guard, "authority", authorityKey(&r), func(ctx context.Context) (approval.Decision, error) {
		return a.Authority.Decide(ctx, r)
	})
}

type guardedScheduler struct {
	guardedAuthority
	scheduler approval.Scheduler
}

func (a guardedScheduler) nextAsk(ctx context.Context, r approval.Request) (time.Duration, error) {
	return guard.Call(ctx, a.guard, "authority", authorityKey(&r), func(context.Context) (time.Duration, error) {
		return a.scheduler.NextAsk(r), nil
	})
}

func authorityKey(r *approval.Request) string { return r.Run + "/" + r.RunUID + "/" + r.Name }

// CommandID returns the ID of the command that stores an approver's answer to a request. The
// verdict and the groups of the approver are part of the ID: a new verdict, or the same verdict
// with other groups, may count although the first did not, so it is another command.
func CommandID(d *approval.Decision, r *approval.Request) string {
	where := r.Stage
	if r.Group != "" {
		where += "/" + r.Group
	}
	key := fmt.Sprintf("%q", slices.Concat([]string{
		r.RunUID, where, string(r.When), strconv.Itoa(r.Attempt), d.By.Name, string(d.Verdict),
	}, d.By.Groups))
	return record.OwnID + "answer-" + snapshot.Digest([]byte(key))
}
