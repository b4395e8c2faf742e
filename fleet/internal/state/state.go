// Package state is what an engine knows of placements, runs, plans and caps: the records of a store, read
// and written as what they mean. It has the driver of the state machine of a placement (package lifecycle),
// which saves before anything is done, the collection of what nothing refers to any more, and the calls of
// those plug-ins of the host that tell the state of the world, the inventory and the windows.
//
// It carries out no run and calls no cluster.
package state

import (
	"context"
	"log/slog"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/flight"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// Options are what a [State] is made of. All but Windows and RollbackName are required.
type Options struct {
	// Store bounds its calls itself.
	Store     backend.Store
	Contents  *content.Store
	Inventory backend.Inventory
	Windows   Windows
	// RollbackName is the host's, nil for the default.
	RollbackName func(run, title string, n int) string
	// Name is that of the engine.
	Name                     string
	Lease, CallTimeout, Poll time.Duration
	Clock                    func() time.Time
	Log                      *slog.Logger
}

// Windows are the maintenance windows of a host.
type Windows interface {
	Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error)
}

// State reads and writes what is stored. Its methods may be called concurrently.
type State struct {
	cfg      Options
	store    backend.Store
	contents *content.Store
	// inventories and windows guard the calls of one plug-in each, so that one that hangs holds up no other.
	inventories, windows *guard.Guard
	held                 flight.Group[struct{}]
	log                  *slog.Logger
	plans                *lru.Cache[string, *stages.Plan]
	seen                 *lru.Cache[string, seenPlacement]
	// Driving are the runs that this process drives, by UID; Admitting those that it is creating, by name.
	Driving, Admitting Busy
}

// New returns the state that is kept in a store.
func New(o Options) *State {
	return &State{
		cfg: o, store: o.Store, contents: o.Contents, inventories: guard.New(o.CallTimeout), windows: guard.New(o.CallTimeout), log: o.Log,
		plans: lru.New[string, *stages.Plan](planCacheSize, nil), seen: lru.New[string, seenPlacement](seenSize, nil),
	}
}

// seenSize is how many decoded records of placements an engine keeps in memory: those that it wrote or
// read last. A reader reads the record from the store each time, so that every change of it is noticed,
// and decodes it only where it is another revision; a write begins with the one that is kept, and is
// refused where that is old. BenchmarkClusterUpdate in docs/performance.md needs this for its x-cpu: the
// hub reads the record of a placement on every round of its loop; and TestStoreOperationsOfARun for the
// reads that it saves.
const seenSize = 64

// seenPlacement is a decoded record at a revision. It is shared.
type seenPlacement struct {
	rec *record.Placement
	rev backend.Revision
}

// planCacheSize is how many plans an engine keeps in memory: they were read and
// verified, or made here, and never change. BenchmarkClusterUpdate in
// docs/performance.md needs them for its hub-requests/update: an engine carries out
// the plan that it has just stored.
const planCacheSize = 64

// Now is the engine's clock, in the precision that runs keep.
func (st *State) Now() time.Time { return stages.At(st.cfg.Clock()).Time() }

// Here is when the engine's clock shows t, unless it jumps, in the time that
// timers go by.
func (st *State) Here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(t.Sub(st.cfg.Clock().Round(0)))
}
