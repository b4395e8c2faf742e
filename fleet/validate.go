package fleet

import (
	stderrors "errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// The largest HistoryLimit, and the largest and the default RunHistory.
const (
	maxHistory     = 1000
	maxRunHistory  = 500
	runHistoryKept = 50
)

// Validate reports every problem of the placement at once, but for what an engine
// forbids.
func (p Placement) Validate() error { return about("placement "+p.Name, p.problems(snapshot.Rules{})) }

func (p Placement) problems(r snapshot.Rules) field.ErrorList {
	errs := nameProblems(field.NewPath("name"), p.Name)
	if p.HistoryLimit < 0 || p.HistoryLimit > maxHistory {
		errs = append(errs, field.Invalid(field.NewPath("historyLimit"), p.HistoryLimit, "must be from 1 to 1000, or 0 for 10"))
	}
	if p.RunHistory < 0 || p.RunHistory > maxRunHistory {
		errs = append(errs, field.Invalid(field.NewPath("runHistory"), p.RunHistory, "must be from 1 to 500, or 0 for 50"))
	}
	switch p.Admission {
	case "", lifecycle.QueueRun, lifecycle.RejectRun, lifecycle.SupersedeActive:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("admission"), p.Admission,
			[]lifecycle.Admission{lifecycle.QueueRun, lifecycle.RejectRun, lifecycle.SupersedeActive}))
	}
	errs = append(errs, r.ValidateSelectors(p.Selectors, field.NewPath("selectors"))...)
	errs = append(errs, p.namespaceProblems()...)
	errs = append(errs, strategyProblems(&p.ApplyStrategy, field.NewPath("applyStrategy"))...)
	errs = append(errs, nested(field.NewPath("policy"), p.Policy.Validate())...)
	errs = append(errs, ownerProblems(p.Owner)...)
	errs = append(errs, placement.ValidateOverrides(p.Overrides, field.NewPath("overrides"))...)
	return errs
}

// namespaceProblems are what a placement of a namespace has that is not in it.
func (p Placement) namespaceProblems() (errs field.ErrorList) {
	if p.Namespace == "" {
		return nil
	}
	for _, m := range validation.IsDNS1123Label(p.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), p.Namespace, m))
	}
	for i, s := range p.Selectors {
		if s.Namespace != p.Namespace {
			errs = append(errs, field.Invalid(field.NewPath("selectors").Index(i).Child("namespace"), s.Namespace, "must be "+p.Namespace+", that of the placement"))
		}
	}
	return errs
}

// nested returns the problems in err, which a part of a document reports, with
// at before their fields.
func nested(at *field.Path, err error) (out field.ErrorList) {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if all := errors.Aggregate(nil); stderrors.As(err, &all) {
		errs = all.Errors()
	}
	for _, err := range errs {
		f := &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: err.Error()}
		if inner := (*field.Error)(nil); stderrors.As(err, &inner) {
			c := *inner
			f = &c
		}
		if f.Field == "" {
			f.Field = at.String()
		} else {
			f.Field = at.Child(f.Field).String()
		}
		out = append(out, f)
	}
	return out
}

// validate reports every problem of the spec at once.
func (s RunSpec) validate() error {
	return about("run "+s.Name, append(nameProblems(field.NewPath("name"), s.Name), s.problems()...))
}

// problems are those of a spec besides its name, which a preview has no need
// of.
func (s RunSpec) problems() field.ErrorList {
	errs := nameProblems(field.NewPath("placement"), s.Placement)
	if s.Index != nil && *s.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *s.Index, "must be the index of a snapshot, 0 or more"))
	}
	errs = append(errs, nested(field.NewPath("strategy"), s.Strategy.Validate())...)
	errs = append(errs, ownerProblems(s.Owner)...)
	if len(s.Title) > mostOwner {
		errs = append(errs, field.TooLong(field.NewPath("title"), "", mostOwner))
	}
	if gate := forbidsStarter(s.Strategy); gate != "" && s.Starter.Name == "" {
		errs = append(errs, field.Required(field.NewPath("starter", "name"),
			"who starts the run must be known, since "+gate+" forbids them to approve"))
	}
	return errs
}

// forbidsStarter names the first gate whose approval is refused to whoever
// starts the run, or "".
func forbidsStarter(s stages.Strategy) string {
	forbids := func(t stages.Task) bool {
		return t.Type == stages.Approval && t.Approval != nil && t.Approval.ForbidStarter
	}
	for _, st := range append(slices.Clone(s.Stages), stages.Stage{Name: stages.RemovalStageName, Before: s.Removal.Before, After: s.Removal.After}) {
		switch {
		case slices.ContainsFunc(st.Before, forbids):
			return "the approval before stage " + st.Name
		case slices.ContainsFunc(st.After, forbids):
			return "the approval after stage " + st.Name
		}
		for _, g := range st.Groups {
			if slices.ContainsFunc(slices.Concat(g.Before, g.After), forbids) {
				return "an approval of group " + g.Name + " of stage " + st.Name
			}
		}
	}
	return ""
}

// nameProblems says what keeps a name from being that of a placement or a run.
// It is also the name of a ledger, and ends annotations and field managers, which
// may be no longer.
func nameProblems(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "must be a DNS subdomain (RFC 1123) of at most 63 characters")}
	}
	if len(name) > stages.MaxPlacementName {
		errs = append(errs, field.TooLong(at, "", stages.MaxPlacementName))
	}
	for _, m := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, m))
	}
	return errs
}

// mostOwner bounds what a host gives with a placement or a run, in bytes.
const mostOwner = 253

func ownerProblems(owner string) field.ErrorList {
	if len(owner) <= mostOwner {
		return nil
	}
	return field.ErrorList{field.TooLong(field.NewPath("owner"), "", mostOwner)}
}

func about(object string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", object, errs.ToAggregate())
}

// strategyProblems are those of an apply strategy, with their fields below at.
func strategyProblems(s *ApplyStrategy, at *field.Path) (errs field.ErrorList) {
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

// problems are those of the options.
func (o *driftOptions) problems() (errs field.ErrorList) {
	errs = oneOf(errs, field.NewPath("comparison"), o.Comparison, drift.Partial, drift.Full)
	for i, name := range o.Clusters {
		errs = append(errs, nameProblems(field.NewPath("clusters").Index(i), name)...)
	}
	if o.Index != nil && *o.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *o.Index, "must be the index of a snapshot, 0 or more"))
	}
	return errs
}
