package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// healthyPause is the delay before a worker begins to watch a cluster that was healthy after its
// update. In most cases the run is done with the cluster by then.
const healthyPause = time.Second

// worker works on one attempt at one cluster until the run no longer wants it.
type worker struct {
	of      *workers
	a       member.Assignment
	observe bool
	cancel  context.CancelFunc
	done    chan struct{}
	// before is the worker of an earlier attempt; it must end before this worker begins.
	before *worker
	round  int
	// ended reports whether the run no longer wants the worker.
	ended bool
	// sent reports whether the attempt may have reached the member cluster.
	sent bool
	// delay is the wait before the worker begins, if the previous worker could not reach the
	// cluster.
	delay time.Duration
	last  stages.Observation
	// unreadObservations is the number of observations that the driver has not read yet.
	unreadObservations atomic.Int32
}

// gone reports whether the worker's goroutine has ended.
func (w *worker) gone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	defer w.cancel()
	if w.before != nil {
		<-w.before.done
		w.before = nil
	}
	if w.delay > 0 && !backoff.Sleep(ctx, w.delay) {
		return
	}
	if !w.observe && !w.update(ctx) {
		return
	}
	if w.last.Healthy && !backoff.Sleep(ctx, healthyPause) {
		return
	}
	w.watch(ctx)
}

// update carries out the attempt and reports whether the worker should go on to observe the
// cluster. It ends if the cluster is unreachable and nothing was sent: the run may then use the
// cluster's slot for another cluster and start this attempt again later.
func (w *worker) update(ctx context.Context) bool {
	pause := backoff.New(member.ReachFirst, member.ReachMost)
	for {
		r, err := w.call(ctx, w.of.updater.Update)
		r.Sent = w.sent
		if ctx.Err() != nil {
			return false
		}
		switch {
		case err == nil:
			w.send(ctx, w.observation(r))
			return !r.Failed
		case errors.Is(err, backend.ErrFenced) && w.fence(ctx, err):
			return false
		case errors.Is(err, backend.ErrPermanent):
			w.send(ctx, w.failure(r, err))
			return false
		}
		w.send(ctx, w.unreachable(r, err))
		if !w.sent || !pause.Wait(ctx) {
			return false
		}
	}
}

// watch observes the cluster whenever it may have changed.
func (w *worker) watch(ctx context.Context) {
	for _, err := range watchUpdates(ctx, w.of.updater, w.a, w.of.poll) {
		// Observe the cluster even after an error of the watch.
		_ = err
		if !w.awaitAnswer(ctx) {
			return
		}
	}
}

// awaitAnswer observes the cluster until it answers, and carries out the assignment again if the
// cluster has lost part of it. It reports whether the worker should go on.
func (w *worker) awaitAnswer(ctx context.Context) bool {
	do := w.of.updater.Observe
	pause := backoff.New(member.ReachFirst, member.ReachMost)
	for {
		r, err := w.call(ctx, do)
		do = w.of.updater.Observe
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && (r.Current || r.Failed):
			w.news(ctx, w.observation(r))
			return true
		case err == nil:
			w.news(ctx, w.observation(r))
			do = w.of.updater.Update
		case errors.Is(err, backend.ErrFenced) && w.fence(ctx, err):
			return false
		case errors.Is(err, backend.ErrPermanent):
			w.news(ctx, w.failure(r, err))
		default:
			w.news(ctx, w.unreachable(backend.Proof{Sent: true, Released: r.Released}, err))
		}
		if !pause.Wait(ctx) {
			return false
		}
	}
}

// call makes one call of the updater for the cluster, when the limiter permits it.
func (w *worker) call(ctx context.Context, do func(context.Context, member.Assignment) (backend.Proof, error)) (backend.Proof, error) {
	leave, err := w.of.limiter.Enter(ctx, w.a.Cluster.Name)
	if err != nil {
		return backend.Proof{}, err
	}
	a, stalled := w.a, false
	a.Stalled = func() { stalled = true }
	r, err := do(ctx, a)
	if err == nil && stalled {
		leave(context.DeadlineExceeded)
	} else {
		leave(err)
	}
	w.sent = w.sent || r.Sent
	return r, err
}

// news sends an observation if it differs from the last one.
func (w *worker) news(ctx context.Context, o stages.Observation) {
	if o != w.last {
		w.send(ctx, o)
	}
}

func (w *worker) send(ctx context.Context, o stages.Observation) {
	w.last = o
	w.unreadObservations.Add(1)
	select {
	case w.of.inbox <- received{o, w}:
		w.of.wake()
	case <-ctx.Done():
		w.unreadObservations.Add(-1)
	}
}

// fence handles a fencing error of a cluster, which knows a newer epoch. If another engine has the
// run, this driver lets it go. If not, the cluster's ledger is wrong, and only this cluster fails.
// It returns false if the store could not be read, and otherwise the worker must end.
func (w *worker) fence(ctx context.Context, err error) bool {
	held, herr := w.of.holds(ctx)
	switch {
	case herr != nil:
		return false
	case held:
		w.send(ctx, w.failure(backend.Proof{}, fmt.Errorf("%w, although this engine has the run: "+
			"if the engine's store was restored from a backup, delete ConfigMap %s/%s on the cluster", err, member.LedgerNamespace, w.a.Placement)))
		return true
	}
	select {
	case w.of.fenced <- err:
		w.of.wake()
	default:
	}
	return true
}

func (w *worker) observation(r backend.Proof) stages.Observation {
	// A cluster that may have been changed is no longer skipped: it has to prove its content.
	late := r.Skipped && !r.Current && w.sent
	return stages.Observation{
		Cluster: w.a.Cluster.Name, Attempt: w.a.Attempt, Sent: r.Sent, Applied: r.Applied,
		Unchanged: r.Unchanged, Revision: r.Revision, Current: r.Current, Healthy: r.Healthy,
		Failed: r.Failed || late, Skipped: r.Skipped && !w.sent, Released: r.Released, Altered: r.Altered, Message: r.Message,
	}
}

// failure returns the observation of a permanent failure, which is retried after the longest wait.
// A missing namespace is not permanent, because it may appear at any moment.
func (w *worker) failure(r backend.Proof, err error) stages.Observation {
	o := w.observation(r)
	_, comes := errors.AsType[*member.MissingNamespaceError](err)
	o.Failed, o.Permanent, o.Message = true, !comes, err.Error()
	return o
}

func (w *worker) unreachable(r backend.Proof, err error) stages.Observation {
	return stages.Observation{
		Cluster: w.a.Cluster.Name, Attempt: w.a.Attempt, Sent: r.Sent, Unreachable: true, Released: r.Released, Message: err.Error(),
	}
}

// watchUpdates yields when the updater's view of a cluster may have changed. Without a watch it
// yields at growing intervals.
func watchUpdates(ctx context.Context, u member.Updater, a member.Assignment, poll time.Duration) iter.Seq2[struct{}, error] {
	if w, ok := u.(member.Watcher); ok {
		return guard.Rewatch(ctx, func() iter.Seq2[struct{}, error] { return w.Watch(ctx, a) }, poll)
	}
	return func(yield func(struct{}, error) bool) {
		pause := backoff.Poll(poll)
		for yield(struct{}{}, nil) && pause.Wait(ctx) {
		}
	}
}
