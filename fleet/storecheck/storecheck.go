// Package storecheck reads all of a store of package fleet and says what an engine cannot read of it.
package storecheck

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// Problem is something that an engine cannot read: it is damaged or missing, or a newer version wrote it.
type Problem struct {
	// Record is the key of the record that it is, or belongs to: placement/NAME, run/NAME, or cap/ for the caps.
	Record string
	Err    error
}

// Check reads all that an engine reads of a store: placements with their snapshots, what these hold, overrides and what
// clusters have, runs with their plans and events, and caps. It returns what cannot be read, in the order of the keys, one
// for each record, and writes nothing. Events that are no longer kept are not missing. An error is that of the store, or
// of ctx, and then nothing is known.
//
// It may be called while engines run; what is deleted meanwhile is left out. It costs a read of each record.
func Check(ctx context.Context, store backend.Store) (all []Problem, err error) {
	e, err := fleet.New(fleet.Config{
		Name: "check", Store: store, Dialer: backend.DialerFunc(nil), // nothing is run, and no cluster is reached
		Inventory: backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			return func(func(placement.Cluster, error) bool) {}
		}),
	})
	if err != nil {
		return nil, err
	}
	found := func(record string, problem error) {
		if _, trimmed := errors.AsType[*fleet.MissedError](problem); problem != nil && !trimmed {
			all = append(all, Problem{record, problem})
		}
	}
	for record, err := range store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		var problem error
		switch kind, name, _ := strings.Cut(record.Key, "/"); kind {
		case "placement":
			problem = checkPlacement(ctx, e, name)
		case "run":
			_, _, problem = e.Progress(ctx, name, 0)
		}
		if problem != nil {
			if _, err := store.Get(ctx, record.Key); errors.Is(err, backend.ErrNotFound) {
				continue
			}
		}
		found(record.Key, problem)
	}
	_, problem := e.Caps(ctx)
	found("cap/", problem)
	return all, ctx.Err()
}

// checkPlacement reads a placement with all that its record refers to.
func checkPlacement(ctx context.Context, e *fleet.Engine, name string) error {
	v, err := e.View(ctx, name)
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range v.Snapshots() {
		_, unread := v.Content(ctx, s.Index)
		_, also := v.Overrides(ctx, s.Index)
		problems = append(problems, unread, also)
	}
	for _, unread := range v.Placed(ctx) {
		problems = append(problems, unread)
	}
	_, err = e.PlacementHistory(ctx, name, 0)
	return errors.Join(append(problems, err)...)
}
