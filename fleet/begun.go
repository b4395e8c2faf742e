package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// begun is a run that was begun, as a collection finds it.
type begun struct {
	record.Intent
	uid string
	// self is the record, pages are what else is stored under the UID.
	self  backend.Record
	pages []backend.Record
	// bare reports whether nothing else is stored.
	bare bool
	// decision is the digest of the run's, where the run has a record.
	decision string
}

// mark notes that a begun run is lost. Whoever is creating it writes the record
// again before it counts.
func (e *Engine) mark(ctx context.Context, b *begun) error {
	if b.Lost {
		return nil
	}
	b.Lost = true
	_, err := e.store.Put(ctx, b.self.Key, record.Encode(b.Intent), b.self.Revision)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// begunRuns returns the runs that were begun for a placement, as far as that can
// be read.
func (e *Engine) begunRuns(ctx context.Context, placement string) (out []begun, err error) {
	prefix := record.IntentPrefix(placement)
	for r, err := range e.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		b := begun{uid: strings.TrimPrefix(r.Key, prefix), self: backend.Record{Key: r.Key, Revision: r.Revision}}
		if err := record.Decode(r, &b.Intent); err != nil {
			e.log.Warn("what was begun for a run cannot be read, and stays", "error", err)
			continue
		}
		out = append(out, b)
	}
	return out, nil
}

// isRecorded reports whether the run of a begun one has a record, also if that
// cannot be read.
func (e *Engine) isRecorded(ctx context.Context, b *begun) (bool, error) {
	rr, _, err := e.runAt(ctx, b.Run)
	switch {
	case isNotFound(err):
		return false, nil
	case isLasting(err):
		return true, nil
	case err != nil:
		return false, err
	}
	if rr.Decision != nil {
		b.decision = rr.Decision.Digest
	}
	return rr.Run.UID == b.uid, nil
}

// isLost reports whether nothing but what is stored under its UID is left of a begun
// run that its placement does not know, and notes that. A UID has a record once:
// pages that were there before the record was found to be gone are nobody's.
func (e *Engine) isLost(ctx context.Context, b *begun) (lost bool, err error) {
	for _, prefix := range record.OwnPrefixes(b.uid) {
		pages, err := e.revisions(ctx, prefix)
		if err != nil {
			return false, err
		}
		b.pages = append(b.pages, pages...)
	}
	recorded, err := e.isRecorded(ctx, b)
	return !recorded && err == nil, err
}

// errIncomplete is matched by the error of a run that was recorded and never
// admitted, and of which something is gone meanwhile: whoever created it did not
// live to store that again, and nobody was told that there is such a run.
var errIncomplete = errors.New("the run was never admitted, and what was stored for it is gone")

// abandon forgets a run that cannot be admitted, unless the engine that created it has admitted
// it meanwhile; otherwise that engine finds that the run is forgotten.
func (e *Engine) abandon(ctx context.Context, rr *record.Run, cause error) error {
	run := &rr.Run
	_, out, err := e.advance(ctx, run.Placement, &transition{
		input: on(lifecycle.RunAbandoned{Entry: stages.Entry{UID: run.UID, Run: run.Name}, Plan: run.Plan}),
	})
	if _, known := out.State.Run(run.UID); err != nil || known {
		return errors.Join(cause, err)
	}
	e.log.Warn("a run whose creation was cut short is forgotten", "run", run.Name, "error", cause)
	return fmt.Errorf("run %s: %w: %w", run.Name, backend.ErrNotFound, cause)
}
