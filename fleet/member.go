package fleet

import "github.com/slipway-dev/slipway/fleet/internal/member"

// Assignment is what a run wants of one cluster. Its fields are
//
//	Placement         string             the placement's name
//	Run, RunUID       string             the run's name, and what tells it from others of that name
//	Epoch             int64              at least 1; of two engines on a placement the higher one is right
//	Attempt           int                counts the attempts of the run at the cluster
//	Cluster           placement.Cluster  with Name and UID
//	Revision          string             the digest of the set that the cluster is to have; empty where
//	                                     everything of the placement is to go
//	Final, Orphan     bool               the placement is being deleted, and the record of it on the cluster
//	                                     with it; Orphan: its objects stay, without an owner
//	AllowCoOwnership  bool               objects that another placement applies too are allowed
//	Exclusive         bool               no object of another placement is
//	DeletePolicy      placement.DeletePolicy  the placement's
//	Strategy          ApplyStrategy      the run's
//	Content           func(context.Context) (snapshot.Set, error)
//
// Content returns what Revision consists of, after overrides, verified by its digests and the caller's to
// keep; it is nil where Revision is empty. It reads the engine's store, so what was read once is worth
// remembering under the digest.
type Assignment = member.Assignment

// Proof is what a cluster proves. Its fields are
//
//	Sent             bool    the cluster may have been changed for this run
//	Applied          bool    everything has been carried out
//	Unchanged        bool    nothing had to be, and this run has not changed anything before either
//	Revision         string  what the cluster is proven to have; empty when nothing is placed, and while
//	                         something is being applied
//	Current          bool    every object is there as it was applied, or with an empty revision none is left
//	Healthy          bool    the objects are healthy besides
//	Failed           bool    waiting will not make the cluster healthy
//	Skipped          bool    there is nothing to be done for the cluster, for the reason in Message
//	Message          string  what is not current, not healthy or failed
//	Released         string  objects that were to go and were left, or that the cluster's record says the
//	                         placement created and that will be left, and why: see stages.ObjectsReleased
//	Altered          string  objects that were applied without a part of them, and which: see stages.ObjectsAltered
//
// A run skips a cluster that reports Skipped, unless it may have been changed for the run before: then it
// completes by the rest of the report, or fails where that proves nothing. Message may quote the status of an
// object, never another part of it.
type Proof = member.Proof

// Updater brings a cluster to a revision:
//
//	Update(ctx context.Context, a Assignment) (Proof, error)
//	Observe(ctx context.Context, a Assignment) (Proof, error)
//
// The default applies the objects of a snapshot; a host may bring its own, for what a run does to a cluster
// instead. Update carries the assignment out. It looks first and does only what is needed, so it may be
// called again at any time, also after an error and by another process. Observe looks without changing
// anything. Both may be called concurrently for different clusters.
//
// An error is backend.ErrFenced where a newer epoch was found, and backend.ErrPermanent where trying again
// soon does not help; any other means that the cluster could not be worked on now. Beside an error only Sent,
// Released and Altered of the report count.
type Updater = member.Updater

// Preflighter is an [Updater] that can reject a plan before it is recorded:
//
//	Preflight(ctx context.Context, intents []Intent) error
//
// Preflight is called with what a plan would bring to clusters, before the plan is recorded: by Preview,
// CreateRun, CatchUp, PreviewRollback and Rollback, and where a run is taken back without being asked for. Its
// error is theirs, and nothing has been started or stored then; it should name everything that is wrong. It
// changes nothing, may be called more than once for a plan, and takes no longer than a call may, whatever the
// number of clusters. Clusters that a plan cleans are not among them.
type Preflighter = member.Preflighter

// Intent is what a plan would bring to some clusters. Its fields are
//
//	Placement  string               the placement's name
//	Revision   string               the digest of Content
//	Content    snapshot.Set         what the clusters are to have
//	Clusters   []placement.Cluster  in the order of the plan, as the inventory has them
type Intent = member.Intent

// Watcher is an [Updater] that can tell when to observe:
//
//	Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error]
//
// Watch yields once at its beginning and then whenever Observe may return something else. It ends with ctx
// or with an error, after which the caller watches again.
type Watcher = member.Watcher

// Health is what a [Prober] says of an object: Healthy, or Failed where waiting will not make it healthy, and
// a Message for people that is cut at 256 characters. An object that is neither may become healthy.
type Health = member.Health

// Prober reports whether an object is healthy:
//
//	Probe(ctx context.Context, obj *unstructured.Unstructured) (Health, error)
//
// It must not change the object, may be called concurrently and honours ctx. An error means that the health
// is not known.
//
// A Prober that has two more methods evaluates the rules of placements too, ApplyStrategy.Health; without them a
// placement that has rules is refused. Package health/cel has such a Prober:
//
//	ProbeBy(ctx context.Context, rules []health.Rule, obj *unstructured.Unstructured) (Health, error)
//	ValidateRules(rules []health.Rule, at *field.Path) field.ErrorList
//
// ProbeBy is called instead of Probe for the objects of a placement that has rules. Where none of them is for the
// kind of the object, it is Probe. ValidateRules is called when a placement is declared; health.Validate was called before.
type Prober = member.Prober

// ProberFunc makes a func(context.Context, *unstructured.Unstructured) (Health, error) a [Prober].
type ProberFunc = member.ProberFunc

// ApplyStrategy says how the objects of a placement are applied, compared and kept. A run keeps the strategy
// that its placement had when it was created. In JSON its fields begin with a lower-case letter, and empty
// ones are left out:
//
//	Type              ApplyType           ServerSideApply where empty
//	RefuseConflicts   bool                does not take fields from other managers; with ServerSideApply
//	ComparisonOption  drift.Comparison    what counts as drift; PartialComparison where empty
//	WhenToApply       WhenToApply         where set, Engine.Run watches the clusters between runs too
//	WhenToTakeOver    WhenToTakeOver      Always where empty
//	Ignore            []drift.IgnoreRule  differences that do not count, and are not put back
//	Secrets           []string            pointers to values that must not be shown, with * for any key or
//	                                      index, besides what is secret by its kind
//	DryRun            bool                asks a member about what differs
//	Health            []health.Rule       when objects are healthy, before what the Prober says
//
// WhenToApply Always puts back what drifts, IfNotDrifted reports it; where it is empty nothing is watched, and
// runs apply as with Always. DryRun uses a dry run of the apply, where the connection is a
// backend.ConnDryRunner: what an apply would leave as it is, is no difference. It costs the member a call for
// each object that differs, and where it fails nothing fails with it.
//
// An object that must not be applied, because it drifted or must not be taken over, is an error of its
// cluster that names it; the other objects are applied, and kept as WhenToApply says. What is to go from the
// cluster stays until nothing is held back any more.
type ApplyStrategy = member.ApplyStrategy

// ApplyType says how the objects of a placement get to its clusters.
type ApplyType = member.ApplyType

// The types of apply. Both applies are done on the server, by a field manager of the placement's own: fields
// that the hub dropped go, fields of others stay.
const (
	ServerSideApply ApplyType = member.ServerSideApply
	ClientSideApply ApplyType = member.ClientSideApply
	// ReportDiff writes nothing to a cluster: a run compares, and a cluster is done once it has been compared,
	// whatever came of it.
	ReportDiff ApplyType = member.ReportDiff
)

// WhenToApply says what becomes of objects that were changed on a cluster.
type WhenToApply = member.WhenToApply

// When objects are applied.
const (
	// Always puts back what drifted.
	Always WhenToApply = member.Always
	// IfNotDrifted reports an object that drifted and leaves it alone, until the hub has another version of it:
	// that one is applied in any case.
	IfNotDrifted WhenToApply = member.IfNotDrifted
)

// WhenToTakeOver says what becomes of objects that are on a cluster before the placement comes to it.
type WhenToTakeOver = member.WhenToTakeOver

// When objects are taken over.
const (
	TakeOverAlways WhenToTakeOver = member.TakeOverAlways
	// IfNoDiff takes over what does not differ.
	IfNoDiff WhenToTakeOver = member.IfNoDiff
	Never    WhenToTakeOver = member.Never
)

// ClusterDrift is how one cluster differs from what it should have. Its fields, with their names in JSON, are
//
//	Placement, Cluster  string         placement, cluster
//	State               DriftState     state: what the comparison is based on
//	Revision            string         revision: the digest of the set that it was compared with
//	Observed            time.Time      observationTime
//	Objects             []ObjectDrift  objects: those that differ, in the order of application
//	Total               int            total: how many differ; what is stored is cut at 100 objects and 256 KiB
//	Problems            []string       problems: what could not be compared, and why
//
// Its method Fingerprint returns the same for clusters that differ in the same way, and an empty string for
// one that does not differ.
type ClusterDrift = member.ClusterDrift

// ObjectDrift is how one object differs: a drift.Report, its Reason, when it was Observed (in JSON
// observationTime), and FirstObserved (firstObservedTime), since when every comparison found a difference.
type ObjectDrift = member.ObjectDrift

// StatusReport is what objects of a placement say of themselves on a cluster that has been brought to a revision. Its fields are
//
//	Placement, Cluster, Revision  string
//	Objects                       []ObjectStatus
//
// Objects are those of the revision that are there, are the placement's and have a status, in the order of application: an ID, a
// snapshot.ID, the Status, a map[string]any of the receiver's, and Enveloped, which reports whether an envelope brought the object.
// The Status is what the cluster says, and not trusted.
type StatusReport = member.StatusReport

// ObjectStatus is the status of one object of a [StatusReport].
type ObjectStatus = member.ObjectStatus

// DriftState says what a [ClusterDrift] is based on.
type DriftState = member.DriftState

// The states of a report.
const (
	// Compared: every object was compared.
	Compared DriftState = member.Compared
	// NotPlaced: the cluster never got the placement, or gave it up. That is no drift.
	NotPlaced DriftState = member.NotPlaced
	// Updating: an update has begun and not ended, so that objects may be anything between what they were and
	// what they are to be. They are compared only where they are being put back.
	Updating DriftState = member.Updating
	// Unknown: the cluster could not be read; Problems say why.
	Unknown DriftState = member.Unknown
)

// DriftReason says what a difference means for the object.
type DriftReason = member.DriftReason

// The reasons.
const (
	// FoundDrifts: what the placement applied was changed.
	FoundDrifts DriftReason = member.FoundDrifts
	// FoundDiff: the placement only reports.
	FoundDiff DriftReason = member.FoundDiff
	// NotTakenOver: the object was there before and is never taken over.
	NotTakenOver DriftReason = member.NotTakenOver
	// FailedToTakeOver: it was there before, and differs.
	FailedToTakeOver DriftReason = member.FailedToTakeOver
	// ToCreate, ToChange, ToRemove and ToRelease are what a run would do, see [Engine.Diff]. What is released
	// is no longer the placement's and stays.
	ToCreate  DriftReason = member.ToCreate
	ToChange  DriftReason = member.ToChange
	ToRemove  DriftReason = member.ToRemove
	ToRelease DriftReason = member.ToRelease
)
