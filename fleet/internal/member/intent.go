package member

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet/internal/once"
)

// openLedgerEntries returns the objects of the open ledger: the desired objects, and the objects
// that may still be on the cluster.
func (w *work) openLedgerEntries() []ledgerObject {
	var out []ledgerObject
	for _, t := range w.targets {
		switch {
		case t.want != nil && !t.unread() && (t.heldBack() == nil || owned(t, w.a.Placement)):
			out = append(out, w.entryOf(t))
		case t.listed():
			out = append(out, t.recorded())
		}
	}
	return out
}

// closedLedgerEntries returns the objects of the closed ledger. Objects that were not taken over
// are not among them. Undesired objects stay in the ledger while an object is held back.
func (w *work) closedLedgerEntries() []ledgerObject {
	out := make([]ledgerObject, 0, len(w.targets))
	for _, t := range w.targets {
		switch {
		case t.want != nil && (t.heldBack() == nil || owned(t, w.a.Placement)):
			out = append(out, w.entryOf(t))
		case t.want == nil && w.removalPostponed(t):
			out = append(out, t.recorded())
		}
	}
	return out
}

// entryOf returns the ledger entry of a desired object.
func (s *session) entryOf(t *target) ledgerObject {
	tag := manifestTag(s.a.secretKey, t.want)
	o := ledgerObject{ID: t.id, Adopted: t.adopted, UID: uidOf(t.live)}
	class := once.Lasting
	switch {
	case t.ended != "" && t.listed() && t.entry.Once == tag:
		return t.recorded()
	case t.ended != "":
		o.Once, o.End = tag, t.ended
		return o
	case t.live != nil && !s.a.ofCheck && digestOn(t.live, s.a.Placement) == t.want.Digest:
		class = once.ClassOf(t.live)
	}
	if class != once.Lasting {
		o.Once, o.Expires, o.End = tag, class == once.Expiring, once.EndOf(t.live)
	}
	return o
}

// recordBegun writes the uid of an object that does its work once to the ledger right after it was
// applied. The object may be gone before the update ends, and must not be applied again then.
func (s *session) recordBegun(ctx context.Context, t *target, entries func() []ledgerObject) error {
	if s.entryOf(t).Once == "" {
		return nil
	}
	next := s.ledger.clone()
	next.Objects = entries()
	return s.ledger.write(ctx, s.m, next)
}

// recordEnds writes to a closed ledger how targets ended if the ledger does not know it yet.
func (s *session) recordEnds(ctx context.Context, targets []*target) error {
	if s.ledger.open() || !s.ledger.exists() {
		return nil
	}
	next := s.ledger.clone()
	next.Objects = slices.Clone(next.Objects)
	changed := false
	for _, t := range targets {
		at := slices.IndexFunc(next.Objects, func(o ledgerObject) bool { return objectKey(o.ID) == objectKey(t.id) })
		if at < 0 || !s.endsUnrecorded(t, &next.Objects[at]) {
			continue
		}
		next.Objects[at], changed = s.entryOf(t), true
	}
	if !changed {
		return nil
	}
	if err := s.ledger.write(ctx, s.m, next); err != nil {
		return err
	}
	s.m.ledgers.keep(s.ledger)
	return nil
}

// endsUnrecorded reports whether an object has ended and the ledger does not say so.
func (s *session) endsUnrecorded(t *target, o *ledgerObject) bool {
	if t.want == nil || t.live == nil || t.heldBack() != nil || uidOf(t.live) != o.UID {
		return false
	}
	now := s.entryOf(t)
	return now.End != "" && (now.End != o.End || now.Once != o.Once)
}

// suspects returns the suspect objects of the next intent: the previous ones, and in a takeover
// the objects that the older leader may still create.
func (s *session) suspects(targets []*target) []ledgerObject {
	out := slices.Clone(s.ledger.Suspects)
	for _, t := range targets {
		if s.mayComeLate(t) {
			out = addSuspect(out, ledgerObject{ID: t.id})
		}
	}
	return out[max(0, len(out)-suspectsMost):]
}

// leftovers returns the suspect objects of the closed ledger: objects that an older leader may
// still create, and deleted objects that are not gone yet.
func (s *session) leftovers(targets []*target) []ledgerObject {
	var out []ledgerObject
	for _, o := range s.ledger.Suspects {
		if o.UID == "" {
			out = append(out, o)
		}
	}
	for _, t := range targets {
		if t.want == nil && t.lingers(s.a.Placement) {
			out = addSuspect(out, ledgerObject{ID: t.id, UID: uidOf(t.live)})
		}
	}
	return out[max(0, len(out)-suspectsMost):]
}

// addSuspect adds an object unless the list has it. An entry without a UID prevails, because it
// demands more.
func addSuspect(to []ledgerObject, o ledgerObject) []ledgerObject {
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

// intend writes the intent to the ledger. From here on the update may change the member.
func (w *work) intend(ctx context.Context) error {
	for _, t := range w.targets {
		w.disown(t)
	}
	next := &ledger{
		Format: ledgerFormat, Placement: w.a.Placement, Run: w.a.Run, RunUID: w.a.RunUID, Attempt: w.a.Attempt,
		Epoch: w.a.Epoch, Phase: ledgerApplying, Target: w.a.Revision, Generation: w.generation,
		Objects: w.openLedgerEntries(), Suspects: w.suspects(w.targets), Keeping: w.a.keeps,
	}
	next.Ended = w.ledger.rememberEnds(w.targets, next.Objects)
	if err := next.fits(w.a.secretKey, endings(w.targets)); err != nil {
		return err
	}
	w.sent = true
	now := time.Now()
	if err := w.writeLedger(ctx, next); err != nil {
		return err
	}
	w.confirmed = now
	return nil
}

// endings returns the number of objects that do their work once.
func endings(targets []*target) (n int) {
	for _, t := range targets {
		if t.want != nil && once.ClassOf(t.want.obj) != once.Lasting {
			n++
		}
	}
	return n
}

// closeIntent closes the intent if everything has been carried out. Otherwise the intent stays
// open.
func (w *work) closeIntent(ctx context.Context) error {
	if err := w.reckon(); err != nil {
		return err
	}
	if len(w.problems) > 0 || w.waiting != "" {
		// A newer leader may be the reason.
		return cmp.Or(w.confirm(ctx), JoinProblems(w.problems), w.notRestored())
	}
	next := w.ledger.clone()
	next.Target, next.Revision = "", w.a.Revision
	next.Phase = ledgerApplied
	if w.a.Revision == "" {
		next.Phase = ledgerRemoved
	}
	next.Objects, next.Suspects, next.Keeping = w.closedLedgerEntries(), w.leftovers(w.targets), false
	if w.rev != nil {
		w.ledger.setBaseline(w.takeBaselines())
	}
	err := w.ledger.write(ctx, w.m, next)
	if errors.Is(err, errLedgerMoved) {
		if err := w.ledger.confirm(ctx, w.m, w.a.Epoch); err != nil {
			return err
		}
	}
	return err
}

// takeBaselines returns the stored form of the baselines after the update, or "" if there are none
// or they are too large.
func (w *work) takeBaselines() string {
	r := baselineRecord{Format: baselineFormat}
	for _, t := range w.targets {
		if o, ok := w.baselineOf(t); ok {
			r.Objects = append(r.Objects, o)
		}
	}
	if len(r.Objects) == 0 {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > baselineMost {
		return ""
	}
	return string(b)
}

// baselineOf returns the baseline of an object. It is a new one if the object was applied, either
// by this update or by an earlier update that died before it recorded the baseline. Otherwise it is
// the previous one, because a change of an object that was not applied must not become part of the
// baseline.
func (w *work) baselineOf(t *target) (baselineObject, bool) {
	var old baselineObject
	known := false
	if b := w.ledger.baselines(); b != nil {
		old, known = b.at[objectKey(t.id)]
	}
	if t.want == nil || t.live == nil {
		return old, false
	}
	tag := manifestTag(w.a.secretKey, t.want)
	known = known && old.Tag == tag
	done, isApplied := t.fate.(fateApplied)
	if !isApplied && (known || t.heldBack() != nil || !w.resumed) {
		return old, known
	}
	// An object that cannot be compared has no baseline.
	m, err := w.manifests().of(t.want)
	if err != nil {
		return old, false
	}
	b := m.BaselineAfter(done.before, t.live, old.baseline())
	if len(t.dropped) > 0 || w.resumed && w.a.Strategy.Type == apply.ClientSide {
		b = m.Lacking(b, t.live)
	}
	if b.Len() == 0 {
		return old, false
	}
	data, err := b.MarshalBinary()
	return baselineObject{t.id, tag, data}, err == nil
}

// disown records that the update disowns an object which the ledger has as created. The report
// names the object once, because the ledger then has it as adopted.
func (w *work) disown(t *target) {
	if t.disowned || w.a.Orphan || !t.adopted || !t.listed() || t.entry.Adopted || t.entry.UID == "" || t.entry.UID != uidOf(t.live) {
		return
	}
	if w.deletesAll() && w.takenOver(t) {
		return // it is deleted in either case
	}
	t.disowned = true
	w.released = append(w.released, releasedObject{t.id, w.unproven()})
}

// readAgain reads an object again after its precondition failed. It reads the ledger after the
// object: as long as the ledger is ours, a later leader must find our intent, and change the
// object's resourceVersion, before it continues. A changed decision is recorded before it takes
// effect.
func (w *work) readAgain(ctx context.Context, t *target) error {
	before := t.adopted
	if t.want != nil && t.live == nil {
		// We wanted to create it, and now it exists. Without our mark it belongs to another writer,
		// whatever the intent says.
		t.entry, t.in = ledgerObject{ID: t.id}, inObjects
	}
	if err := w.readTarget(ctx, t); err != nil {
		return err
	}
	if err := w.confirm(ctx); err != nil {
		return err
	}
	w.disown(t)
	if t.want == nil || t.adopted == before {
		return nil
	}
	next := w.ledger.clone()
	next.Objects = w.openLedgerEntries()
	return w.ledger.write(ctx, w.m, next)
}
