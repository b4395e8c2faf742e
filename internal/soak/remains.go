package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// remainsMost is how many records the file of the engines has at most once all
// runs are deleted: of at most two placements the record, up to five snapshots of
// four contents each, the last 128 events in pages of about ten, the bindings, and
// the intents of the runs that were begun last.
const remainsMost = 2 * (1 + 5*4 + 16 + 2 + 5)

// collect makes the engine collect the garbage of every placement, until it must have deleted
// everything of earlier runs. It creates and deletes runs to start each collection.
func collect(ctx context.Context, env *environment.Environment, e *fleet.Engine) error {
	placements, err := env.Observer.Placements(ctx)
	if err != nil {
		return err
	}
	for _, p := range placements {
		for range 4 {
			spec := fleet.RunSpec{Name: "collect-" + p, Placement: p, Strategy: everywhere(1), Hold: true, Starter: approval.Identity{Name: olga}}
			_, err := e.CreateRun(ctx, spec)
			if err == nil || errors.Is(err, backend.ErrConflict) {
				err = ignoreNotFound(e.Run(spec.Name).Delete(ctx, true))
			}
			if err != nil {
				return fmt.Errorf("collecting what is left of placement %s: %w", p, err)
			}
		}
	}
	return nil
}

// deleteRuns deletes every run that a placement knows, and returns their number. A run without a
// record was half deleted by a killed process.
func deleteRuns(ctx context.Context, env *environment.Environment, e *fleet.Engine) (n int, err error) {
	placements, err := env.Observer.Placements(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range placements {
		runs, err := env.Observer.Placement(p).RunNames(ctx)
		if err != nil {
			return n, err
		}
		for _, run := range runs {
			n++
			if err := ignoreNotFound(e.Run(run).Delete(ctx, true)); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// forgetRuns deletes every run, including runs of a process that was killed before their
// admission, and collects all remains of runs.
func forgetRuns(ctx context.Context, env *environment.Environment) error {
	if _, err := deleteRuns(ctx, env, env.Observer); err != nil {
		return err
	}
	for r, err := range env.Store.List(ctx, "run/") {
		if err == nil {
			err = ignoreNotFound(env.Observer.Run(strings.TrimPrefix(r.Key, "run/")).Delete(ctx, true))
		}
		if err != nil {
			return err
		}
	}
	return collect(ctx, env, env.Observer)
}
