package member

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Assignment is what a run wants of one cluster.
type Assignment struct {
	Placement string
	// Run is the run's name, RunUID distinguishes it from others of that name.
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
	// Final reports that the placement is being deleted: with what was placed, the
	// record of it on the cluster goes too. Revision is empty then. Orphan reports
	// besides that the objects are to stay, without an owner.
	Final, Orphan bool
	// AllowCoOwnership allows objects that another placement applies too.
	AllowCoOwnership bool
	// Exclusive allows no object of another placement, and with AllowCoOwnership alone one that has an owner on the
	// cluster and is to be taken over.
	Exclusive bool
	// DeletePolicy says what becomes of objects that are to go; DeleteCreated where empty.
	DeletePolicy placement.DeletePolicy
	// Strategy is the run's. An Updater of the host's may read it.
	Strategy ApplyStrategy
	// Content returns what Revision consists of, after overrides, verified by its
	// digests and the caller's to keep; nil where Revision is empty. It reads the
	// engine's store, so what was read once is worth remembering under the digest. A
	// revision with Unplaced objects is not complete without them.
	Content func(context.Context) (snapshot.Set, error)
	// secretKey is for what must not be shown, see drift.Options.
	secretKey []byte
	// ofCheck reports that Placement is that of a check, and check is the revision of its object, nil where that is to go.
	ofCheck bool
	check   *Revision
	// keeps reports that nothing new is brought: what the ledger proves is put back,
	// and only while it proves it.
	keeps bool
}

// WithKey returns an assignment with the key of its placement, which a host's Updater does not get to see.
func WithKey(a Assignment, key []byte) Assignment {
	a.secretKey = key
	return a
}

// WithCheck returns an assignment of a revision that is in no snapshot, see [Revision.CheckObject].
func WithCheck(a Assignment, rev *Revision) Assignment {
	a.Revision, a.check, a.ofCheck = rev.Digest, rev, true
	return a
}

// WithoutCheck returns an assignment that removes the check object of its placement, and the ledger.
func WithoutCheck(a Assignment) Assignment {
	a.Revision, a.Final, a.ofCheck = "", true, true
	return a
}

// shares reports whether objects of other placements are allowed.
func (a *Assignment) shares() bool { return a.AllowCoOwnership && !a.Exclusive }

// Proof is what a cluster proves.
type Proof struct {
	// Sent reports that the member may have been changed for this run.
	Sent bool
	// Applied reports that everything has been carried out.
	Applied bool
	// Unchanged reports that nothing had to be, and that this run has not
	// changed anything before either.
	Unchanged bool
	// Revision is what the cluster is proven to have; empty when nothing is
	// placed, and while something is being applied.
	Revision string
	// Current reports that every object is there as it was applied, or with an
	// empty revision that nothing is left. Healthy reports that they are healthy
	// besides.
	Current, Healthy bool
	// Failed reports that waiting will not make the cluster healthy.
	Failed bool
	// Skipped reports that there is nothing to be done for the cluster, for the reason in
	// Message. The run skips it then, unless it may have been changed for the run before:
	// then it completes by the rest of the report, or fails where that proves nothing.
	Skipped bool
	// Message says what is not current, not healthy or failed. It may quote
	// the status of an object, never another part of it.
	Message string
	// Released names objects that were to go and that this call left on the cluster, and those that it will
	// leave there although the record on the cluster says that the placement created them, and says why: the
	// run reports it, see stages.ObjectsReleased. What Orphan leaves is not named.
	Released string
	// Altered names objects that this call applied without a part that the cluster's API server does not take, and that
	// part: see stages.ObjectsAltered.
	Altered string
	// slow reports that a call about one object timed out.
	slow bool
}

// Slow reports whether a call about one object timed out, although the others went on: see [Limiter].
func Slow(r *Proof) bool { return r.slow }

// Updater brings a cluster to a revision. The default applies the objects of a
// snapshot; a host may bring its own, for what a run does to a cluster instead.
// Its methods may be called concurrently for different clusters.
//
// An error is ErrFenced where a newer epoch was found, and ErrPermanent where
// trying again soon does not help; any other means that the cluster could not
// be worked on now. Beside an error only Sent, Released and Altered of the report count.
type Updater interface {
	// Update carries the assignment out. It looks first and does only what is
	// needed, so it may be called again at any time, also after an error and
	// by another process.
	Update(ctx context.Context, a Assignment) (Proof, error)
	// Observe looks without changing anything.
	Observe(ctx context.Context, a Assignment) (Proof, error)
}

// Watcher is an [Updater] that can tell when to observe.
type Watcher interface {
	Updater
	// Watch yields once at its beginning and then whenever Observe may return
	// something else. It ends with ctx or with an error, after which the
	// caller watches again.
	Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error]
}

// FailingReason says what is wrong with an object.
type FailingReason string

// FailingObject is an object that a cluster does not have as an update wants it.
type FailingObject struct {
	snapshot.ID
	Reason FailingReason
	// Generation is that of the object on the cluster, as it was read last; 0 where it is not there.
	Generation int64
	// Message says what is wrong, for people. It may quote the status of the object, never
	// another part of it, and is cut at 256 characters.
	Message string
	// Envelope is the envelope of an object that no cluster gets, see snapshot.Unplaced; nil for others.
	Envelope *snapshot.ID
}

// FailingCluster is a cluster that does not have everything as an update wants it.
type FailingCluster struct {
	// Run is the run that updates it, or did last.
	Run string
	// Objects are in the order of application, at most 100.
	Objects []FailingObject
}

// Reasons why an object fails.
const (
	// NotApplied is one that could not be applied, or is not there as it was.
	NotApplied FailingReason = "NotApplied"
	// NoSuchKind is one of a kind that the cluster does not serve.
	NoSuchKind FailingReason = "NoSuchKind"
	// NotHealthy is one that was applied, and is not healthy, or not yet.
	NotHealthy FailingReason = "NotHealthy"
	// HeldDrifted is one that drifted, which the strategy leaves alone then.
	HeldDrifted FailingReason = "HeldDrifted"
	// HeldForeign is one that was there before or is another placement's, and is not taken over.
	HeldForeign FailingReason = "HeldForeign"
)

// Guarded puts a guard between the engine and a host's own updater.
func Guarded(u Updater, g *guard.Guard) Updater {
	safe := updaterBehindGuard{u, g}
	if w, ok := u.(Watcher); ok {
		return watcherBehindGuard{safe, w}
	}
	return safe
}

type updaterBehindGuard struct {
	Updater
	guard *guard.Guard
}

// Update calls the host's.
func (u updaterBehindGuard) Update(ctx context.Context, a Assignment) (Proof, error) {
	return guard.Call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (Proof, error) {
		return u.Updater.Update(ctx, a)
	})
}

// Observe calls the host's.
func (u updaterBehindGuard) Observe(ctx context.Context, a Assignment) (Proof, error) {
	return guard.Call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (Proof, error) {
		return u.Updater.Observe(ctx, a)
	})
}

type watcherBehindGuard struct {
	updaterBehindGuard
	watcher Watcher
}

// Watch calls the host's.
func (w watcherBehindGuard) Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error] {
	return guard.Stream(ctx, w.guard, "Updater", a.Cluster.Name, func(ctx context.Context) iter.Seq2[struct{}, error] {
		return w.watcher.Watch(ctx, a)
	})
}

// Preflighter is an [Updater] that can reject a plan before it is recorded.
type Preflighter interface {
	Updater
	// Preflight is called with what a plan would bring to clusters, before the plan is
	// recorded: by Preview, CreateRun, CatchUp, PreviewRollback and Rollback, and where
	// a run is taken back without being asked for. Its error is theirs, and nothing has
	// been started or stored then; it should name everything that is wrong. It changes
	// nothing, may be called more than once for a plan, and takes no longer than a
	// call may, whatever the number of clusters. Clusters that a plan cleans are not
	// among them.
	Preflight(ctx context.Context, intents []Intent) error
}

// Intent is what a plan would bring to some clusters.
type Intent struct {
	Placement string
	// Revision is the digest of Content, what the clusters are to have.
	Revision string
	Content  snapshot.Set
	// Clusters are in the order of the plan, as the inventory has them.
	Clusters []placement.Cluster
}
