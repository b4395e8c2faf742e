package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
)

// remainsMost is how many records the file of the engines has at most once all
// runs are deleted: of at most two placements the record, up to five snapshots of
// four contents each, the last 128 events in pages of about ten, the roster, and
// what tells of the runs that were begun last.
const remainsMost = 2 * (1 + 5*4 + 16 + 2 + 5)

// strays are the prefixes of keys that only runs have.
func strays() []string {
	return []string{"run/", "plan/", "inflight/", "command/", "journal/"}
}

// isStray reports whether a record must not be there when all runs are deleted.
func isStray(key string) bool {
	if strings.HasPrefix(key, "journal/placement.") {
		return false
	}
	for _, prefix := range strays() {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// collect has every placement collected, so often that nothing has to be left of
// runs that were begun before, by deleting runs that were made for that.
func (w *environment) collect(ctx context.Context, e *fleet.Engine) error {
	placements, err := w.eyes.Placements(ctx)
	if err != nil {
		return err
	}
	for _, p := range placements {
		for range 4 {
			spec := fleet.RunSpec{Name: "collect-" + p, Placement: p, Strategy: everywhere(1), Hold: true, Starter: approval.Identity{Name: olga}}
			_, err := e.CreateRun(ctx, spec)
			if err == nil || errors.Is(err, backend.ErrConflict) {
				err = ignoreNotFound(e.DeleteRun(ctx, spec.Name))
			}
			if err != nil {
				return fmt.Errorf("collecting what is left of placement %s: %w", p, err)
			}
		}
	}
	return nil
}

// deleteRuns deletes every run that a placement knows, and says how many there
// were. One that has no record was half deleted, by a process that was killed.
func (w *environment) deleteRuns(ctx context.Context, e *fleet.Engine) (n int, err error) {
	placements, err := w.eyes.Placements(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range placements {
		runs, err := w.eyes.Runs(ctx, p)
		if err != nil {
			return n, err
		}
		for _, run := range runs {
			n++
			if err := ignoreNotFound(e.DeleteRun(ctx, run)); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// forgetRuns deletes every run, also those that were recorded by a process which
// did not live to see them admitted, and has everything collected that was left
// of runs.
func (w *environment) forgetRuns(ctx context.Context) error {
	if _, err := w.deleteRuns(ctx, w.eyes); err != nil {
		return err
	}
	for r, err := range w.engineFile.List(ctx, "run/") {
		if err == nil {
			err = ignoreNotFound(w.eyes.DeleteRun(ctx, strings.TrimPrefix(r.Key, "run/")))
		}
		if err != nil {
			return err
		}
	}
	return w.collect(ctx, w.eyes)
}
