package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// The largest HistoryLimit, and the largest and the default RunHistory.
const (
	maxHistory     = 1000
	maxRunHistory  = 500
	runHistoryKept = 50
)

// Validate reports every problem of the placement at once, except for violations of an engine's
// rules.
func (p Placement) Validate() error {
	return problems.About("placement "+p.Name, p.problems(snapshot.Rules{}))
}

func (p Placement) problems(r snapshot.Rules) field.ErrorList {
	errs := problems.Name(field.NewPath("name"), p.Name)
	if p.HistoryLimit < 0 || p.HistoryLimit > maxHistory {
		errs = append(errs, field.Invalid(field.NewPath("historyLimit"), p.HistoryLimit, "must be from 1 to 1000, or 0 for 10"))
	}
	if p.RunHistory < 0 || p.RunHistory > maxRunHistory {
		errs = append(errs, field.Invalid(field.NewPath("runHistory"), p.RunHistory, "must be from 1 to 500, or 0 for 50"))
	}
	switch p.Admission {
	case "", stages.QueueRun, stages.RejectRun, stages.SupersedeActive:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("admission"), p.Admission,
			[]stages.Admission{stages.QueueRun, stages.RejectRun, stages.SupersedeActive}))
	}
	errs = problems.OneOf(errs, field.NewPath("deletePolicy"), p.DeletePolicy, placement.DeleteCreated, placement.DeleteAll, placement.Abandon)
	errs = append(errs, r.ValidateSelectors(p.Selectors, field.NewPath("selectors"))...)
	for i, c := range p.Carry {
		errs = problems.OneOf(errs, field.NewPath("carry").Index(i), c, snapshot.CarryDefaulted, snapshot.CarryOwned)
	}
	errs = append(errs, p.namespaceProblems()...)
	errs = append(errs, strategyProblems(&p.ApplyStrategy, field.NewPath("applyStrategy"))...)
	errs = append(errs, problems.Nested(field.NewPath("policy"), p.Policy.Validate())...)
	errs = append(errs, ownerProblems(p.Owner)...)
	errs = append(errs, placement.ValidateOverrides(p.Overrides, field.NewPath("overrides"))...)
	return errs
}

// namespaceProblems returns the parts of a namespaced placement that are outside its namespace.
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

// validate reports every problem of the spec at once.
func (s RunSpec) validate() error {
	return problems.About("run "+s.Name, append(problems.Name(field.NewPath("name"), s.Name), s.problems()...))
}

// problems returns the problems of a spec except for its name, because a preview needs no name.
func (s RunSpec) problems() field.ErrorList {
	errs := problems.Name(field.NewPath("placement"), s.Placement)
	if s.Index != nil && *s.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *s.Index, "must be the index of a snapshot, 0 or more"))
	}
	errs = append(errs, problems.Nested(field.NewPath("strategy"), s.Strategy.Validate())...)
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

// forbidsStarter names the first gate at which the identity that starts the run may not approve, or
// returns "".
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

// mostOwner limits the owner and the title that a host gives with a placement or a run, in bytes.
const mostOwner = 253

func ownerProblems(owner string) field.ErrorList {
	if len(owner) <= mostOwner {
		return nil
	}
	return field.ErrorList{field.TooLong(field.NewPath("owner"), "", mostOwner)}
}

// strategyProblems returns the problems of an apply strategy, with their fields below at.
func strategyProblems(s *apply.Strategy, at *field.Path) (errs field.ErrorList) {
	errs = problems.OneOf(errs, at.Child("type"), s.Type, apply.ServerSide, apply.ClientSide, apply.ReportDiff)
	errs = problems.OneOf(errs, at.Child("comparisonOption"), s.ComparisonOption, drift.Partial, drift.Full)
	errs = problems.OneOf(errs, at.Child("whenToApply"), s.WhenToApply, apply.Always, apply.IfNotDrifted)
	errs = problems.OneOf(errs, at.Child("whenToTakeOver"), s.WhenToTakeOver, apply.TakeOverAlways, apply.IfNoDiff, apply.Never)
	if s.RefuseConflicts && s.Type != apply.ServerSide && s.Type != "" {
		errs = append(errs, field.Invalid(at.Child("refuseConflicts"), true, "goes with the type ServerSideApply only"))
	}
	errs = append(errs, health.Validate(s.Health, at.Child("health"))...)
	o := drift.Options{Ignore: s.Ignore, Secrets: s.Secrets}
	return append(errs, problems.Nested(at, o.Validate())...)
}
