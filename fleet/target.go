package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
)

// target is one object that an update is about.
type target struct {
	id    snapshot.ID
	phase snapshot.Phase
	// want is the object as it is to be; nil for one that is to go.
	want *revisionItem
	// entry is what the ledger has, where listed. An object that is in the
	// ledger only as doubtful is doubted.
	entry           ledgerObject
	listed, doubted bool

	// live is the object as the member has it; nil if it does not exist.
	live *unstructured.Unstructured
	// adopted is what is decided from entry and live; held is why the strategy
	// forbids to apply it.
	adopted bool
	held    error
	// problem is why it could not be applied, illness what its health says, "" where
	// it is healthy or was not asked for.
	problem error
	illness string
	// served tells of a definition that it is established, hopeless that this was
	// waited for in vain.
	served, hopeless bool
	// unmarked is why the member does not have the mark of a takeover.
	unmarked error
	// applied tells that this update applied it, before what it was until then;
	// nil where it was created.
	applied bool
	before  *unstructured.Unstructured
}

// targetsOf returns the objects of a revision, which may be nil, and of a
// ledger, in the order of application.
func targetsOf(rev *revision, l *ledger) []*target {
	var all []*target
	byKey := map[snapshot.ID]*target{}
	add := func(id snapshot.ID) *target {
		t := byKey[objectKey(id)]
		if t == nil {
			t = &target{id: id, phase: id.Phase()}
			byKey[objectKey(id)], all = t, append(all, t)
		}
		return t
	}
	if rev != nil {
		for i := range rev.items {
			add(rev.items[i].ID).want = &rev.items[i]
		}
	}
	for _, o := range l.Objects {
		t := add(o.ID)
		t.entry, t.listed = o, true
	}
	for _, o := range l.Doubtful {
		if t := add(o.ID); !t.listed {
			t.entry, t.doubted = o, true
		}
	}
	slices.SortStableFunc(all, func(a, b *target) int { return cmp.Or(cmp.Compare(a.phase, b.phase), a.id.Compare(b.id)) })
	return all
}

// look reads an object from the member and decides what it is to us.
func (w *work) look(ctx context.Context, t *target) error {
	live, err := w.m.get(ctx, t.id)
	if err != nil && (!errors.Is(err, backend.ErrPermanent) || t.want == nil || t.listed) {
		return err
	}
	// A kind that the member does not know yet may come with the revision. If
	// the object is there after all, creating it is refused.
	return w.found(t, live)
}

// found takes in what the member has.
func (w *work) found(t *target, live *unstructured.Unstructured) error {
	t.live = live
	t.adopted = w.adopts(t)
	return w.heed(t)
}

// lookAll looks at all objects that are not remembered, also where a member refuses
// to show one.
func (w *work) lookAll(ctx context.Context, targets []*target) error {
	var refused []error
	for _, t := range targets {
		var err error
		if live := w.remembered(t); live != nil {
			err = w.found(t, live)
		} else {
			err = w.look(ctx, t)
		}
		if errors.Is(err, backend.ErrPermanent) {
			refused = append(refused, err)
		} else if err != nil {
			return err
		}
	}
	return joinProblems(refused)
}

// adopts tells whether an object existed before the placement came to it, or
// may have: then it is never deleted. What carries our digest without being in
// the ledger counts as adopted, because nothing proves who made it.
func (w *work) adopts(t *target) bool {
	switch {
	case t.live == nil:
		return false
	case t.doubted:
		return !carries(t.live, w.a.Placement)
	case !t.listed:
		return true
	case t.entry.Adopted:
		return true
	case carries(t.live, w.a.Placement):
		return false
	}
	// We would have marked what we created. Its uid tells whether it is that
	// object, from which somebody took the marks.
	return t.entry.UID == "" || t.entry.UID != string(t.live.GetUID())
}

// settled tells whether nothing has to be done about an object.
func (w *work) settled(t *target) bool {
	switch {
	case t.want != nil:
		return t.listed && t.live != nil && w.asDesired(t)
	case t.listed:
		return false
	case t.live == nil || !carries(t.live, w.a.Placement):
		return true
	}
	return isTerminating(t.live)
}

func (w *work) asDesired(t *target) bool {
	return !isTerminating(t.live) && annotation(t.live, digestMark+w.a.Placement) == t.want.Digest &&
		covers(t.live.Object, w.desired(t).Object)
}

// desired returns the object to apply: what the strategy ignores is left to
// whoever wrote it.
func (w *work) desired(t *target) *unstructured.Unstructured {
	return drift.Strip(t.want.obj, t.live, w.a.Strategy.Ignore, manager(w.a.Placement))
}

// refuse names every object that another placement applies.
func (w *work) refuse() error {
	if w.a.AllowCoOwnership {
		return nil
	}
	var refused []error
	for _, t := range w.targets {
		if err := w.refusal(t); err != nil {
			refused = append(refused, err)
		}
	}
	return joinProblems(refused)
}

func (w *work) refusal(t *target) error {
	if t.want == nil || t.live == nil || w.a.AllowCoOwnership {
		return nil
	}
	others := otherPlacements(t.live, w.a.Placement)
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("cluster %s: %s is applied by placement %s already: take it out of one of them, or allow co-ownership: %w",
		w.m.name, t.id, strings.Join(others[:min(len(others), 3)], ", "), backend.ErrPermanent)
}

// intended are the objects of the intent: what is to be there and what may
// still be.
func (w *work) intended() []ledgerObject {
	var out []ledgerObject
	for _, t := range w.targets {
		switch {
		case t.want != nil && (t.held == nil || owned(t, w.a.Placement)):
			out = append(out, ledgerObject{ID: t.id, Digest: t.want.Digest, Adopted: t.adopted, UID: uidOf(t.live)})
		case t.listed:
			out = append(out, t.entry)
		}
	}
	return out
}

// applied are the objects of a ledger that is closed. What was not taken over is
// not among them; what is to go stays while something is held back.
func (w *work) applied() []ledgerObject {
	var out []ledgerObject
	for _, t := range w.targets {
		switch {
		case t.want != nil && (t.held == nil || owned(t, w.a.Placement)):
			out = append(out, ledgerObject{ID: t.id, Digest: t.want.Digest, Adopted: t.adopted, UID: uidOf(t.live)})
		case t.want == nil && w.stays(t):
			out = append(out, t.entry)
		}
	}
	return out
}

// doubtful are the objects in doubt of an intent: those there were, and in a
// takeover what the older leader may still create.
func (w *work) doubtful() []ledgerObject {
	out := slices.Clone(w.ledger.Doubtful)
	for _, t := range w.targets {
		if w.mayComeLate(t) {
			out = addDoubt(out, ledgerObject{ID: t.id, Digest: t.entry.Digest})
		}
	}
	return out[max(0, len(out)-doubtfulMost):]
}

// mayComeLate tells whether an older leader, whose intent is open, may be about
// to create an object. If it is wanted and exists the creation is refused, and
// if it is wanted and does not exist, only until somebody removes it. A leader
// that had the same target creates nothing else.
func (w *work) mayComeLate(t *target) bool {
	if !w.takeover || w.ledger.Target == "" || !t.listed || t.entry.Adopted {
		return false
	}
	if t.want != nil {
		return t.live == nil
	}
	return w.ledger.Target != w.a.Revision
}

// leftovers are the objects in doubt of a ledger that is closed: those that
// an older leader may still create, and those that are not gone yet.
func (w *work) leftovers() []ledgerObject {
	var out []ledgerObject
	for _, o := range w.ledger.Doubtful {
		if o.UID == "" {
			out = append(out, o)
		}
	}
	for _, t := range w.targets {
		if t.want == nil && t.live != nil && isTerminating(t.live) && carries(t.live, w.a.Placement) && !isNamespace(t.id) {
			out = addDoubt(out, ledgerObject{ID: t.id, Digest: t.entry.Digest, UID: uidOf(t.live)})
		}
	}
	return out[max(0, len(out)-doubtfulMost):]
}

// addDoubt adds an object that is not there yet.
func addDoubt(to []ledgerObject, o ledgerObject) []ledgerObject {
	for i := range to {
		if objectKey(to[i].ID) == objectKey(o.ID) {
			if o.UID == "" {
				to[i].UID = ""
			}
			return to
		}
	}
	return append(to, o)
}

func uidOf(obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	return string(obj.GetUID())
}

// lookAgain looks at an object after its precondition did not hold. The ledger
// is read after the object: as long as it is ours, whoever comes later finds
// our intent and changes the object's resourceVersion before going on. A
// decision that comes out differently is recorded before it is acted on.
func (w *work) lookAgain(ctx context.Context, t *target) error {
	before := t.adopted
	if t.want != nil && t.live == nil {
		// It was to be created and is there now. Without our mark it is
		// somebody else's, whatever the intent says.
		t.entry, t.listed = ledgerObject{ID: t.id}, true
	}
	if err := w.look(ctx, t); err != nil {
		return err
	}
	if err := w.confirm(ctx); err != nil {
		return err
	}
	if t.want == nil || t.adopted == before {
		return nil
	}
	next := w.ledger.clone()
	next.Objects = w.intended()
	return w.ledger.write(ctx, w.m, next)
}

// confirm makes sure that the ledger is still ours.
func (w *work) confirm(ctx context.Context) error {
	now := time.Now()
	if err := w.ledger.confirm(ctx, w.m, w.a.Epoch); err != nil {
		return err
	}
	w.confirmed = now
	return nil
}

// joinProblems bounds how many problems an error names.
func joinProblems(problems []error) error {
	const most = 5
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Errorf("and %d more objects: %w", more, backend.ErrPermanent))
	}
	return errors.Join(problems...)
}
