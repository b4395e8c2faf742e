package fleet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// maxHistory is the largest HistoryLimit.
const maxHistory = 1000

// Validate reports every problem of the placement at once.
func (p Placement) Validate() error {
	errs := nameProblems(field.NewPath("name"), p.Name)
	if p.HistoryLimit < 0 || p.HistoryLimit > maxHistory {
		errs = append(errs, field.Invalid(field.NewPath("historyLimit"), p.HistoryLimit, "must be from 1 to 1000, or 0 for 10"))
	}
	switch p.Admission {
	case "", stages.QueueRun, stages.RejectRun, stages.SupersedeActive:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("admission"), p.Admission,
			[]stages.Admission{stages.QueueRun, stages.RejectRun, stages.SupersedeActive}))
	}
	errs = append(errs, snapshot.ValidateSelectors(p.Selectors, field.NewPath("selectors"))...)
	if err := p.Policy.Validate(); err != nil {
		errs = append(errs, field.InternalError(field.NewPath("policy"), err))
	}
	for i, o := range p.Overrides {
		if err := o.Validate(); err != nil {
			errs = append(errs, field.InternalError(field.NewPath("overrides").Index(i), err))
		}
	}
	return about("placement "+p.Name, errs)
}

// validate reports every problem of the spec besides those of its strategy,
// which the planner reports.
func (s RunSpec) validate() error {
	errs := nameProblems(field.NewPath("name"), s.Name)
	errs = append(errs, nameProblems(field.NewPath("placement"), s.Placement)...)
	if s.Index != nil && *s.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *s.Index, "must be the index of a snapshot, 0 or more"))
	}
	return about("run "+s.Name, errs)
}

func nameProblems(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "must be a DNS label")}
	}
	for _, m := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, m))
	}
	return errs
}

func about(object string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", object, errs.ToAggregate())
}
