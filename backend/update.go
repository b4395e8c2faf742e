package backend

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Updater brings a cluster to a revision. The Updater of the engine applies the objects of a
// snapshot; a host may bring another Updater, for example to upgrade clusters. Its methods may be
// called concurrently for different clusters.
//
// An error matches [ErrFenced] if a newer epoch was found, and [ErrPermanent] if trying again soon
// does not help; any other error means that the method could not work on the cluster now. If a
// method returns an error, only Sent, Released and Altered of its [Proof] have a meaning.
//
// An attempt of a run calls Update and then Observe. While a proof lacks Current it calls Update
// again, after 200 ms, then after twice that, up to 5 s. Once a proof has Current it calls only
// Observe: when Watch yields, and otherwise after Config.Poll and longer. Therefore a long
// operation returns from Update at once with Sent, Applied and Current, and with a Message. Healthy
// and Revision follow when it has ended. Failed ends the attempt, and the Attempt of the
// [Assignment] tells the next one from a repeated call. An error without Sent takes the slot from
// the cluster until a later try.
type Updater interface {
	// Update carries the assignment out. It first reads the state of the cluster and then does only
	// the missing steps, so the engine may call it again at any time, also after an error and from
	// another process.
	Update(ctx context.Context, a Assignment) (Proof, error)
	// Observe returns the state of the cluster as a proof. It changes no object of the placement.
	Observe(ctx context.Context, a Assignment) (Proof, error)
}

// UpdaterWatcher is an [Updater] that can tell when to observe.
type UpdaterWatcher interface {
	Updater
	// Watch yields once at its beginning and then whenever Observe may return something else. It
	// ends with ctx or with an error; then the caller watches again.
	Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error]
}

// Preflighter is an [Updater] that can reject a plan before it is recorded.
type Preflighter interface {
	Updater
	// Preflight checks the intents of a plan before the plan is recorded. The engine calls it in
	// Preview, CreateRun, CatchUp, PreviewRollback and Rollback, and if a strategy rolls a run
	// back. If Preflight returns an error, these methods return it, and start and store nothing;
	// the error should name all problems. Preflight changes nothing, may be called more than once
	// for a plan, and takes no longer than a call may, whatever the number of clusters. The intents
	// do not include the clusters that a plan cleans.
	Preflight(ctx context.Context, intents []Intent) error
}

// Intent is a revision that a plan would bring to some clusters.
type Intent struct {
	Placement string
	// Revision is the digest of Content.
	Revision string
	Content  snapshot.Set
	// Clusters are in the order of the plan, as the inventory has them.
	Clusters []placement.Cluster
}

// Assignment is the order of a run to one cluster.
type Assignment struct {
	Placement string
	// Run is the run's name, RunUID distinguishes it from others of that name.
	Run, RunUID string
	// Epoch is at least 1. If two engines work on a placement, only the engine with the higher
	// epoch may write.
	Epoch int64
	// Attempt is the number of the run's attempt at the cluster.
	Attempt int
	// Cluster has Name and UID.
	Cluster placement.Cluster
	// Revision is the digest of the set that the cluster must have; if it is empty, everything of
	// the placement has to be removed.
	Revision string
	// Final reports that the placement is being deleted, so that its record on the cluster must be
	// deleted too; Revision is empty then. Orphan reports in addition that the objects stay on the
	// cluster and no longer belong to the placement.
	Final, Orphan bool
	// AllowCoOwnership allows objects that another placement applies too.
	AllowCoOwnership bool
	// Exclusive forbids objects of another placement, whatever AllowCoOwnership says. If
	// AllowCoOwnership is not set, it also forbids taking over an object that has an owner
	// reference on the cluster.
	Exclusive bool
	// DeletePolicy says which objects are deleted when they have to go; placement.DeleteCreated if
	// empty.
	DeletePolicy placement.DeletePolicy
	// Strategy says how the run applies objects.
	Strategy apply.Strategy
	// Content returns the set of Revision, after overrides, verified by its digests; the caller may
	// keep it. It is nil if Revision is empty. It reads the engine's store, so an Updater should
	// remember the set under its digest. A revision with Unplaced objects is not complete without
	// them.
	Content func(context.Context) (snapshot.Set, error)
}

// Proof is the state that a cluster proves to have.
type Proof struct {
	// Sent reports that the member may have been changed for this run.
	Sent bool
	// Applied reports that the whole assignment has been carried out.
	Applied bool
	// Unchanged reports that nothing had to be carried out, and that this run has not changed
	// anything before either. An updater keeps the RunUID of the [Assignment] with the cluster to
	// know that.
	Unchanged bool
	// Revision is the revision that the cluster is proven to have; empty if nothing is placed, and
	// while something is being applied.
	Revision string
	// Current reports that every object exists unchanged since its apply; for an empty revision, it
	// reports that no object is left. Without objects, it reports that the order of Update is still
	// in force. Healthy reports that the objects are healthy as well.
	Current, Healthy bool
	// Failed reports that waiting will not make the cluster healthy.
	Failed bool
	// Skipped reports that there is nothing to do for the cluster, for the reason in Message. The
	// run then skips the cluster, unless it may have changed the cluster before. In that case the
	// attempt fails if Current is not set, and otherwise the rest of the proof counts.
	Skipped bool
	// Message names the objects that are not current, not healthy or failed. It may quote the
	// status of an object, never another part of it.
	Message string
	// Released names objects that had to be removed and that this call left on the cluster, with
	// the reasons. It also names objects that will be left although the record on the cluster says
	// that the placement created them. The run reports it, see stages.ObjectsReleased. Objects that
	// Orphan leaves are not named.
	Released string
	// Altered names objects that this call applied without a part, because the cluster's API server
	// rejects that part, and names the part: see stages.ObjectsAltered.
	Altered string
}
