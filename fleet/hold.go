package fleet

import (
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
)

// hold decides which objects the strategy forbids to apply: those that drifted
// from the version that is to be applied, and those that were there before and
// must not be taken over. It looks at what was looked at, and asks nobody.
func (w *work) hold() {
	for _, t := range w.targets {
		t.held = w.holding(t)
	}
}

// holding says why an object must not be applied, nil where it may be.
func (w *work) holding(t *target) error {
	s := &w.a.Strategy
	switch {
	case t.want == nil || t.live == nil || isTerminating(t.live):
		return nil
	case !owned(t, w.a.Placement):
		return w.keepsOut(t)
	case s.WhenToApply != IfNotDrifted || annotation(t.live, digestMark+w.a.Placement) != t.want.Digest:
		return nil // another version of the object is applied in any case
	}
	r, err := w.compare(t)
	if err != nil || !r.Drifted() {
		return err
	}
	return fmt.Errorf("cluster %s: %s has drifted and is left alone, because whenToApply is IfNotDrifted: %s: put it back, change it at the hub, or apply Always: %w",
		w.m.name, t.id, summaryOf(&r), backend.ErrPermanent)
}

// keepsOut says why an object that was there before must not be taken over.
func (w *work) keepsOut(t *target) error {
	switch w.a.Strategy.takesOver() {
	case Never:
		return fmt.Errorf("cluster %s: %s was there before and is not taken over, because whenToTakeOver is Never: delete it, or let it be taken over: %w",
			w.m.name, t.id, backend.ErrPermanent)
	case IfNoDiff:
		r, err := w.compare(t)
		if err != nil || !r.Drifted() {
			return err
		}
		return fmt.Errorf("cluster %s: %s was there before and differs, and whenToTakeOver is IfNoDiff: %s: make them equal, or take it over Always: %w",
			w.m.name, t.id, summaryOf(&r), backend.ErrPermanent)
	default:
		return nil
	}
}

// compare compares an object with what is to be there.
func (w *work) compare(t *target) (drift.Report, error) { return w.comparison().of(t) }

func (w *work) comparison() *comparison {
	return &comparison{w.u.compiler.of(w.rev, w.a.Strategy, w.a.Placement, w.a.secretKey), w.ledger.baselines()}
}

// summaryOf names the first differences of a report, without their values.
func summaryOf(r *drift.Report) string {
	if len(r.Differences) == 0 {
		return string(r.State)
	}
	first := &r.Differences[0]
	text := fmt.Sprintf("%s (%s)", clip(pathOf(first)), first.Class)
	if more := r.Total - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func pathOf(d *drift.Difference) string {
	if d.Path == "" {
		return "all of it"
	}
	return d.Path
}

// heldBack returns why objects are held back, for the error of an update.
func (w *work) heldBack() error {
	var all []error
	for _, t := range w.targets {
		if t.held != nil {
			all = append(all, t.held)
		}
	}
	return joinProblems(all)
}
