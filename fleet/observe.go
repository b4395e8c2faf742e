package fleet

import (
	"context"
	"fmt"
)

// Observe reads the ledger and the objects, and writes nothing. See [Updater].
func (u *snapshotUpdater) Observe(ctx context.Context, a Assignment) (Report, error) {
	if a.Strategy.reportsOnly() {
		return u.reportDiff(ctx, a)
	}
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return Report{}, err
	}
	w := &work{u: u, a: a, m: m}
	if err := w.read(ctx); err != nil {
		return Report{}, err
	}
	if w.ledger.open() || w.ledger.Revision != a.Revision {
		return Report{Sent: w.before, Revision: w.ledger.Revision, Message: w.notThere()}, nil
	}
	if err := w.prepare(ctx); err != nil {
		return Report{Sent: w.before}, err
	}
	return w.report(ctx)
}

// notThere says why the ledger does not prove what is wanted.
func (w *work) notThere() string {
	switch {
	case w.ledger.open():
		return fmt.Sprintf("run %s has not finished applying", clip(w.ledger.Run))
	case w.ledger.Revision == "":
		return "nothing is placed"
	}
	return "the cluster has revision " + clip(w.ledger.Revision)
}

// report says what the ledger and the objects prove after an update or a look.
func (w *work) report(ctx context.Context) (Report, error) {
	r := Report{Sent: w.sent || w.before, Revision: w.ledger.Revision}
	if w.waiting != "" {
		w.note(false, false)
		r.Message = w.waiting
		return r, nil
	}
	r.Applied = true
	r.Unchanged = !w.sent && !w.before
	for _, t := range w.targets {
		if m := w.stale(t); m != "" {
			w.note(true, false)
			r.Message = m
			return r, nil
		}
	}
	r.Current, r.Healthy = true, true
	for _, t := range w.targets {
		if t.want == nil {
			continue
		}
		h, err := w.u.probes.probe(ctx, w.m.name, t.live)
		if err != nil {
			return Report{Sent: r.Sent}, fmt.Errorf("cluster %s: %s: %w", w.m.name, t.id, err)
		}
		r.take(t, h)
	}
	w.note(true, r.Healthy)
	return r, nil
}

// take adds the health of an object. A failure counts for more than what is
// only not ready, and the first of each is told.
func (r *Report) take(t *target, h Health) {
	if !h.Failed && h.Healthy {
		return
	}
	t.illness = t.id.String() + " is not healthy"
	if h.Message != "" {
		t.illness = t.id.String() + ": " + clip(h.Message)
	}
	switch {
	case h.Failed && !r.Failed:
		r.Failed, r.Healthy = true, false
	case !h.Healthy && r.Healthy:
		r.Healthy = false
	default:
		return
	}
	r.Message = t.illness
}

// stale says why an object is not what the ledger proves; empty if it is.
func (w *work) stale(t *target) string {
	switch {
	case t.want == nil && t.live != nil && carries(t.live, w.a.Placement):
		return fmt.Sprintf("%s is still there", t.id)
	case t.want == nil:
		return ""
	case t.live == nil:
		return fmt.Sprintf("%s is missing", t.id)
	case annotation(t.live, digestMark+w.a.Placement) != t.want.Digest:
		return fmt.Sprintf("%s was changed by somebody else", t.id)
	}
	return ""
}
