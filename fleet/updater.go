package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Assignment is what a run wants of one cluster.
type Assignment struct {
	Placement string
	// Run is the run's name, RunUID tells it from others of that name.
	Run, RunUID string
	// Epoch is at least 1. Of two engines that work on a placement, the one
	// with the higher epoch is right.
	Epoch   int64
	Attempt int
	// Cluster has Name and UID.
	Cluster placement.Cluster
	// Revision is the digest of the set that the cluster is to have; empty
	// means that everything of the placement is to go.
	Revision string
	// Final tells that the placement is being deleted: with what was placed, the
	// record of it on the cluster goes too. Revision is empty then. Orphan tells
	// besides that the objects are to stay, without an owner.
	Final, Orphan bool
	// AllowCoOwnership allows objects that another placement applies too.
	AllowCoOwnership bool
	// Strategy is the run's. An Updater of the host's may read it.
	Strategy ApplyStrategy
	// Content returns what Revision consists of, after overrides, verified by its
	// digests and the caller's to keep; nil where Revision is empty. It reads the
	// engine's store, so what was read once is worth remembering under the digest.
	Content func(context.Context) (snapshot.Set, error)
	// secretKey is for what must not be shown, see drift.Options.
	secretKey []byte
	// keeps tells that nothing new is brought: what the ledger proves is put back,
	// and only while it proves it.
	keeps bool
}

// Report is what a cluster proves.
type Report struct {
	// Sent tells that the member may have been changed for this run.
	Sent bool
	// Applied tells that everything has been carried out.
	Applied bool
	// Unchanged tells that nothing had to be, and that this run has not
	// changed anything before either.
	Unchanged bool
	// Revision is what the cluster is proven to have; empty when nothing is
	// placed, and while something is being applied.
	Revision string
	// Current tells that every object is there as it was applied, or with an
	// empty revision that nothing is left. Healthy tells that they are healthy
	// besides.
	Current, Healthy bool
	// Failed tells that waiting will not make the cluster healthy.
	Failed bool
	// Skipped tells that there is nothing to be done for the cluster, for the reason in
	// Message. The run skips it then, unless it may have been changed for the run before:
	// then it completes by the rest of the report, or fails where that proves nothing.
	Skipped bool
	// Message says what is not current, not healthy or failed. It may quote
	// the status of an object, never another part of it.
	Message string
}

// Updater brings a cluster to a revision. The default applies the objects of a
// snapshot; a host may bring its own, for what a run does to a cluster instead.
// Its methods may be called concurrently for different clusters.
//
// An error is ErrFenced where a newer epoch was found, and ErrPermanent where
// trying again soon does not help; any other means that the cluster could not
// be worked on now. Beside an error only Sent of the report counts.
type Updater interface {
	// Update carries the assignment out. It looks first and does only what is
	// needed, so it may be called again at any time, also after an error and
	// by another process.
	Update(ctx context.Context, a Assignment) (Report, error)
	// Observe looks without changing anything.
	Observe(ctx context.Context, a Assignment) (Report, error)
}

// Watcher is an [Updater] that can tell when to observe.
type Watcher interface {
	Updater
	// Watch yields once at its beginning and then whenever Observe may return
	// something else. It ends with ctx or with an error, after which the
	// caller watches again.
	Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error]
}

// updaterOptions are for [newSnapshotUpdater]; zero values mean defaults.
type updaterOptions struct {
	// Timeout bounds a call to the prober; 10 s.
	Timeout time.Duration
	// Poll is how often a connection that cannot watch is looked at; 1 s.
	Poll time.Duration
	// Recheck is after which time a leader looks whether it was fenced before
	// it creates or marks something; 2 s. It is to be less than a lease, so that
	// a leader that lost one while it was paused looks: see mark.
	Recheck time.Duration
	// Now is the engine's clock; time.Now.
	Now func() time.Time
	// Held tells whether an assignment still is its run's to carry out, by the
	// store; nil where nobody can tell. It is asked when a ledger was made.
	Held func(context.Context, Assignment) error
	// Saw is told what differs, where a strategy asks for it; nil for nobody.
	Saw func(context.Context, ClusterDrift) error
	// Failing is told which objects are not as they are to be, or proven that all
	// are; nil for nobody.
	Failing func(a *Assignment, proven bool, objects []FailingObject)
}

// snapshotUpdater applies snapshots.
type snapshotUpdater struct {
	conns    *conns
	contents *contents
	probes   probes
	poll     time.Duration
	recheck  time.Duration
	compiler compiler
	now      func() time.Time
	held     func(context.Context, Assignment) error
	saw      func(context.Context, ClusterDrift) error
	noted    func(a *Assignment, proven bool, objects []FailingObject)
}

func newSnapshotUpdater(conns *conns, contents *contents, prober Prober, o updaterOptions) *snapshotUpdater {
	u := &snapshotUpdater{
		conns: conns, contents: contents, poll: o.Poll, recheck: o.Recheck,
		probes: probes{prober, conns.guard}, now: o.Now, saw: o.Saw, held: o.Held, noted: o.Failing,
	}
	if u.now == nil {
		u.now = time.Now
	}
	if u.held == nil {
		u.held = func(context.Context, Assignment) error { return nil }
	}
	if u.saw == nil {
		u.saw = func(context.Context, ClusterDrift) error { return nil }
	}
	if u.noted == nil {
		u.noted = func(*Assignment, bool, []FailingObject) {}
	}
	if o.Timeout > 0 {
		u.probes.guard = conns.guard.within(o.Timeout)
	}
	if u.recheck <= 0 {
		u.recheck = 2 * time.Second
	}
	return u
}

// rounds is how often an update begins anew, or an object is looked at again,
// because somebody else wrote meanwhile.
const rounds = 5

// Update saves the intent to the member's ledger, acts, and records what came
// of it. See [Updater].
func (u *snapshotUpdater) Update(ctx context.Context, a Assignment) (Report, error) {
	if a.Epoch < 1 || a.Placement == "" {
		return Report{}, fmt.Errorf("cluster %s: an assignment must have a placement and an epoch of at least 1: %w", a.Cluster.Name, backend.ErrPermanent)
	}
	if a.Strategy.reportsOnly() {
		return u.reportDiff(ctx, a)
	}
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return Report{}, err
	}
	w, sent, err := u.carryOut(ctx, m, a)
	if err != nil {
		if errors.Is(err, backend.ErrPermanent) {
			w.note(false, false)
		}
		return Report{Sent: sent}, err
	}
	return w.report(ctx)
}

// work is one update of one cluster.
type work struct {
	u *snapshotUpdater
	a Assignment
	m *memberConn

	ledger  *ledgerAt
	rev     *revision
	targets []*target
	// looked tells that all targets were looked at, resumed that the intent of a
	// run was found open.
	looked, resumed bool
	// holds tells that the strategy forbids to apply one of the targets.
	holds bool
	// compiled are the objects of rev, once something is compared.
	compiled *manifests
	// takeover tells that somebody else left an intent open; touch is the
	// number of the last takeover, which may be this one.
	takeover bool
	touch    int64
	// reuses tells that the ledger may be one that is kept, cached that it is; memory
	// are the objects that were kept with it.
	reuses, cached bool
	memory         keptObjects
	// sent tells that an intent was written, or may have been, and that this
	// run did so before.
	sent, before bool
	// confirmed is when the ledger was last seen to be as it was read or written,
	// wary that this was once too long ago.
	confirmed time.Time
	wary      bool
	// definitions are those of the kinds that come with the revision.
	definitions map[kind]*target
	// problems are what is wrong with single objects; waiting what the
	// cluster has to finish first.
	problems []error
	waiting  string
}

func (w *work) update(ctx context.Context) error {
	if err := w.read(ctx); err != nil {
		return err
	}
	if err := w.bring(ctx); err != nil {
		return err
	}
	if err := w.forgetLedger(ctx); err != nil {
		return err
	}
	w.m.ledgers.keep(w.ledger, w.targets)
	return nil
}

// bring brings the cluster to the revision from what the ledger says.
func (w *work) bring(ctx context.Context) error {
	err := w.prepare(ctx)
	if err == nil {
		err = w.refuse()
	}
	if errors.Is(err, backend.ErrPermanent) {
		// A ledger that was kept may be the reason.
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	w.looked = true
	w.hold(ctx)
	if w.done() {
		if err := w.settle(ctx); err != nil {
			return err
		}
		return w.heldBack()
	}
	if err := w.markAll(ctx); err != nil {
		return err
	}
	if err := w.intend(ctx); err != nil {
		return err
	}
	if err := w.applyAll(ctx); err != nil {
		return err
	}
	if err := w.pruneAll(ctx); err != nil {
		return err
	}
	if err := w.closeIntent(ctx); err != nil {
		return err
	}
	return w.heldBack()
}

// read reads the ledger and decides whether this epoch may go on.
func (w *work) read(ctx context.Context) error {
	w.confirmed = time.Now()
	l, err := w.findLedger(ctx)
	if err != nil {
		return err
	}
	if l.Epoch > w.a.Epoch {
		return fencedBy(w.m, w.a.Placement, l.Epoch, w.a.Epoch)
	}
	if w.a.keeps && (l.Epoch != w.a.Epoch || l.RunUID != w.a.RunUID || !l.keeps(w.a.Revision)) {
		return fmt.Errorf("cluster %s: the ledger of placement %s has moved on: %w", w.m.name, w.a.Placement, backend.ErrConflict)
	}
	w.ledger = l
	w.resumed = l.open() && !l.Keeping
	w.before = l.RunUID == w.a.RunUID && l.exists()
	w.takeover = l.open() && (l.Epoch < w.a.Epoch || l.RunUID != w.a.RunUID || l.Target != w.a.Revision)
	w.touch = l.Touch
	if w.takeover {
		w.touch++
	}
	return nil
}

// prepare loads the revision and looks at everything that is concerned.
func (w *work) prepare(ctx context.Context) (err error) {
	if w.a.Revision != "" {
		if w.rev, err = w.u.contents.load(ctx, w.a.Placement, w.a.Revision); err != nil {
			return fmt.Errorf("cluster %s: %w", w.m.name, err)
		}
	}
	w.targets = targetsOf(w.rev, w.ledger.ledger)
	return w.lookAll(ctx, w.targets)
}

// done tells whether nothing is to be done. A ledger that is open always has
// something: it proves nothing.
func (w *work) done() bool {
	if w.ledger.open() || w.ledger.Revision != w.a.Revision {
		return false
	}
	for _, t := range w.targets {
		if t.held == nil && !w.stays(t) && !w.settled(t) {
			return false
		}
	}
	return true
}

// fence makes the ledger refuse older epochs, and leaves what it says. An
// intent that an older leader left open stays open.
func (w *work) fence(ctx context.Context) error {
	if w.ledger.Epoch >= w.a.Epoch || w.a.Final && !w.ledger.exists() {
		return nil
	}
	if err := w.markAll(ctx); err != nil {
		return err
	}
	next := w.ledger.clone()
	next.Epoch, next.Touch = w.a.Epoch, w.touch
	next.Doubtful = w.doubtful()
	return w.writeLedger(ctx, next)
}

// intend writes what is going to be done. From here on the member may have
// been changed.
func (w *work) intend(ctx context.Context) error {
	next := &ledger{
		Format: ledgerFormat, Placement: w.a.Placement, Run: w.a.Run, RunUID: w.a.RunUID, Attempt: w.a.Attempt,
		Epoch: w.a.Epoch, Phase: ledgerApplying, Target: w.a.Revision, Touch: w.touch,
		Objects: w.intended(), Doubtful: w.doubtful(), Keeping: w.a.keeps,
	}
	if err := next.fits(); err != nil {
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

// closeIntent records that everything has been carried out; if something has
// not, the intent stays open.
func (w *work) closeIntent(ctx context.Context) error {
	if len(w.problems) > 0 || w.waiting != "" {
		// A newer leader may be the reason.
		return cmp.Or(w.confirm(ctx), joinProblems(w.problems))
	}
	next := w.ledger.clone()
	next.Target, next.Revision = "", w.a.Revision
	next.Phase = ledgerApplied
	if w.a.Revision == "" {
		next.Phase = ledgerRemoved
	}
	next.Objects, next.Doubtful, next.Keeping = w.applied(), w.leftovers(), false
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
