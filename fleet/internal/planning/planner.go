// Package planning plans runs from the current state of a placement. It takes and loads snapshots,
// decides which clusters a placement picks, renders the overrides of a snapshot for each cluster,
// refuses objects that the host forbids, and asks the updater whether the plan will work. The
// result is a [Draft]; apart from a snapshot that Capture or Take records, nothing is stored.
package planning

import (
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Options configure a [Planner].
type Options struct {
	State    *state.State
	Contents *content.Store
	// Source may be nil if runs only use existing snapshots, by their index.
	Source                snapshot.Source
	Rules, NamespaceRules snapshot.Rules
	Restrictions          []placement.Restriction
	// Updater is the host's updater, nil for the engine's own. Updates guards its calls.
	Updater backend.Updater
	Updates *guard.Guard
	// Metrics are the metric providers of checks.
	Metrics     map[string]backend.MetricProvider
	CallTimeout time.Duration
}

// Planner makes plans. Its methods may be called concurrently.
type Planner struct {
	cfg              Options
	state            *state.State
	contents         *content.Store
	sources, updates *guard.Guard
}

// New returns a planner.
func New(o Options) *Planner {
	return &Planner{cfg: o, state: o.State, contents: o.Contents, sources: guard.New(o.CallTimeout), updates: o.Updates}
}
