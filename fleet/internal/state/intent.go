package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// RunIntent is the intent to create a run, with the data that a collection finds of that run.
type RunIntent struct {
	record.Intent
	UID string
	// self is the record of the intent, pages are the other records under the UID.
	self  backend.Record
	pages []backend.Record
	// bare reports whether only the intent is stored.
	bare bool
	// selection is the digest of the run's selection, if the run has a record.
	selection string
}

// markLost records that the run of an intent is lost. If the creator is still alive, it writes the
// intent again before the run becomes valid.
func (c collector) markLost(ctx context.Context, b *RunIntent) error {
	if b.Lost {
		return nil
	}
	b.Lost = true
	_, err := c.store.Put(ctx, b.self.Key, record.Encode(b.Intent), b.self.Revision)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// RunIntents returns the intents to create runs of a placement. It logs and skips an intent that
// cannot be decoded.
func (st *State) RunIntents(ctx context.Context, placement string) (out []RunIntent, err error) {
	prefix := record.IntentPrefix(placement)
	for r, err := range st.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		b := RunIntent{UID: strings.TrimPrefix(r.Key, prefix), self: backend.Record{Key: r.Key, Revision: r.Revision}}
		if err := record.Decode(r, &b.Intent); err != nil {
			st.log.Warn("what was begun for a run cannot be read, and stays", "error", err)
			continue
		}
		out = append(out, b)
	}
	return out, nil
}

// isRecorded reports whether the run of an intent has a record. An unreadable record counts.
func (c collector) isRecorded(ctx context.Context, b *RunIntent) (bool, error) {
	rr, _, err := c.Run(ctx, b.Run)
	switch {
	case IsNotFound(err):
		return false, nil
	case IsLasting(err):
		return true, nil
	case err != nil:
		return false, err
	}
	if rr.Selection != nil {
		b.selection = rr.Selection.Digest
	}
	return rr.Run.UID == b.UID, nil
}

// isLost reports whether the run of an intent has no record, and collects the pages under its UID.
// The placement does not know the run. The pages are listed first: a UID has a record only once, so
// pages that existed before the record was found missing are garbage.
func (c collector) isLost(ctx context.Context, b *RunIntent) (lost bool, err error) {
	for _, prefix := range record.OwnPrefixes(b.UID) {
		pages, err := c.Revisions(ctx, prefix)
		if err != nil {
			return false, err
		}
		b.pages = append(b.pages, pages...)
	}
	recorded, err := c.isRecorded(ctx, b)
	return !recorded && err == nil, err
}

// ErrIncomplete matches the error of a run that was recorded and never admitted, if a collection
// has deleted some of its data since. Its creator died before it stored that data again, so
// CreateRun has never returned the run.
var ErrIncomplete = errors.New("the run was never admitted, and its records are deleted")

// Abandon drops a run that cannot be admitted, unless the engine that created it has admitted it
// since. Other engines then find that the run is retired.
func (st *State) Abandon(ctx context.Context, rr *record.Run, cause error) error {
	run := &rr.Run
	_, out, err := st.Advance(ctx, run.Placement, &Transition{
		Input: Always(lifecycle.RunAbandoned{Entry: lifecycle.Entry{UID: run.UID, Run: run.Name}, Plan: run.Plan}),
	})
	if _, known := out.State.Run(run.UID); err != nil || known {
		return errors.Join(cause, err)
	}
	st.log.Warn("a run whose creation was cut short is forgotten", "run", run.Name, "error", cause)
	return fmt.Errorf("run %s: %w: %w", run.Name, backend.ErrNotFound, cause)
}
