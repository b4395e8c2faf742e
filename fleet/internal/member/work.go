package member

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
)

// work is one update of one cluster.
type work struct {
	applyPolicy
	outcome

	targets []*target
	// allRead reports that every target was read, except targets that are unread.
	allRead bool
	// holds reports that the strategy forbids to apply at least one target.
	holds bool
	// definitions are the desired CustomResourceDefinitions, by the kind that they define.
	definitions map[kind]*target
	// servers decides which objects wait for a server; doomed reports that an object waits for a
	// server that failed.
	servers *servers
	doomed  bool
	// released are the objects that are left on the cluster, although they were undesired or the
	// ledger had them as created. It includes objects from earlier tries of the update.
	released releases
}

// newWork returns an update of a cluster; it has not read anything yet.
func (u *Applier) newWork(m *memberConn, a Assignment) *work {
	return &work{applyPolicy: applyPolicy{session: session{u: u, a: a, m: m}}, outcome: outcome{of: &a, tries: &u.tries}}
}

// readAll reads all objects. It continues if the member refuses or fails to return one of them.
func (w *work) readAll(ctx context.Context, targets []*target) error {
	var refused []error
	for _, t := range targets {
		switch err := w.readTarget(ctx, t); {
		case errors.Is(err, backend.ErrPermanent):
			refused = append(refused, err)
		case err != nil:
			if err := w.ofOne(ctx, err); err != nil {
				return err
			}
			w.failed(t, failedCall{err, true})
		}
	}
	return JoinProblems(refused)
}

// refuse returns an error that names every object that another placement applies. For an exclusive
// placement it returns nil, because only these objects are held back, see applyPolicy.
func (w *work) refuse() error {
	if w.a.shares() || w.a.Exclusive {
		return nil
	}
	var refused []error
	for _, t := range w.targets {
		if err := t.refusal(&w.a); err != nil {
			refused = append(refused, err)
		}
	}
	return JoinProblems(refused)
}

// hold decides which objects the strategy forbids to apply, see applyPolicy.
//
// Held objects block nothing else: the other objects are applied, and the ledger is closed. Only
// the removal of undesired objects is postponed until no object is held.
func (w *work) hold(ctx context.Context) {
	for _, t := range w.targets {
		w.holdBack(ctx, t)
	}
}

func (w *work) holdBack(ctx context.Context, t *target) {
	t.hold(w.forbids(ctx, t))
	w.holds = w.holds || t.heldBack() != nil
}

// removalPostponed reports whether the removal of an object is postponed because some object is
// held.
func (w *work) removalPostponed(t *target) bool { return w.holds && t.want == nil && t.listed() }

// heldBack returns why objects are held back, for the error of an update. It returns nil for a
// repair between runs, which brings nothing new.
func (w *work) heldBack() error {
	if w.a.keeps {
		return nil
	}
	var all []error
	for _, t := range w.targets {
		if why := t.heldBack(); why != nil {
			all = append(all, why)
		}
	}
	return JoinProblems(all)
}
