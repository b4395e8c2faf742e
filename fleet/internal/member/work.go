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
	// allRead reports that every target was read, except targets that are unread.
	allRead bool
	// holds reports that the strategy forbids to apply at least one target.
	holds bool
	// compiled are the objects of rev, nil until an object is compared.
	compiled *manifests
	// definitions are the desired CustomResourceDefinitions, by the kind that they define.
	definitions map[kind]*target
	// servers decides which objects wait for a server; doomed reports that an object waits for a
	// server that failed.
	servers *servers
	doomed  bool
	// released are the objects that are left on the cluster, although they were undesired or the
	// ledger had them as created. It includes objects from earlier tries of the update.
	released []releasedObject
}

// newWork returns an update of a cluster; it has not read anything yet.
func (u *Applier) newWork(m *memberConn, a Assignment) *work {
	return &work{session: session{u: u, a: a, m: m}, outcome: outcome{of: &a, tries: &u.tries}}
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
// placement it returns nil, because only these objects are held back, see work.holding.
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
