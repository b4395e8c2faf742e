package runner

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// inboxSize is the number of observations that the inbox of workers holds before their senders
// block.
const inboxSize = 256

// received is an observation that a worker sends to its driver.
type received struct {
	stages.Observation
	by *worker
}

// workers are the workers of a run, one for each cluster in flight. Their observations reach the
// run's driver through an inbox.
type workers struct {
	updater member.Updater
	limiter *member.Limiter
	poll    time.Duration
	// template has the part of the assignments that is the same for all clusters, key the key of
	// the placement.
	template backend.Assignment
	key      []byte
	// content returns the content of a revision of a placement.
	content func(placement, revision string) func(context.Context) (snapshot.Set, error)
	// holds reports whether the store still names this driver's epoch for the run.
	holds func(context.Context) (bool, error)
	// wake makes the driver read the inbox.
	wake func()

	at    map[int]*worker
	round int
	inbox chan received
	// fenced has the error of a cluster that knows the epoch of another engine.
	fenced chan error
}

// newWorkers returns the workers of a run, none at first. p is the placement when the driver began.
func newWorkers(e *engine, t *tenure, rec *record.Run, p *record.Placement, wake func()) *workers {
	return &workers{
		updater: e.Updater, limiter: e.Limiter, poll: e.Poll, wake: wake, key: p.Key, content: e.State.Content,
		template: backend.Assignment{
			Placement: t.placement, Run: t.name, RunUID: t.uid, Epoch: t.epoch,
			Final: rec.Final != "", Orphan: rec.Final == lifecycle.OrphanObjects, AllowCoOwnership: p.Placement.AllowCoOwnership,
			Exclusive: p.Placement.Exclusive, DeletePolicy: p.Placement.DeletePolicy, Strategy: rec.Apply,
		},
		holds: func(ctx context.Context) (bool, error) { return e.holdsLease(ctx, t) },
		at:    map[int]*worker{}, inbox: make(chan received, inboxSize), fenced: make(chan error, 1),
	}
}

// reconcile starts the missing workers of a run's actions, keeps the wanted ones and ends the
// others.
func (ws *workers) reconcile(ctx context.Context, actions []*stages.Action) {
	ws.round++
	for _, a := range actions {
		ws.ensure(ctx, a)
	}
	for pos, w := range ws.at {
		if w.round != ws.round {
			w.cancel()
			w.ended = true
			if w.gone() {
				delete(ws.at, pos)
			}
		}
	}
}

// ensure starts a worker for an action unless a worker already runs this attempt.
func (ws *workers) ensure(ctx context.Context, a *stages.Action) {
	w := ws.at[a.Pos]
	same := w != nil && w.a.Attempt == a.Attempt && !w.ended
	if same && (!w.gone() || w.unreadObservations.Load() > 0) {
		w.round = ws.round // an unread observation may explain why the worker has ended
		return
	}
	next := &worker{
		of: ws, a: ws.assignment(a), observe: a.Type == stages.Observe, before: w, sent: a.Sent,
		done: make(chan struct{}), round: ws.round,
	}
	if same {
		next.delay = min(max(2*w.delay, member.ReachFirst), member.ReachMost)
	}
	if w != nil {
		w.cancel()
	}
	wctx, cancel := context.WithCancel(ctx)
	next.cancel = cancel
	ws.at[a.Pos] = next
	go next.run(wctx)
}

func (ws *workers) assignment(a *stages.Action) member.Assignment {
	out := ws.template
	out.Attempt, out.Cluster, out.Revision = a.Attempt, placement.Cluster{Name: a.Cluster, UID: a.UID}, a.Revision
	if a.Revision != "" {
		out.Content = ws.content(out.Placement, a.Revision)
	}
	return member.WithKey(out, ws.key)
}

// observations returns the observations that have arrived. After the first observation it waits for
// observations of other clusters, until it has enough or the longest wait is over. Then it returns
// all observations that have arrived.
func (ws *workers) observations(ctx context.Context, longest time.Duration, enough int) (out []stages.Observation) {
	take := func(o received) {
		out = append(out, o.Observation)
		o.by.unreadObservations.Add(-1)
	}
	select {
	case o := <-ws.inbox:
		take(o)
	default:
		return nil
	}
	late := time.NewTimer(longest)
	defer late.Stop()
	for waits := longest > 0; waits && len(out) < enough; {
		select {
		case o := <-ws.inbox:
			take(o)
		case <-late.C:
			waits = false
		case <-ctx.Done():
			waits = false
		}
	}
	for range inboxSize {
		select {
		case o := <-ws.inbox:
			take(o)
		default:
			return out
		}
	}
	return out
}

// lost returns the error of a cluster that another engine has written to since it took the run; nil
// if there is none.
func (ws *workers) lost() error {
	select {
	case err := <-ws.fenced:
		return err
	default:
		return nil
	}
}

// cancel makes all workers end.
func (ws *workers) cancel() {
	for _, w := range ws.at {
		w.cancel()
	}
}

// wait waits until all workers have ended.
func (ws *workers) wait() {
	for _, w := range ws.at {
		<-w.done
	}
}
