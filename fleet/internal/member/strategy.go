package member

import (
	"cmp"
	"encoding/json"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/health"
)

// ApplyType says how the objects of a placement get to its clusters.
type ApplyType string

// The types of apply. Both applies are done on the server, by a field manager
// of the placement's own: fields that the hub dropped go, fields of others stay.
//
// ServerSideApply refuses an object with a field that the schema of its kind does not have, or with several items of a
// keyed list under one key. ClientSideApply takes it, as kubectl apply does: without the field, and with the last of the
// items. A run reports that by stages.ObjectsAltered, and it is no drift.
const (
	ServerSideApply ApplyType = "ServerSideApply"
	ClientSideApply ApplyType = "ClientSideApply"
	// ReportDiff writes nothing to a cluster: a run compares, and a cluster is
	// done once it has been compared, whatever came of it.
	ReportDiff ApplyType = "ReportDiff"
)

// WhenToApply says what becomes of objects that were changed on a cluster.
type WhenToApply string

// When objects are applied.
const (
	// Always puts back what drifted.
	Always WhenToApply = "Always"
	// IfNotDrifted reports an object that drifted and leaves it alone, until the
	// hub has another version of it: that one is applied in any case.
	IfNotDrifted WhenToApply = "IfNotDrifted"
)

// WhenToTakeOver says what becomes of objects that are on a cluster before the
// placement comes to it.
type WhenToTakeOver string

// When objects are taken over.
const (
	TakeOverAlways WhenToTakeOver = "Always"
	// IfNoDiff takes over what does not differ.
	IfNoDiff WhenToTakeOver = "IfNoDiff"
	Never    WhenToTakeOver = "Never"
)

// ApplyStrategy says how the objects of a placement are applied, compared and
// kept. A run keeps the strategy that its placement had when it was created.
//
// An object that must not be applied, because it drifted or must not be taken
// over, is an error of its cluster that names it; the other objects are applied,
// and kept as WhenToApply says. What is to go from the cluster stays until
// nothing is held back any more.
type ApplyStrategy struct {
	// Type is ServerSideApply where empty.
	Type ApplyType `json:"type,omitempty"`
	// RefuseConflicts has objects not applied that would take a field with another value from another field manager, as
	// a server-side apply without force does. It goes with ServerSideApply. The other objects are applied.
	RefuseConflicts bool `json:"refuseConflicts,omitempty"`
	// ComparisonOption says what counts as drift; empty is PartialComparison.
	ComparisonOption drift.Comparison `json:"comparisonOption,omitempty"`
	// WhenToApply, where set, has Engine.Run watch the clusters between runs too:
	// Always puts back what drifts, IfNotDrifted reports it. Where it is empty
	// nothing is watched, and runs apply as with Always.
	WhenToApply WhenToApply `json:"whenToApply,omitempty"`
	// WhenToTakeOver is Always where empty.
	WhenToTakeOver WhenToTakeOver `json:"whenToTakeOver,omitempty"`
	// Ignore are differences that do not count, and are not put back.
	Ignore []drift.IgnoreRule `json:"ignore,omitempty"`
	// Secrets are pointers to values that must not be shown, with * for any key
	// or index, besides what is secret by its kind.
	Secrets []string `json:"secrets,omitempty"`
	// DryRun asks a member about what differs, with a dry run of the apply, where
	// its connection is a backend.ConnDryRunner: what an apply would leave as it
	// is, is no difference. It costs the member a call for each object that
	// differs, and where it fails nothing fails with it.
	DryRun bool `json:"dryRun,omitempty"`
	// Health are rules by which objects of the placement are healthy; they go before those of the engine's Prober,
	// which evaluates them.
	Health []health.Rule `json:"health,omitempty"`
}

// Equal reports whether two strategies say the same. A default that is named is not the same as one that is left out.
func (s ApplyStrategy) Equal(other ApplyStrategy) bool { return StrategyKey(&s) == StrategyKey(&other) }

// ReportsOnly reports whether nothing is written to a cluster.
func ReportsOnly(s *ApplyStrategy) bool { return s.Type == ReportDiff }

// Watches reports whether clusters are watched between runs.
func Watches(s *ApplyStrategy) bool { return s.WhenToApply != "" || ReportsOnly(s) }

// SelfHeals reports whether what drifts between runs is put back.
func SelfHeals(s *ApplyStrategy) bool { return s.WhenToApply == Always && !ReportsOnly(s) }

// takesOver is WhenToTakeOver with its default.
func takesOver(s *ApplyStrategy) WhenToTakeOver { return cmp.Or(s.WhenToTakeOver, TakeOverAlways) }

// driftOptions are those of a comparison for a placement.
func driftOptions(s *ApplyStrategy, placement string, c drift.Comparison, secretKey []byte) drift.Options {
	return drift.Options{
		Comparison: c, Manager: manager(placement), Ignore: s.Ignore, Secrets: s.Secrets, SecretKey: secretKey,
	}
}

// StrategyKey is the same for strategies that are equal, and for no others.
func StrategyKey(s *ApplyStrategy) string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // it cannot be: it was read from JSON or checked
	}
	return string(b)
}
