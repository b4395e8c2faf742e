// Package apply defines how the engine applies the objects of a placement to a cluster: the
// [Strategy], the objects that fail, and the status that objects report.
//
// Neighbours: package fleet keeps a Strategy for each placement, package backend has the Updater
// that carries it out on a cluster, package drift compares objects, and package health judges them.
package apply

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/health"
)

// Type says how the objects of a placement are written to its clusters.
type Type string

// The types of apply. ServerSide and ClientSide both use server-side apply, with a field manager
// for the placement: fields that the hub dropped are removed, fields of other managers stay.
//
// ServerSide refuses an object with a field that the schema of its kind does not have, or with
// several items of a keyed list under one key. ClientSide accepts such an object, as kubectl apply
// does: it omits the field, and keeps the last of the items. A run reports this by
// stages.ObjectsAltered, and it is not drift.
const (
	ServerSide Type = "ServerSideApply"
	ClientSide Type = "ClientSideApply"
	// ReportDiff writes nothing to a cluster: a run compares, and a cluster is done once it has
	// been compared, even if it differs.
	ReportDiff Type = "ReportDiff"
)

// WhenToApply says whether the engine restores objects that others changed on a cluster.
type WhenToApply string

// When objects are applied.
const (
	// Always restores the objects that drifted.
	Always WhenToApply = "Always"
	// IfNotDrifted reports an object that drifted and does not restore it. If the hub gets another
	// version of the object, that version is applied in any case.
	IfNotDrifted WhenToApply = "IfNotDrifted"
)

// WhenToTakeOver says whether the engine takes over objects that exist on a cluster before the
// placement applies them.
type WhenToTakeOver string

// When objects are taken over.
const (
	TakeOverAlways WhenToTakeOver = "Always"
	// IfNoDiff takes over an object that does not differ.
	IfNoDiff WhenToTakeOver = "IfNoDiff"
	Never    WhenToTakeOver = "Never"
)

// Strategy says how the objects of a placement are applied, compared and kept. A run keeps the
// strategy that its placement had when the run was created.
//
// If an object must not be applied, because it drifted or must not be taken over, its cluster fails
// with an error that names the object. The other objects are applied, and kept as WhenToApply says.
// Objects that have to be removed from the cluster stay there until every object may be applied.
type Strategy struct {
	// Type is ServerSide if empty.
	Type Type `json:"type,omitempty"`
	// RefuseConflicts does not apply an object that would take a field with another value from
	// another field manager, as a server-side apply without force does. It is allowed only with Type
	// ServerSide. The other objects are applied.
	RefuseConflicts bool `json:"refuseConflicts,omitempty"`
	// ComparisonOption says which differences are drift; drift.Partial if empty.
	ComparisonOption drift.Comparison `json:"comparisonOption,omitempty"`
	// WhenToApply, if set, has Engine.Start watch the clusters between runs too: Always restores
	// drift, IfNotDrifted reports it. If it is empty, nothing is watched, and runs apply as with
	// Always.
	WhenToApply WhenToApply `json:"whenToApply,omitempty"`
	// WhenToTakeOver is TakeOverAlways if empty.
	WhenToTakeOver WhenToTakeOver `json:"whenToTakeOver,omitempty"`
	// Ignore are rules for differences that are neither reported nor restored.
	Ignore []drift.IgnoreRule `json:"ignore,omitempty"`
	// Secrets are pointers to values that must not be shown, with * for any key or index, in
	// addition to the values that are secret by their kind.
	Secrets []string `json:"secrets,omitempty"`
	// DryRun asks a member about differences by a dry run of the apply, if its connection is a
	// backend.ConnDryRunner: a field that the apply would not change does not differ. It costs the
	// member a call for each object that differs; if the dry run fails, the field is reported as
	// different.
	DryRun bool `json:"dryRun,omitempty"`
	// Health are rules that say when objects of the placement are healthy. The engine's Prober
	// evaluates them, before its own rules: see health.RuleProber.
	Health []health.Rule `json:"health,omitempty"`
}

// Equal reports whether two strategies have the same fields. A named default and an empty field
// differ.
func (s Strategy) Equal(other Strategy) bool { return s.Key() == other.Key() }

// Key returns a text that is the same for equal strategies, and for no others.
func (s Strategy) Key() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // it cannot be: it was read from JSON or checked
	}
	return string(b)
}

// ReportsOnly reports whether the strategy writes nothing to a cluster.
func (s Strategy) ReportsOnly() bool { return s.Type == ReportDiff }

// Watches reports whether clusters are watched between runs.
func (s Strategy) Watches() bool { return s.WhenToApply != "" || s.ReportsOnly() }

// SelfHeals reports whether drift is restored between runs.
func (s Strategy) SelfHeals() bool { return s.WhenToApply == Always && !s.ReportsOnly() }
