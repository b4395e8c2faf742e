package member

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
)

// fate is what an update did to an object, or why it did nothing. It is nil until the update has
// done something, and if there is nothing to do. An object has one fate at a time:
//
//	fate           servers that are waited for   ledger                            baseline      failing objects
//	nil            probed                        an entry                          the previous  if it is missing or was changed
//	fateHeld       not waited for                an entry if owned, no end;        the previous  HeldDrifted, HeldForeign
//	                                             removals are postponed
//	fateWaits      not healthy                   the intent stays open                           NotApplied
//	fateRefused    not healthy                   the intent stays open                           NotApplied, NoSuchKind
//	fateApplied    probed                        an entry                          a new one     if it was changed since
//	fateUnhealthy  asked before                  an entry                          the previous  NotHealthy
//
// The previous baseline is also replaced if the update resumes another one, see work.baselineOf.
// Drift reports compare an object whatever its fate is; a preview also names why it is held back.
// The fate does not say what was read of the object: see target.live, target.ended and
// target.failed.
type fate interface{ isFate() }

type (
	// fateHeld is the fate of an object that must not be applied, see work.hold.
	fateHeld struct {
		why error
		// problem is why the object could not be applied anyway; it may be nil.
		problem error
	}
	// fateWaits is the fate of an object that cannot be applied or removed yet.
	fateWaits struct{ why error }
	// fateRefused is the fate of an object that could not be applied or removed.
	fateRefused struct{ why error }
	// fateApplied is the fate of an object that the update applied. before is its previous state; nil
	// if it was created.
	fateApplied struct{ before *unstructured.Unstructured }
	// fateUnhealthy is the fate of an object that is as desired and not healthy.
	fateUnhealthy struct{ why string }
)

func (fateHeld) isFate()      {}
func (fateWaits) isFate()     {}
func (fateRefused) isFate()   {}
func (fateApplied) isFate()   {}
func (fateUnhealthy) isFate() {}

// hold gives an object the fate that it must not be applied, unless why is nil.
func (t *target) hold(why error) {
	t.fate = nil
	if why != nil {
		t.fate = fateHeld{why: why}
	}
}

// suffer gives an object the fate of a problem. An object that is held back stays held back.
func (t *target) suffer(f fate) {
	if h, ok := t.fate.(fateHeld); ok {
		t.fate = fateHeld{why: h.why, problem: problemOf(f)}
		return
	}
	t.fate = f
}

// heldBack returns why an object must not be applied, or nil if it may be.
func (t *target) heldBack() error {
	if h, ok := t.fate.(fateHeld); ok {
		return h.why
	}
	return nil
}

// problem returns why an object could not be applied or removed, or nil.
func (t *target) problem() error { return problemOf(t.fate) }

func problemOf(f fate) error {
	switch f := f.(type) {
	case fateHeld:
		return f.problem
	case fateWaits:
		return f.why
	case fateRefused:
		return f.why
	}
	return nil
}

// failedCall is the last call about an object that failed, although calls about other objects may
// succeed: see session.ofOne. The object is then in outcome.stumbled. A later call may still
// succeed.
type failedCall struct {
	err error
	// read reports that the call was the first read of the object, so that its state is unknown.
	read bool
}

// unread reports whether an object could not be read.
func (t *target) unread() bool { return t.failed.read }

// exhausted returns the error of an object that failed too often.
func (t *target) exhausted() error {
	return fmt.Errorf("%s: it failed in %d updates while other objects succeeded: %v: %w", t.id, triesMost, t.failed.err, backend.ErrPermanent)
}

// refused records why an object could not be applied.
func (o *outcome) refused(t *target, err error) {
	t.suffer(fateRefused{err})
	o.problems = append(o.problems, err)
}

// await records what an object waits for before it can be applied.
func (o *outcome) await(t *target, what string) {
	t.suffer(fateWaits{errors.New(what)})
	o.waiting = what
}
