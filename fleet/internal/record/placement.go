package record

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Placement is the record of a placement. It holds all data that must change together, so it is the
// placement's only record that is written by compare-and-swap.
type Placement struct {
	Format    int         `json:"format"`
	Placement Declaration `json:"placement"`
	// Key is random and never leaves the store. It seals data for members and reports so that they
	// cannot read or guess the content, see sealRevision and drift.Options.
	Key []byte `json:"key"`
	lifecycle.State
	Journal Journal `json:"journal,omitzero"`
	// Inline holds small bindings that the record refers to, by their generation. They have no
	// pages.
	Inline map[string]bindingsPage `json:"inlineBindings,omitempty"`
}

// HasRun reports whether the run with this UID was admitted and is not forgotten.
func (rec *Placement) HasRun(uid string) bool {
	_, known := rec.Run(uid)
	return known
}

// IsRetired reports whether a run is forgotten and its stored data will be deleted.
func (rec *Placement) IsRetired(uid string) bool {
	return slices.ContainsFunc(rec.Retired, func(r lifecycle.Run) bool { return r.UID == uid })
}

// IsUnderway reports whether the placement has a deletion or a rollback that an engine must
// continue, apart from its runs.
func (rec *Placement) IsUnderway() bool { return rec.Deleting != nil || rec.Rollback != nil }

// Has reports whether the snapshot with this index is kept.
func (rec *Placement) Has(index int) bool {
	return slices.ContainsFunc(rec.Snapshots, func(s snapshot.Snapshot) bool { return s.Index == index })
}

// Latest returns the latest snapshot, or false if there is none.
func (rec *Placement) Latest() (snapshot.Snapshot, bool) {
	if len(rec.Snapshots) == 0 {
		return snapshot.Snapshot{}, false
	}
	return rec.Snapshots[len(rec.Snapshots)-1], true
}

// NamesBindings reports whether the record refers to the bindings page under this key.
func (rec *Placement) NamesBindings(key string) bool {
	name := rec.Placement.Name
	return strings.HasPrefix(key, generationPrefix(name, rec.Bindings)) || rec.Base != nil && strings.HasPrefix(key, generationPrefix(name, rec.Base.Bindings))
}

// Spec returns the part of the declaration that the placement's state machine needs.
func (rec *Placement) Spec() lifecycle.Spec {
	p := &rec.Placement
	return lifecycle.Spec{Name: p.Name, Admission: p.Admission, HistoryLimit: p.HistoryLimit, RunHistory: p.RunHistory}
}

// EventsKept returns the minimum number of kept events of a placement.
func (rec *Placement) EventsKept() int64 {
	const each, least = 4, 64
	return int64(max(least, each*(cmp.Or(rec.Placement.HistoryLimit, snapshot.DefaultLimit)+cmp.Or(rec.Placement.RunHistory, lifecycle.RunHistory))))
}

// IsEmptied reports whether the record refers to nothing except retired runs.
func (rec *Placement) IsEmptied() bool { return rec.IsEmpty() && rec.Journal.Kept() == 0 }

// Declaration is fleet.Placement, which documents the fields: the two convert to each other.
type Declaration struct {
	Name             string                 `json:"name"`
	Owner            string                 `json:"owner,omitempty"`
	Namespace        string                 `json:"namespace,omitempty"`
	Selectors        []snapshot.Selector    `json:"selectors"`
	Carry            []snapshot.Carry       `json:"carry,omitempty"`
	AllowEmpty       bool                   `json:"allowEmpty,omitempty"`
	Policy           placement.Policy       `json:"policy,omitzero"`
	Overrides        []placement.Override   `json:"overrides,omitempty"`
	HistoryLimit     int                    `json:"historyLimit,omitempty"`
	RunHistory       int                    `json:"runHistory,omitempty"`
	Admission        stages.Admission       `json:"admission,omitempty"`
	AllowCoOwnership bool                   `json:"allowCoOwnership,omitempty"`
	Exclusive        bool                   `json:"exclusive,omitempty"`
	DeletePolicy     placement.DeletePolicy `json:"deletePolicy,omitempty"`
	ReportStatus     bool                   `json:"reportStatus,omitempty"`
	ApplyStrategy    apply.Strategy         `json:"applyStrategy,omitzero"`
}
