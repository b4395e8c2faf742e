package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// healthyPause is the delay before a worker begins to watch a cluster that was healthy after its
// update. In most cases the run is done with the cluster by then.
const healthyPause = time.Second

// worker works on one attempt at one cluster until the run no longer wants it.
type worker struct {
	d       *driver
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
	// unheard is the number of observations that the driver has not read yet.
	unheard atomic.Int32
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

// act reconciles workers, inquiries and measurements with the run's actions: it starts missing
// workers, keeps the wanted workers and ends the others.
func (d *driver) act(ctx context.Context, actions []stages.Action) {
	d.round++
	asked := map[string]bool{}
	var questions []*check.Question
	for i := range actions {
		switch a := &actions[i]; a.Type {
		case stages.Ask:
			asked[d.ask(ctx, a.Request)] = true
		case stages.Measure:
			questions = append(questions, a.Measure)
		default:
			d.ensureWorker(ctx, a)
		}
	}
	d.measure(ctx, questions)
	for pos, w := range d.workers {
		if w.round != d.round {
			w.cancel()
			w.ended = true
			if w.gone() {
				delete(d.workers, pos)
			}
		}
	}
	for key, q := range d.asking {
		if !asked[key] {
			q.cancel()
			delete(d.asking, key)
		}
	}
}

// ensureWorker starts a worker for an action unless a worker already runs this attempt.
func (d *driver) ensureWorker(ctx context.Context, a *stages.Action) {
	w := d.workers[a.Pos]
	same := w != nil && w.a.Attempt == a.Attempt && !w.ended
	if same && (!w.gone() || w.unheard.Load() > 0) {
		w.round = d.round // an unread observation may explain why the worker has ended
		return
	}
	next := &worker{
		d: d, a: d.assignment(a), observe: a.Type == stages.Observe, before: w, sent: a.Sent,
		done: make(chan struct{}), round: d.round,
	}
	if same {
		next.delay = min(max(2*w.delay, member.ReachFirst), member.ReachMost)
	}
	if w != nil {
		w.cancel()
	}
	wctx, cancel := context.WithCancel(ctx)
	next.cancel = cancel
	d.workers[a.Pos] = next
	go next.run(wctx)
}

func (d *driver) assignment(a *stages.Action) member.Assignment {
	out := member.WithKey(backend.Assignment{
		Placement: d.rec.Run.Placement, Run: d.name, RunUID: d.rec.Run.UID,
		Epoch: d.rec.Lease.Epoch, Attempt: a.Attempt,
		Cluster:  placement.Cluster{Name: a.Cluster, UID: a.UID},
		Revision: a.Revision, Final: d.rec.Final != "", Orphan: d.rec.Final == lifecycle.OrphanObjects, AllowCoOwnership: d.coOwnership,
		Exclusive: d.exclusive, DeletePolicy: d.deletePolicy, Strategy: d.rec.Apply,
	}, d.secretKey)
	if a.Revision != "" {
		out.Content = d.e.state.Content(out.Placement, a.Revision)
	}
	return out
}

// endWorkers ends everything that the driver has started, and waits for it.
func (d *driver) endWorkers() {
	for _, w := range d.workers {
		w.cancel()
	}
	for _, q := range d.asking {
		q.cancel()
	}
	for _, w := range d.workers {
		<-w.done
	}
	d.asks.Wait()
	d.meter.end()
	if d.objects != nil {
		d.objects.End()
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
		r, err := w.call(ctx, w.d.e.updater.Update)
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
	for _, err := range watchUpdates(ctx, w.d.e.updater, w.a, w.d.e.cfg.Poll) {
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
	do := w.d.e.updater.Observe
	pause := backoff.New(member.ReachFirst, member.ReachMost)
	for {
		r, err := w.call(ctx, do)
		do = w.d.e.updater.Observe
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && (r.Current || r.Failed):
			w.news(ctx, w.observation(r))
			return true
		case err == nil:
			w.news(ctx, w.observation(r))
			do = w.d.e.updater.Update
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
	leave, err := w.d.e.limiter.Enter(ctx, w.a.Cluster.Name)
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
	w.unheard.Add(1)
	select {
	case w.d.inbox <- received{o, w}:
		w.d.wake()
	case <-ctx.Done():
		w.unheard.Add(-1)
	}
}

// fence handles a fencing error of a cluster, which knows a newer epoch. If another engine has the
// run, this driver lets it go. If not, the cluster's ledger is wrong, and only this cluster fails.
// It returns false if the store could not be read, and otherwise the worker must end.
func (w *worker) fence(ctx context.Context, err error) bool {
	held, herr := w.d.holdsLease(ctx)
	switch {
	case herr != nil:
		return false
	case held:
		w.send(ctx, w.failure(backend.Proof{}, fmt.Errorf("%w, although this engine has the run: "+
			"if the engine's store was restored from a backup, delete ConfigMap %s/%s on the cluster", err, member.LedgerNamespace, w.a.Placement)))
		return true
	}
	select {
	case w.d.fenced <- err:
		w.d.wake()
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
