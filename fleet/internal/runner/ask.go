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

// inquiry is an open request that authorities are asked about.
type inquiry struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	// request is as the run has it, version counts how often it has changed.
	request approval.Request
	version int
	parties []*party
}

// party is an authority that is asked about a request.
type party struct {
	approval.Authority
	// wake has it asked at once, because something has changed that its answer may
	// depend on.
	wake chan struct{}
	// held is its last answer, where that is an approval that holds at a point in time
	// only, and nil otherwise. It is not stored: after a crash it is asked for again.
	held *heldAnswer
}

// heldAnswer is an approval that holds at a point in time only, with when it came by
// the time of the process, which does not jump, and by the engine's clock, which goes
// on while the process does not.
type heldAnswer struct {
	stages.Answer
	came, clock time.Time
}

// age is how long ago the answer came, by the clock by which that is longer.
func (h *heldAnswer) age(clock time.Time) time.Duration {
	return max(time.Since(h.came), clock.Sub(h.clock))
}

// ask puts a request to the authorities until the run no longer asks, and
// returns what the request is known by.
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

// update takes in what the run asks now. What was answered to another request than
// that does not count any more, and all are asked at once.
func (q *inquiry) update(r *approval.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.request.Decisions) == len(r.Decisions) && q.request.NotBefore.Equal(r.NotBefore) {
		return
	}
	q.request = *r
	q.version++
	for _, p := range q.parties {
		p.held = nil
		backoff.Wake(p.wake)
	}
}

// put returns the request as a party is asked, with the answers of the others that
// hold now, and its version.
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
			r.Decisions = append(r.Decisions, p.held.Decision)
		}
	}
	return r, q.version
}

func (p *party) holds(clock time.Time) bool {
	return p.held != nil && p.held.age(clock) <= approval.PointInTimeAge
}

// answered takes in what a party answered to a version of the request: nil where that
// does not hold at a point in time only. What is about an older version is not heeded:
// the party is asked again. The others are asked at once where it holds now and did not
// before, and theirs do not.
func (q *inquiry) answered(by *party, version int, d *approval.Decision, clock time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := by.holds(clock)
	by.held = nil
	if d == nil || version != q.version {
		return
	}
	by.held = &heldAnswer{Answer: stages.Answer{Request: q.request, Decision: *d}, came: time.Now(), clock: clock}
	for _, p := range q.parties {
		if !before && !p.holds(clock) {
			backoff.Wake(p.wake)
		}
	}
}

// answers are those that hold now, stamped in the time of the run.
func (d *driver) answers() (out []stages.Answer) {
	clock := d.e.cfg.Clock()
	now := commands.Later(clock, d.rec.Run.Now.Time())
	for _, q := range d.asking {
		q.mu.Lock()
		for _, p := range q.parties {
			if p.holds(clock) {
				a := p.held.Answer
				a.Decision.At = commands.Later(now.Add(-p.held.age(clock)), q.request.Opened)
				out = append(out, a)
			}
		}
		q.mu.Unlock()
	}
	return out
}

// consult asks an authority until the run no longer asks: when the authority wants to be asked next, or else at
// intervals from Poll that double up to ten times that, and at once when something has changed.
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
			d.nudge()
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

// pause waits until an authority is to be asked again. An authority that was asked when it wanted to be begins with
// Poll again where it has no wish any more.
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

// guarded keeps an authority of the host's from hanging.
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

// Decide calls the host's.
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

// CommandID identifies an answer of one approver to a request. Another answer of
// theirs, or the same one when they are in other groups, may count where the
// first did not, so it is another command.
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
