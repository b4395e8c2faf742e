package fleet

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift"
)

// ApplyType says how the objects of a placement get to its clusters.
type ApplyType string

// The types of apply. Both applies are done on the server, by a field manager
// of the placement's own: fields that the hub dropped go, fields of others stay.
const (
	ServerSideApply ApplyType = "ServerSideApply"
	ClientSideApply ApplyType = "ClientSideApply"
	// ReportDiff writes nothing to a cluster: a run compares, and a cluster is
	// done once it has been compared, whatever came of it.
	ReportDiff ApplyType = "ReportDiff"
)

// WhenToApply says what becomes of objects that somebody changed on a cluster.
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
	// ComparisonOption says what counts as drift; empty is PartialComparison.
	ComparisonOption drift.Comparison `json:"comparisonOption,omitempty"`
	// WhenToApply, where set, has Engine.Run watch the clusters between runs too:
	// Always puts back what drifts, IfNotDrifted tells of it. Where it is empty
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
}

// problems are those of the strategy, with their fields below at.
func (s *ApplyStrategy) problems(at *field.Path) (errs field.ErrorList) {
	errs = oneOf(errs, at.Child("type"), s.Type, ServerSideApply, ClientSideApply, ReportDiff)
	errs = oneOf(errs, at.Child("comparisonOption"), s.ComparisonOption, drift.Partial, drift.Full)
	errs = oneOf(errs, at.Child("whenToApply"), s.WhenToApply, Always, IfNotDrifted)
	errs = oneOf(errs, at.Child("whenToTakeOver"), s.WhenToTakeOver, TakeOverAlways, IfNoDiff, Never)
	o := drift.Options{Ignore: s.Ignore, Secrets: s.Secrets}
	return append(errs, nested(at, o.Validate())...)
}

// oneOf adds a problem where v is neither empty nor one of known.
func oneOf[T ~string](errs field.ErrorList, at *field.Path, v T, known ...T) field.ErrorList {
	for _, k := range known {
		if v == "" || v == k {
			return errs
		}
	}
	return append(errs, field.NotSupported(at, v, known))
}

// reportsOnly tells that nothing is written to a cluster.
func (s *ApplyStrategy) reportsOnly() bool { return s.Type == ReportDiff }

// watches tells that clusters are watched between runs.
func (s *ApplyStrategy) watches() bool { return s.WhenToApply != "" || s.reportsOnly() }

// putsBack tells that what drifts between runs is put back.
func (s *ApplyStrategy) putsBack() bool { return s.WhenToApply == Always && !s.reportsOnly() }

// takesOver is WhenToTakeOver with its default.
func (s *ApplyStrategy) takesOver() WhenToTakeOver { return cmp.Or(s.WhenToTakeOver, TakeOverAlways) }

// options are those of a comparison for a placement.
func (s *ApplyStrategy) options(placement string, c drift.Comparison, secretKey []byte) drift.Options {
	return drift.Options{
		Comparison: c, Manager: manager(placement), Ignore: s.Ignore, Secrets: s.Secrets, SecretKey: secretKey,
	}
}

// problems are those of the options.
func (o *DriftOptions) problems() (errs field.ErrorList) {
	errs = oneOf(errs, field.NewPath("comparison"), o.Comparison, drift.Partial, drift.Full)
	for i, name := range o.Clusters {
		errs = append(errs, nameProblems(field.NewPath("clusters").Index(i), name)...)
	}
	if o.Index != nil && *o.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *o.Index, "must be the index of a snapshot, 0 or more"))
	}
	return errs
}
