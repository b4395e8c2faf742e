package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/once"
	"github.com/slipway-dev/slipway/health"
)

// rounds is the maximum number of attempts to carry out an update, or to write an object, while
// other writers change the same objects.
const rounds = 5

// errBusy reports that the object changed on every retry.
var errBusy = fmt.Errorf("others keep changing the object: %w", backend.ErrConflict)

// session is an update's view of its cluster: the connection, the ledger as last read or written,
// and the fence of every write. The objects of the update are in [work].
type session struct {
	u *Applier
	a Assignment
	m *memberConn

	ledger *ledgerAt
	// takeover reports that another leader or run left an intent open, resumed that the open intent
	// belongs to a run. generation is the number of the last takeover, which may be this one.
	takeover, resumed bool
	generation        int64
	// reuses reports that the ledger may come from the cache, cached that it does.
	reuses, cached bool
	// sent reports that an intent was written or may have been written. before reports that this run
	// wrote the ledger earlier.
	sent, before bool
	// confirmed is when the ledger was last known to be unchanged; wary reports that this was once too
	// long ago.
	confirmed time.Time
	wary      bool
}

// read reads the ledger and decides whether this epoch may continue.
func (s *session) read(ctx context.Context) error {
	s.confirmed = time.Now()
	l, err := s.findLedger(ctx)
	if err != nil {
		return err
	}
	if l.Epoch > s.a.Epoch {
		return fencedBy(s.m, s.a.Placement, l.Epoch, s.a.Epoch)
	}
	if s.a.keeps && (l.Epoch != s.a.Epoch || l.RunUID != s.a.RunUID || !l.keeps(s.a.Revision)) {
		return fmt.Errorf("cluster %s: the ledger of placement %s has moved on: %w", s.m.name, s.a.Placement, backend.ErrConflict)
	}
	s.ledger = l
	s.resumed = l.open() && !l.Keeping
	s.before = l.RunUID == s.a.RunUID && l.exists()
	s.takeover = l.open() && (l.Epoch < s.a.Epoch || l.RunUID != s.a.RunUID || l.Target != s.a.Revision)
	s.generation = l.Generation
	if s.takeover {
		s.generation++
	}
	return nil
}

// findLedger returns the ledger of the cache, or else of the member. It removes the ledger from the
// cache; a successful update caches it again.
func (s *session) findLedger(ctx context.Context) (*ledgerAt, error) {
	if s.reuses && !s.a.keeps {
		l, ok := s.m.ledgers.take(s.a.Placement)
		if s.cached = ok; ok {
			return l, nil
		}
	}
	return readLedger(ctx, s.m, s.a.Placement, s.a.secretKey)
}

// confirm returns nil if the ledger is still ours.
func (s *session) confirm(ctx context.Context) error {
	now := time.Now()
	if err := s.ledger.confirm(ctx, s.m, s.a.Epoch); err != nil {
		return err
	}
	s.confirmed = now
	return nil
}

// recheck reads the ledger before an object is created or marked, if the last read is older than
// Recheck, because no precondition refuses these writes of a leader that was paused. From then on
// it reads the ledger every time, because another leader may have followed unnoticed.
func (s *session) recheck(ctx context.Context) error {
	if s.wary = s.wary || s.pausedSince(s.confirmed); !s.wary {
		return nil
	}
	return s.confirm(ctx)
}

// pausedSince reports whether t is at least Recheck ago by either clock, because the monotonic
// clock may stand still while the machine is suspended.
func (s *session) pausedSince(t time.Time) bool {
	now := time.Now()
	wall := now.Round(0).Sub(t.Round(0))
	return now.Sub(t) >= s.u.recheck || wall >= s.u.recheck || wall < 0
}

// asLed returns the fence which demands that the ledger is unchanged since it was last read or
// written.
func (s *session) asLed() backend.Fence {
	return backend.Fence{
		Ledger: ledgerID(s.a.Placement), UID: s.ledger.uid, ResourceVersion: s.ledger.version,
		Annotation: epochMark + s.a.Placement, Mark: s.mine().String(),
	}
}

// write applies an object under the fence. If the member refuses the fence because it knows of a
// newer leader, the ledger shows whether that is another engine or another run of this engine.
func (s *session) write(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	o.Fence = s.asLed()
	live, err := s.m.apply(ctx, obj, o)
	if errors.Is(err, backend.ErrFenced) {
		err = cmp.Or(s.confirm(ctx), err)
	}
	return live, err
}

func (s *session) busy(t *target) error {
	return fmt.Errorf("cluster %s: %s was changed %d times while it was worked on: %w", s.m.name, t.id, rounds, errBusy)
}

// ofOne returns nil if the error of a call about one object concerns only that object, as far as
// can be known at once: the member answers, and the ledger is still ours. Otherwise it returns the
// error that ends the update.
func (s *session) ofOne(ctx context.Context, err error) error {
	if !guard.Transient(err) && !errors.Is(err, errBusy) || ctx.Err() != nil {
		return err
	}
	ledger := s.confirm(ctx)
	if guard.Transient(ledger) {
		return err
	}
	return ledger
}

// readTarget reads an object from the member and decides whether it has ended, is adopted, or is
// marked by a newer leader.
func (s *session) readTarget(ctx context.Context, t *target) error {
	live, err := s.m.get(ctx, t.id)
	if err != nil && (!errors.Is(err, backend.ErrPermanent) || t.want == nil || t.listed()) {
		return err
	}
	// A kind that the member does not know yet may arrive with the revision. If the object exists
	// after all, its creation is refused.
	t.live = live
	t.ended = s.endOf(t)
	t.adopted = s.adopts(t)
	return s.checkFence(t)
}

// endOf returns how a desired object ended that is gone and must not be applied again; "" for other
// objects. An object that failed is applied again by the next attempt of its run, or by another
// run.
func (s *session) endOf(t *target) once.End {
	if t.want == nil || s.a.ofCheck {
		return ""
	}
	end := s.ledger.endOf(t, manifestTag(s.a.secretKey, t.want))
	if again := s.a.RunUID != s.ledger.RunUID || s.a.Attempt != s.ledger.Attempt; again && end == once.Failed {
		return ""
	}
	return end
}

// adopts reports whether an object existed before the placement applied it, or may have existed.
// Such an object is only deleted under a policy that deletes adopted objects. The ledger and the
// object must agree that the placement created it, because either may have other writers. An object
// in a namespace that the host reserved since counts as adopted, too.
func (s *session) adopts(t *target) bool {
	switch {
	case t.live == nil:
		return false
	case !created(t.live, s.a.Placement) || s.u.rules.Reserves(t.id):
		return true
	case t.isSuspect():
		return false
	}
	return !t.listed() || t.entry.Adopted
}

// checkFence returns an error if the object has the mark of a newer leader, which is about to write
// the ledger or died before it did.
func (s *session) checkFence(t *target) error {
	if t.live == nil {
		return nil
	}
	m := markOn(t.live, s.a.Placement)
	switch {
	case m.ledger == "" || m.ledger != s.ledger.uid || m.epoch < s.a.Epoch:
		return nil
	case m.epoch > s.a.Epoch:
		return fmt.Errorf("cluster %s: %s is marked with epoch %d in annotation %s, this is epoch %d: %w",
			s.m.name, t.id, m.epoch, epochMark+s.a.Placement, s.a.Epoch, backend.ErrFenced)
	case m.generation <= s.generation || m.generation > s.ledger.Generation+1:
		return nil // ours, or of no leader: a takeover adds one
	case s.sent:
		return errLedgerMoved
	}
	s.generation = m.generation
	return nil
}

// mine returns the mark of this leader's takeover.
func (s *session) mine() mark { return mark{s.a.Epoch, s.generation, s.ledger.uid} }

// mayComeLate reports whether an older leader with an open intent may be about to create an object.
// If the object is desired and exists, that creation is refused. If it is desired and missing, the
// creation may land until it exists. An older leader with the same target creates no other objects.
func (s *session) mayComeLate(t *target) bool {
	if !s.takeover || s.ledger.Target == "" || !t.listed() || t.entry.Adopted {
		return false
	}
	if t.want != nil {
		return t.live == nil
	}
	return s.ledger.Target != s.a.Revision
}

// exposed reports whether the older leader may be about to write an existing object that does not
// have our mark. That leader does not write objects that are being deleted, nor suspect objects
// without the placement's digest.
func (s *session) exposed(t *target) bool {
	switch {
	case t.live == nil || isTerminating(t.live):
		return false
	case !t.listed() && (!t.isSuspect() || !carries(t.live, s.a.Placement)):
		return false
	}
	return markOn(t.live, s.a.Placement) != s.mine()
}

// kept returns an error if the member dropped our mark, because then the object may still be in the
// state that the older leader read.
func (s *session) kept(t *target) error {
	if markOn(t.live, s.a.Placement) == s.mine() {
		return nil
	}
	return fmt.Errorf("the member does not keep annotation %s: %w", epochMark+s.a.Placement, backend.ErrPermanent)
}

// notThere returns why the ledger does not prove the desired revision.
func (s *session) notThere() string {
	switch {
	case s.ledger.open():
		return fmt.Sprintf("run %s has not finished applying", guard.Clip(s.ledger.Run))
	case s.ledger.Revision == "":
		return "nothing is placed"
	}
	return "the cluster has another revision"
}

// healthOf returns the health of a desired object. An object that did its work once and is gone has
// the health that it ended with.
func (s *session) healthOf(ctx context.Context, t *target) (health.Status, error) {
	switch t.ended {
	case once.Succeeded:
		return health.Status{Healthy: true}, nil
	case once.Failed:
		return health.Status{Failed: true, Message: "it failed and was deleted since; a retry applies it again"}, nil
	default:
		return s.u.probes.probeOf(ctx, &s.a, s.m.name, t.live)
	}
}
