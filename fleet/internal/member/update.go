package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// Update writes the intent to the member's ledger, changes the objects, and records the result. See
// [Updater].
func (u *Applier) Update(ctx context.Context, a Assignment) (backend.Proof, error) {
	if a.Epoch < 1 || a.Placement == "" {
		return backend.Proof{}, fmt.Errorf("cluster %s: an assignment must have a placement and an epoch of at least 1: %w", a.Cluster.Name, backend.ErrPermanent)
	}
	if a.Strategy.ReportsOnly() {
		return u.reportDiff(ctx, a)
	}
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return backend.Proof{}, err
	}
	w, sent, err := u.carryOut(ctx, m, a)
	if err != nil {
		if errors.Is(err, backend.ErrPermanent) {
			w.note(false, false)
		}
		return backend.Proof{Sent: sent, Released: w.released.text(), Altered: alteredOf(w.targets)}, err
	}
	r, err := w.report(ctx)
	r.Released, r.Altered = w.released.text(), alteredOf(w.targets)
	if a.Stalled != nil && slices.ContainsFunc(w.stumbled, func(t *target) bool { return errors.Is(t.failed.err, context.DeadlineExceeded) }) {
		a.Stalled()
	}
	return r, err
}

// Observe reads the ledger and the objects, and writes nothing, except the ends of objects to the
// ledger, see recordEnds. See also [Updater].
func (u *Applier) Observe(ctx context.Context, a Assignment) (backend.Proof, error) {
	if a.Strategy.ReportsOnly() {
		return u.reportDiff(ctx, a)
	}
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return backend.Proof{}, err
	}
	w := u.newWork(m, a)
	if err := w.read(ctx); err != nil {
		return backend.Proof{}, err
	}
	if w.ledger.open() || w.ledger.Revision != a.Revision {
		return backend.Proof{Sent: w.before, Revision: w.ledger.Revision, Message: w.notThere()}, nil
	}
	if err := w.prepare(ctx); err != nil {
		return backend.Proof{Sent: w.before}, err
	}
	if err := unread(w.targets); err != nil {
		return backend.Proof{Sent: w.before}, err
	}
	return w.report(ctx)
}

// Watch yields when the ledger or an object of the revision or of the ledger changes. See
// [Watcher].
func (u *Applier) Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		m, ids, err := u.watched(ctx, a)
		if err != nil {
			yield(struct{}{}, err)
			return
		}
		for _, err := range m.watch(ctx, ids, u.poll) {
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

// watched returns the objects of a watch.
func (u *Applier) watched(ctx context.Context, a Assignment) (*memberConn, []snapshot.ID, error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return nil, nil, err
	}
	w := u.newWork(m, a)
	if err := w.read(ctx); err != nil {
		return nil, nil, err
	}
	if a.Revision != "" {
		if w.rev, err = u.revision(ctx, &a); err != nil {
			return nil, nil, fmt.Errorf("cluster %s: %w", m.name, err)
		}
	}
	return m, idsOf(a.Placement, w.rev, w.ledger.ledger), nil
}

// Restore restores the revision that the ledger of a cluster proves, as the run did that brought it
// there. It uses all of the assignment except the run, its epoch and its attempt, which it takes
// from the ledger. It reports whether it had to change anything, and which objects it released. It
// leaves a cluster alone whose ledger does not prove the revision of the assignment.
func (u *Applier) Restore(ctx context.Context, a Assignment) (sent bool, released string, err error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return false, "", err
	}
	l, err := readLedger(ctx, m, a.Placement, a.secretKey)
	if err != nil || l.Epoch < 1 || !l.keeps(a.Revision) {
		return false, "", err
	}
	a.Run, a.RunUID, a.Epoch, a.Attempt, a.keeps = l.Run, l.RunUID, l.Epoch, l.Attempt, true
	w, sent, err := u.carryOut(ctx, m, a)
	return sent, w.released.text(), err
}

// Unrestored returns the target of an open intent to restore a revision, or "" if there is none. An
// intent of a run is left to the run.
func (u *Applier) Unrestored(ctx context.Context, a Assignment) (revision string, err error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return "", err
	}
	l, err := readLedger(ctx, m, a.Placement, a.secretKey)
	if err != nil || !l.open() || !l.Keeping {
		return "", err
	}
	return l.Target, nil
}

// RecordEnds writes to the ledger of a cluster how objects of its proven revision ended, so that
// they are not applied again once they are gone. It uses all of the assignment except the run, its
// epoch and its attempt. It changes nothing else, so that it may be called while a run works on the
// placement.
func (u *Applier) RecordEnds(ctx context.Context, a Assignment) error {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return err
	}
	w := u.newWork(m, a)
	if w.ledger, err = readLedger(ctx, m, a.Placement, a.secretKey); err != nil || w.ledger.open() || w.ledger.Revision != a.Revision {
		return err
	}
	if err := cmp.Or(w.prepare(ctx), unread(w.targets)); err != nil {
		return err
	}
	return w.recordEnds(ctx, w.targets)
}

// Verdict is the progress of a check object.
type Verdict struct {
	// Ended reports whether there is a verdict, and Failed which one. Gone reports that the object
	// disappeared without a verdict.
	Ended, Failed, Gone bool
	Message             string
}

// Examine applies the check object of an assignment, see [WithCheck], unless it was applied before,
// and returns its progress.
func (u *Applier) Examine(ctx context.Context, a Assignment) (Verdict, error) {
	p, err := u.Observe(ctx, a)
	if err != nil {
		return Verdict{}, err
	}
	if applied := p.Revision == a.Revision; !applied {
		if p, err = u.Update(ctx, a); err != nil {
			return Verdict{}, err
		}
	} else if !p.Current && !p.Failed {
		return Verdict{Gone: true, Message: guard.Clip(p.Message)}, nil
	}
	return Verdict{Ended: p.Current && (p.Healthy || p.Failed), Failed: p.Failed, Message: p.Message}, nil
}

// carryOut carries out an assignment and returns the last try. It starts again if another writer
// replaced the ledger.
func (u *Applier) carryOut(ctx context.Context, m *memberConn, a Assignment) (w *work, sent bool, err error) {
	var released releases
	for i := range rounds {
		w = u.newWork(m, a)
		w.reuses, w.released = i == 0, released
		err = w.update(ctx)
		sent, released = sent || w.sent, w.released
		if !errors.Is(err, errLedgerMoved) {
			break
		}
	}
	if w.allRead && (err == nil || errors.Is(err, backend.ErrPermanent)) {
		err = errors.Join(err, w.reportDrift(ctx))
	}
	return w, sent, err
}

func (w *work) update(ctx context.Context) error {
	if err := w.read(ctx); err != nil {
		return err
	}
	if err := w.bring(ctx); err != nil {
		return err
	}
	if err := w.forgetLedger(ctx); err != nil {
		return err
	}
	w.m.ledgers.keep(w.ledger)
	return nil
}

// bring brings the cluster from the state in the ledger to the revision.
func (w *work) bring(ctx context.Context) error {
	err := w.prepare(ctx)
	if err == nil {
		err = w.refuse()
	}
	if errors.Is(err, backend.ErrPermanent) {
		// A stale cached ledger may be the reason.
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	w.allRead = true
	w.hold(ctx)
	if w.done() {
		if err := w.settle(ctx); err != nil {
			return err
		}
		return cmp.Or(w.outstanding(), w.heldBack())
	}
	if err := w.markAll(ctx); err != nil {
		return err
	}
	if err := w.intend(ctx); err != nil {
		return err
	}
	if err := w.applyAll(ctx); err != nil {
		return err
	}
	if err := w.pruneAll(ctx); err != nil {
		return err
	}
	if err := w.closeIntent(ctx); err != nil {
		return err
	}
	return w.heldBack()
}

// prepare loads the revision and reads all objects of the revision and the ledger.
func (w *work) prepare(ctx context.Context) (err error) {
	if w.a.Revision != "" {
		if w.rev, err = w.u.revision(ctx, &w.a); err != nil {
			return fmt.Errorf("cluster %s: %w", w.m.name, err)
		}
	}
	w.targets = targetsOf(w.rev, w.ledger.ledger)
	return w.readAll(ctx, w.targets)
}

// done reports whether the update has nothing to do for the objects that could be read. An open
// ledger always needs work, because it proves nothing.
func (w *work) done() bool {
	if w.ledger.open() || w.ledger.Revision != w.a.Revision {
		return false
	}
	for _, t := range w.targets {
		if !t.unread() && t.heldBack() == nil && !w.removalPostponed(t) && !t.settled(&w.a) {
			return false
		}
	}
	return true
}

// settle ends an update that has nothing to do, or that can do nothing.
func (w *work) settle(ctx context.Context) error {
	if w.cached && w.ledger.Epoch >= w.a.Epoch {
		return w.confirm(ctx)
	}
	return w.fence(ctx)
}

// fence makes the ledger refuse older epochs, without changing the rest of it. An intent that an
// older leader left open stays open.
func (w *work) fence(ctx context.Context) error {
	if w.ledger.Epoch >= w.a.Epoch || w.a.Final && !w.ledger.exists() {
		return nil
	}
	if err := w.markAll(ctx); err != nil {
		return err
	}
	next := w.ledger.clone()
	next.Epoch, next.Generation = w.a.Epoch, w.generation
	next.Suspects = w.suspects(w.targets)
	return w.writeLedger(ctx, next)
}

// outstanding returns why an update that had nothing to do except failed objects must be retried:
// the refusals, or else the first error.
func (w *work) outstanding() error {
	for _, t := range w.targets {
		w.served = w.served || t.failed.err == nil
	}
	refused := w.rev.unplacedProblems()
	for _, t := range w.stumbled {
		if w.hopeless(t) {
			err := t.exhausted()
			t.suffer(fateRefused{err})
			refused = append(refused, err)
		}
	}
	if err := w.reckon(); err != nil {
		return err
	}
	if len(refused) == 0 && len(w.stumbled) > 0 {
		return w.stumbled[0].failed.err
	}
	return JoinProblems(refused)
}
