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
	holders              asks
	log                  *slog.Logger
	plans                *lru.Cache[string, *stages.Plan]
	seen                 *lru.Cache[string, SeenPlacement]
	// Driving are the runs that this process drives, by UID; Admitting those that it is creating, by name.
	Driving, Admitting Busy
}

// New returns the state that is kept in a store.
func New(o Options) *State {
	return &State{
		cfg: o, store: o.Store, contents: o.Contents, inventories: guard.New(o.CallTimeout), windows: guard.New(o.CallTimeout), log: o.Log,
		plans: lru.New[string, *stages.Plan](planCacheSize, nil), seen: lru.New[string, SeenPlacement](seenSize, nil),
	}
}
