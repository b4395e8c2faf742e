package member

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
)

// work is one update of one cluster.
type work struct {
	session
	outcome

	rev     *Revision
	targets []*target
	// allRead reports whether all targets were read.
	allRead bool
	// holds reports that the strategy forbids to apply one of the targets.
	holds bool
	// compiled are the objects of rev, once something is compared.
	compiled *manifests
	// definitions are those of the kinds that come with the revision.
	definitions map[kind]*target
	// servers are those that objects wait for, and doomed reports that one waits in vain.
	servers *servers
	doomed  bool
	// left are the objects that are left on the cluster although they were to go or the
	// ledger has them as created, also by earlier tries of the update.
	left []leftObject
}

// newWork returns an update of a cluster that has read nothing yet.
func (u *Applier) newWork(m *memberConn, a Assignment) *work {
	return &work{session: session{u: u, a: a, m: m}, outcome: outcome{of: &a, tries: &u.tries}}
}

// lookAll reads all objects, also where a member refuses to
// show one, or fails to.
func (w *work) lookAll(ctx context.Context, targets []*target) error {
	var refused []error
	for _, t := range targets {
		switch err := w.readTarget(ctx, t); {
		case errors.Is(err, backend.ErrPermanent):
			refused = append(refused, err)
		case err != nil:
			if err := w.ofOne(ctx, err); err != nil {
				return err
			}
			t.unread = true
			w.failed(t, err)
		}
	}
	return JoinProblems(refused)
}

// refuse names every object that another placement applies. Of an exclusive placement these alone are held back, see
// work.holding.
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
