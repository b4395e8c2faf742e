package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// inquiries are the open requests of a run. Each is put to the authorities until the run no longer
// has it. Momentary answers are kept here, and others are stored as commands to the run.
type inquiries struct {
	// authority is the host's, nil if it has none. drift returns the engine's own authority for
	// drift.
	authority approval.Authority
	drift     func() approval.Authority
	poll      time.Duration
	// clock is the engine's clock, now the time of the store.
	clock, now func() time.Time
	// put stores a command to the run with a UID.
	put func(ctx context.Context, uid string, c stages.Command) error
	// wake makes the driver read the answers.
	wake func()
	log  *slog.Logger

	// open are the inquiries by the keys of their requests.
	open    map[string]*inquiry
	running sync.WaitGroup
}

// newInquiries returns the inquiries of a run, none at first.
func newInquiries(e *engine, plan *stages.Plan, wake func()) *inquiries {
	is := &inquiries{
		drift: func() approval.Authority { return e.Drifts.Gate(plan) },
		poll:  e.Poll, clock: e.Clock, now: e.State.Now, put: e.Commands.Put, wake: wake, log: e.Log, open: map[string]*inquiry{},
	}
	if e.Authority != nil {
		is.authority = guarded(e.authorities, e.Authority)
	}
	return is
}

// reconcile puts the requests of a run to the authorities, and withdraws the others.
func (is *inquiries) reconcile(ctx context.Context, requests []*approval.Request) {
	asked := map[string]bool{}
	for _, r := range requests {
		asked[is.ask(ctx, r)] = true
	}
	for key, q := range is.open {
		if !asked[key] {
			q.cancel()
			delete(is.open, key)
		}
	}
}

// ask asks the authorities about a request until the run no longer has it, and returns the key of
// the request.
func (is *inquiries) ask(ctx context.Context, r *approval.Request) string {
	key := CommandID(&approval.Decision{}, r)
	if q := is.open[key]; q != nil {
		q.update(r)
		return key
	}
	actx, cancel := context.WithCancel(ctx)
	q := &inquiry{cancel: cancel, request: *r}
	if is.authority != nil {
		q.join(is.authority, false)
	}
	if planning.AsksForDrift(&r.Policy) {
		q.join(is.drift(), true)
	}
	is.open[key] = q
	for _, p := range q.parties {
		is.running.Go(func() { is.consult(actx, q, p) })
	}
	return key
}

// answers returns the valid momentary answers, with timestamps in the time of the run, which was
// last stepped at a time.
func (is *inquiries) answers(stepped time.Time) (out []stages.Answer) {
	clock := is.clock()
	now := commands.Later(clock, stepped)
	for _, q := range is.open {
		out = append(out, q.answers(now, clock)...)
	}
	return out
}

// cancel withdraws all requests.
func (is *inquiries) cancel() {
	for _, q := range is.open {
		q.cancel()
	}
}

// wait waits until no authority is asked any more. The requests must have been withdrawn.
func (is *inquiries) wait() { is.running.Wait() }

// consult asks an authority until the run no longer asks. It asks again at the time that the
// authority requests, or else after intervals that double from Poll to ten times Poll, and at once
// after a change.
func (is *inquiries) consult(ctx context.Context, q *inquiry, p *party) {
	pause := backoff.Poll(is.poll)
	for ctx.Err() == nil {
		r, version := q.put(p, is.clock())
		answer, err := p.Decide(ctx, r)
		if err != nil && ctx.Err() == nil {
			is.log.Warn("the authority did not answer", "request", r.Name, "error", err)
		}
		if err == nil && !p.own && planning.ClaimsDrift(answer.By) {
			err = fmt.Errorf("%s says that it is in group %s, which is the engine's own", answer.By.Name, planning.NoDriftGroup)
			is.log.Warn("an answer is not heeded", "request", r.Name, "error", err)
		}
		answer.At, answer.Binding = commands.Later(is.now(), r.Opened), r.Binding
		switch {
		case err != nil || answer.Verdict == "":
			q.answered(p, version, nil, is.clock())
		case answer.IsMomentary():
			q.answered(p, version, &answer, is.clock())
			is.wake()
		default:
			q.answered(p, version, nil, is.clock())
			c := stages.Command{ID: CommandID(&answer, &r), Verb: stages.Decide, By: answer.By, At: answer.At, Decision: &answer}
			if err := is.put(ctx, r.RunUID, c); err != nil && ctx.Err() == nil { // the run may have ended
				is.log.Warn("an answer was not stored", "request", r.Name, "error", err)
			}
		}
		is.pause(ctx, p, &r, pause)
	}
}

// pause waits until it is time to ask an authority again. The intervals start from Poll again after
// an authority has requested a time.
func (is *inquiries) pause(ctx context.Context, p *party, r *approval.Request, poll *backoff.Backoff) {
	own, ok := p.Authority.(guardedScheduler)
	if !ok {
		poll.WaitFor(ctx, p.wake)
		return
	}
	wish, err := own.nextAsk(ctx, *r)
	if err != nil && ctx.Err() == nil {
		is.log.Warn("the authority did not say when to ask it next", "request", r.Name, "error", err)
	}
	if err != nil || wish <= 0 {
		poll.WaitFor(ctx, p.wake)
		return
	}
	wish = max(wish, is.poll/10)
	backoff.SleepFor(ctx, wish, p.wake)
	poll.Reset()
}

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
