package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// mark is the promise of a leader that takes over an open intent: nobody before
// it writes the object any more. It is the value of an annotation, which has a
// field manager of its own and is no part of what is applied.
//
// The order is what counts. The new leader marks every object that exists and
// that the intent names, and only then writes the ledger. A write of the older
// leader carries the uid and the resourceVersion that it looked at, so it lands
// before the mark, when the member does not know the newer epoch yet, or never:
// whoever looks again finds the mark, and stops at one that is newer than
// himself. Should the older leader write its ledger first, the newer one finds
// that and begins anew. So once a ledger has an epoch, no older leader changes,
// deletes or releases an object that existed when it was taken over.
//
// What is missing has nothing to mark. Every write therefore carries a fence, too:
// that the ledger still is as it was when the write was decided, see work.asLed. A
// member that heeds fences in the step of the write accepts nothing of an older
// leader once the ledger was written, creations and marks included, and of one that
// was replaced before it wrote the ledger neither.
//
// On a member that knows no fences two writes of an older leader can land later,
// and do no harm.
//
// One is to create an object that was missing: there is nothing to mark, and
// the demand that it does not exist holds. A leader has one call at a time on its
// way to a cluster. Once updaterOptions.Recheck has passed since it looked at the
// ledger, as it has for one that was paused past its lease, it looks again before
// every object that it creates, so it is one object of each cluster; one that
// lost its lease and was not paused creates for that long at most. The newer
// leader finds the object where it wants it itself, and makes it what it is to
// be; where it does not, it has it in doubt, and removes it when it looks again:
// see ledger.Doubtful.
//
// The other is the mark of a leader that was replaced before it wrote the ledger,
// where the leader that it wanted to follow has closed the ledger meanwhile. It
// changes nothing but the annotation, to an epoch that is older than the ledger's
// and heeded by nobody, and is one of each cluster likewise.
//
// Whoever takes the annotation away, or refuses that it is set, takes the
// promise away, for that object; the fence remains.
type mark struct {
	epoch int64
	// touch is the ledger's number of the takeover: a leader may follow another
	// of the same epoch, where a run gives a cluster up to the next.
	touch int64
	// ledger is the uid of the ledger that is taken over. The mark means nothing
	// to another one: the object was copied, or the ledger deleted.
	ledger string
}

// String returns the value of the annotation.
func (m mark) String() string { return fmt.Sprintf("%d.%d.%s", m.epoch, m.touch, m.ledger) }

// markOn returns the mark that a takeover for a placement left on an object. What
// is not one, or stands in no relation to a ledger, is none.
func markOn(obj *unstructured.Unstructured, placement string) mark {
	epoch, rest, _ := strings.Cut(annotation(obj, epochMark+placement), ".")
	touch, ledger, _ := strings.Cut(rest, ".")
	m := mark{ledger: ledger}
	var errs [2]error
	m.epoch, errs[0] = strconv.ParseInt(epoch, 10, 64)
	m.touch, errs[1] = strconv.ParseInt(touch, 10, 64)
	if errors.Join(errs[:]...) != nil {
		return mark{}
	}
	return m
}

// on returns what sets the mark on an object and nothing else.
func (m mark) on(id snapshot.ID, placement string) *unstructured.Unstructured {
	obj := onlyName(id)
	obj.SetAnnotations(map[string]string{epochMark + placement: m.String()})
	return obj
}

// marker owns the marks of a placement. It is not the manager of what is
// applied, which would lose all that it does not apply beside the mark.
func marker(placement string) string { return "slipway-epoch/" + placement }

// mine is the mark of this leader's takeover.
func (w *work) mine() mark { return mark{w.a.Epoch, w.touch, w.ledger.uid} }

// heed looks for the mark of a newer leader, which is about to write the ledger
// or has died before it did.
func (w *work) heed(t *target) error {
	if t.live == nil {
		return nil
	}
	m := markOn(t.live, w.a.Placement)
	switch {
	case m.ledger == "" || m.ledger != w.ledger.uid || m.epoch < w.a.Epoch:
		return nil
	case m.epoch > w.a.Epoch:
		return fmt.Errorf("cluster %s: %s is marked with epoch %d in annotation %s, this is epoch %d: %w",
			w.m.name, t.id, m.epoch, epochMark+w.a.Placement, w.a.Epoch, backend.ErrFenced)
	case m.touch <= w.touch || m.touch > w.ledger.Touch+1:
		return nil // ours, or nobody's: a takeover counts one further
	case w.sent:
		return errLedgerMoved
	}
	w.touch = m.touch
	return nil
}

// markAll marks what the leader whose intent is taken over may be about to
// write. An object whose mark the member refuses keeps nobody: see work.apply.
func (w *work) markAll(ctx context.Context) error {
	if !w.takeover {
		return nil
	}
	targets := w.targets
	if targets == nil { // the revision cannot be read
		targets = targetsOf(nil, w.ledger.ledger)
		if err := w.lookAll(ctx, targets); err != nil && !errors.Is(err, backend.ErrPermanent) {
			return err
		}
	}
	if err := w.confirm(ctx); err != nil {
		return err
	}
	for _, t := range targets {
		err := w.mark(ctx, t)
		if errors.Is(err, backend.ErrPermanent) {
			t.unmarked = fmt.Errorf("its mark was refused: %w", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// mark marks one object as it was looked at before the ledger was: it was not
// given up by a newer leader then.
func (w *work) mark(ctx context.Context, t *target) error {
	for range rounds {
		if !w.exposed(t) {
			return nil
		}
		if err := w.recheck(ctx); err != nil {
			return err
		}
		live, err := w.write(ctx, w.mine().on(t.id, w.a.Placement), marker(w.a.Placement), w.asLooked(t))
		if err == nil {
			t.live = live
			return w.kept(t)
		}
		if !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		if err := w.look(ctx, t); err != nil {
			return err
		}
		if err := w.confirm(ctx); err != nil {
			return err
		}
	}
	return w.busy(t)
}

// exposed tells whether the older leader may be about to write an object as it
// is now. It leaves alone what is being deleted, and what is in doubt and not
// the placement's.
func (w *work) exposed(t *target) bool {
	switch {
	case t.live == nil || isTerminating(t.live):
		return false
	case !t.listed && (!t.doubted || !carries(t.live, w.a.Placement)):
		return false
	}
	return markOn(t.live, w.a.Placement) != w.mine()
}

// kept makes sure that the member has the mark: without it the object may be as
// it was.
func (w *work) kept(t *target) error {
	if markOn(t.live, w.a.Placement) == w.mine() {
		return nil
	}
	return fmt.Errorf("the member does not keep annotation %s: %w", epochMark+w.a.Placement, backend.ErrPermanent)
}
