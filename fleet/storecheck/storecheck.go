// Package storecheck reads a whole store of package fleet and reports the records that an engine
// cannot read.
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

// Problem is a record that an engine cannot read: it is damaged or missing, or a newer version
// wrote it.
type Problem struct {
	// Record is the key of the unreadable record, or of the record to which it belongs:
	// placement/NAME, run/NAME, cap/ for the caps, or strategy/ for the declared strategies.
	Record string
	Err    error
}

// Check reads all records that an engine reads: placements with their snapshots, content, overrides
// and bindings, runs with their plans and events, strategies and caps. It returns one problem for
// each unreadable record, in the order of the keys, and writes nothing. Events that are no longer
// kept are not missing. If it returns an error, from the store or from ctx, the result says
// nothing about the store.
//
// It may be called while engines run; it omits records that are deleted during the check. It reads
// each record once.
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
			_, problem = e.Run(name).History(ctx, 0)
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
	_, problem = e.Strategies(ctx)
	found("strategy/", problem)
	return all, ctx.Err()
}

// checkPlacement reads a placement with all that its record refers to.
func checkPlacement(ctx context.Context, e *fleet.Engine, name string) error {
	v, err := e.Placement(name).View(ctx)
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
	_, err = e.Placement(name).History(ctx, 0)
	return errors.Join(append(problems, err)...)
}
