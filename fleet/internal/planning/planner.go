// Package planning makes plans of what is there now: it takes and loads snapshots, decides which clusters a
// placement picks, renders what overrides make of a snapshot for each, refuses what the host forbids, and asks
// the updater whether the result will work. What it makes is a [Draft]; nothing of it is recorded.
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

// Options are what a [Planner] is made of.
type Options struct {
	State    *state.State
	Contents *content.Store
	// Source is nil where runs name an index that exists.
	Source                snapshot.Source
	Rules, NamespaceRules snapshot.Rules
	Restrictions          []placement.Restriction
	// Updater is the host's own, nil for the engine's. Updates guards its calls.
	Updater backend.Updater
	Updates *guard.Guard
	// Metrics are the providers of checks.
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
