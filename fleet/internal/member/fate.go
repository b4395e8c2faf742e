package member

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/health"
)

// fate is what an update did to an object, or why it did nothing. It is nil until the update has
// done something, and if there is nothing to do. An object has one fate at a time:
//
//	fate           proof of the cluster    ledger                  baseline      failing objects
//	nil            by its health           an entry                the previous  if it is missing or changed, HeldForeign
//	fateHeld       an error, at the end    an entry if it is owned the previous  HeldDrifted, HeldForeign
//	fateWaits      not applied yet         the intent stays open                 NotApplied
//	fateRefused    an error, at the end    the intent stays open                 NotApplied, NoSuchKind
//	fateApplied    by its health           an entry                a new one     if it is missing or changed
//	fateUnhealthy  not healthy, or failed  an entry                as before     NotHealthy
//
// The health is read after the ledger and the baselines are saved, so fateUnhealthy may replace
// fateApplied. An object without a fate is HeldForeign if another placement ended the update. A
// fateHeld with a problem is in the ledger and among the failing objects as fateRefused is. In a
// repair, fateHeld is no error.
//
// While an object is held back, removals are postponed. If an object waits for a server, see
// servers, then an object that is held back is not waited for, and an object that waits or was
// refused counts as not healthy. The previous baseline is also replaced if the update resumes
// another one, see work.baselineOf. Drift reports compare an object whatever its fate is.
//
// The fate does not say what was read of an object: see target.live, target.ended and
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

// hold gives an object the fate that it must not be applied. If why is nil, the object has no fate
// any more, so call it before the object is applied or has a problem.
func (t *target) hold(why error) {
	t.fate = nil
	if why != nil {
		t.fate = fateHeld{why: why}
	}
}

// suffer gives an object the fate of a problem. An object that is held back stays held back.
func (t *target) suffer(f fate) {
	if h, ok := t.fate.(fateHeld); ok {
		t.fate = fateHeld{why: h.why, problem: cmp.Or(problemOf(f), h.problem)}
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

// illness describes why an object is not healthy.
func illness(t *target, h health.Status) string {
	if h.Message == "" {
		return t.id.String() + " is not healthy"
	}
	return t.id.String() + ": " + guard.Clip(h.Message)
}
