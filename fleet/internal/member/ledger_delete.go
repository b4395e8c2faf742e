package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
)

// A ledger fences only as long as it exists. The deletion of a placement deletes the ledger in the
// end. A leader that was paused until then finds no ledger, as on a cluster that is new to the
// placement. The order of steps keeps that leader from placing everything again. Before a ledger is
// deleted, the runs of the placement have ended in the store. A leader that writes an intent asks
// the store afterwards whether its run still holds the assignment, before it does anything else. It
// need not ask if the ledger proved a revision, because then the ledger existed before. A leader
// that created a ledger after the deletion is refused, and deletes that ledger again.
//
// One write per cluster remains possible: a write that was in flight, with the precondition that
// something does not exist. It may create an object, if the member does not check fences
// atomically with the write, see mark. After a deletion no engine reads that object; it carries
// the marks of the placement. Or the write creates a ledger, and the engine that sent it ends
// before the answer arrives. Such a ledger is an intent without objects; the next placement of
// that name takes it over, because its epoch is newer.

// forgetLedger deletes the ledger of a placement that is being deleted, once no object of the
// placement is left.
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

// writeLedger writes the ledger before the update does anything. If the ledger proved no revision
// before, it then checks with the store that the run still holds the assignment.
func (s *session) writeLedger(ctx context.Context, next *ledger) error {
	made, sure := !s.ledger.exists(), s.ledger.Phase == ledgerApplied || s.a.keeps
	if err := s.ledger.write(ctx, s.m, next); err != nil || sure {
		return err
	}
	err := s.u.leaseHeld(ctx, s.a)
	if err != nil && made {
		// Nothing was done under it. If the deletion fails, the ledger remains as if an older leader had
		// left it.
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
