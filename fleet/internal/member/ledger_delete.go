package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
)

// A ledger fences as long as it is there. The deletion of a placement takes it
// away in the end, and so a leader that was paused meanwhile finds none, as on a
// cluster that is new to the placement. What keeps it from placing everything
// again is the order: the runs of the placement have ended in the store before a
// ledger is deleted, and a leader that writes an intent asks the store afterwards
// whether its run goes on, before it does anything else, unless the ledger proved
// a revision, and so was there before. A leader that made a ledger after the deletion is
// refused, and takes it back.
//
// What is left is one write for each cluster that was on its way to it, and that
// demands that something does not exist. It may be an object, where the member knows
// no fences in the step of the write, see mark: after a deletion no engine reads it,
// and it carries the marks of the placement. Or it is a ledger, of which its maker does not
// learn: an intent without anything, which the next placement of that name takes
// over, by an epoch that is newer.

// forgetLedger deletes the ledger of a placement that is being deleted, once
// nothing is left of it.
func (w *work) forgetLedger(ctx context.Context) error {
	if !w.a.Final || !w.ledger.exists() || w.ledger.Phase != ledgerRemoved {
		return nil
	}
	for _, t := range w.targets {
		if t.stale(w.a.Placement) != "" {
			return nil
		}
	}
	err := w.deleteLedger(ctx)
	switch {
	case err == nil || errors.Is(err, backend.ErrNotFound):
		w.ledger.uid, w.ledger.version = "", ""
		return nil
	case errors.Is(err, backend.ErrConflict):
		return errLedgerMoved
	}
	return err
}

// writeLedger writes the ledger before anything is done, and makes sure that the
// run goes on where it proved no revision.
func (s *session) writeLedger(ctx context.Context, next *ledger) error {
	made, sure := !s.ledger.exists(), s.ledger.Phase == ledgerApplied || s.a.keeps
	if err := s.ledger.write(ctx, s.m, next); err != nil || sure {
		return err
	}
	err := s.u.held(ctx, s.a)
	if err != nil && made {
		// Nothing was done under it. One that stays is that of an older leader.
		_ = s.deleteLedger(ctx)
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", s.m.name, err)
	}
	return nil
}

func (s *session) deleteLedger(ctx context.Context) error {
	return s.m.delete(ctx, ledgerID(s.a.Placement), backend.DeleteOptions{
		Manager:      manager(s.a.Placement),
		Precondition: backend.Precondition{UID: s.ledger.uid, ResourceVersion: s.ledger.version},
	})
}
