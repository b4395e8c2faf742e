// Package state reads and writes the stored records of placements, runs, plans and selections for
// an engine. It drives the state machine of a placement (package lifecycle), and saves before it
// carries out effects. It collects unreferenced data. It also calls the plug-ins of the host that
// report the state of the world: the inventory and the windows.
//
// It carries out no run and calls no cluster.
package state

import (
	"log/slog"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/flight"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/stages"
)

// Options configure a [State]. All fields except Windows and RollbackName are required.
type Options struct {
	// Store must limit the duration of its calls itself.
	Store     backend.Store
	Contents  *content.Store
	Inventory backend.Inventory
	Windows   Windows
	// RollbackName is the host's function, nil for the default.
	RollbackName func(run, title string, n int) string
	// Name is the name of the engine.
	Name                     string
	Lease, CallTimeout, Poll time.Duration
	Clock                    func() time.Time
	Log                      *slog.Logger
}

// State reads and writes the stored state. Its methods may be called concurrently.
type State struct {
	name     string
	lease    time.Duration
	clock    func() time.Time
	store    backend.Store
	contents *content.Store
	leases   flight.Group[struct{}]
	log      *slog.Logger
	seen     *lru.Cache[string, seenPlacement]

	// Plans and Selections are stored beside the records of placements and runs.
	Plans      Plans
	Selections Selections
	// World has the plug-ins of the host. RollbackNames chooses the names of rollbacks by a plug-in.
	World         World
	RollbackNames RollbackNames
	// Driving are the runs that this process drives, by UID; Admitting are the runs that it is
	// creating, by name.
	Driving, Admitting Busy
}

// New returns the state in a store.
func New(o Options) *State {
	return &State{
		name: o.Name, lease: o.Lease, clock: o.Clock, store: o.Store, contents: o.Contents, log: o.Log, seen: lru.New[string, seenPlacement](seenSize, nil),
		Plans:         Plans{o.Store, o.Contents, lru.New[string, *stages.Plan](planCacheSize, nil)},
		Selections:    Selections{o.Store, o.Contents},
		World:         World{o.Inventory, o.Windows, o.Poll, guard.New(o.CallTimeout), guard.New(o.CallTimeout)},
		RollbackNames: RollbackNames{o.RollbackName, o.Store, o.Log},
	}
}

// seenSize is the number of decoded placement records that an engine keeps in memory: the last ones
// that it wrote or read. A reader still reads the record from the store each time, so that it
// notices every change, but decodes only a new revision. A write begins with the record in memory
// and is refused if that is old. BenchmarkClusterUpdate in docs/performance.md needs this for its
// x-cpu, because the hub reads the record of a placement on every round of its loop.
// TestStoreOperationsOfARun needs it for the saved reads.
const seenSize = 64

// seenPlacement is a shared, decoded record at a revision.
type seenPlacement struct {
	rec *record.Placement
	rev backend.Revision
}

// Now returns the time of the engine's clock, with the precision of times in runs.
func (st *State) Now() time.Time { return stages.At(st.clock()).Time() }

// Here returns the time by the process clock, which timers use, when the engine's clock will show
// t, unless that clock jumps.
func (st *State) Here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(t.Sub(st.clock().Round(0)))
}
