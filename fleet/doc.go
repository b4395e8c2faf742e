// Package fleet is the engine: it freezes what is to be rolled out, plans
// where and in which order, and carries the plan out on the clusters.
//
// An [Engine] is made of the seams in its [Config]: a store for its state, an
// inventory and a dialer for the clusters, a source for the objects. A host
// declares a [Placement], starts runs of it with [Engine.CreateRun], and lets
// [Engine.Run] drive them. Several engines may share a store: each run is
// driven by one of them at a time, by a lease, and every write carries the
// epoch of the engine that makes it, so that an engine that was paused and wakes up
// late is refused by the store and by the clusters.
//
// On a cluster the ledger of the placement refuses it. A leader that takes over
// where another may still have a write on its way marks all objects before it
// writes its epoch to the ledger: from then on nothing that existed is changed,
// deleted or released by the older one. An object that is missing cannot be
// marked: every write names the ledger under which it was decided, as a
// [backend.Fence], and a member that compares it accepts nothing of an older leader
// from then on, creations included. Where a member cannot, which
// [backend.FencingOf] reports, one object of each cluster that the older leader is
// about to create may come late, and those whose creation was never answered; the
// newer leader takes them over where it wants them, and otherwise removes them at its
// next read.
//
// The loop is the same for every run: load, observe, [step.Step], save by
// compare-and-swap, then act. What happened is told as [stages.Event] values,
// stored with the state they belong to; [Engine.Follow] reads them from a
// cursor.
//
// # What a host does
//
// A host that rolls out a change, and may be restarted at any time, does the same each time it starts:
// it calls [Engine.PutPlacement], has [Engine.Run] drive in a goroutine, and calls [Engine.EnsureRun] with a
// name that says what the run brings, which creates the run or returns the one that there is. The example
// of EnsureRun is such a host.
//
// To show how the run goes it reads [Engine.FollowRun], whose events end with the run and its rollback. [Engine.Follow]
// is for all runs of a placement: without a cursor it yields those of every run that is kept, and it never ends.
// A host that acts on events more than once stores [Follower.Cursor] after each event that it has dealt with, and
// goes on there; one that only shows them reads all of them again.
//
// The events end in one of these ways, and [Engine.Status] says which:
//
//   - [stages.RunCompleted]: every cluster that was not skipped has the change.
//   - [stages.RunFailed]: a budget was exceeded or a gate rejected; the message says which. Clusters that were updated
//     stay so, unless the strategy has a [stages.RollbackPolicy]: then the events of the run that rolls back follow, and
//     its end is the last event. [Engine.RollbackOf] says how it ended, or why the rollback was refused. A run of profile
//     ClusterUpdate may be started again; otherwise the next run has a name of its own.
//   - [stages.RunAborted] and [stages.RunSuperseded]: a command or a newer run of the placement ended it.
//   - An error matching backend.ErrNotFound: the run was deleted.
//
// A run that is stopped has not ended, nor has one that waits at a gate: [stages.RunStopped] and
// [stages.ApprovalRequested] are events like others, after which nothing comes until [Engine.Command] starts it or
// [Engine.Decide] answers. Nor does a run end by itself whose clusters cannot be updated, where its
// strategy has neither a ProgressDeadline nor a bound on Attempts, see [stages.Strategy]: Plan.Warnings says so.
//
// # Order
//
// On a cluster objects are applied after what they may need, by the phases of
// [snapshot.Phase], and removed before it. An object of a kind that comes with its
// definition waits until that is established. An object that was deleted and is
// not gone, because the finalizer of another controller holds it, keeps back what earlier phases
// have: that may be what takes the finalizer away. Either way the update is not
// finished then; its message says what it waits for, and it is tried again.
//
// An object for which the member fails, with an answer of 500 for example, while it
// serves others holds later phases back likewise, and nothing of its own phase. After
// ten updates in a row of an attempt in which that happened, about half a minute, it
// counts as refused: it is a problem of the cluster by its name, and what comes after
// it is applied. Its deletion is no different, but that what it may need stays. Where
// nothing succeeds the member is down, and no object is refused.
//
// # What is deleted
//
// An object is deleted only where the ledger and the object itself say that it is the
// placement's: the object by annotation digest.slipway.dev/<placement>, which
// is written in one step with it and has ",adopted" after the digest where the object
// was there before. Whether such an object goes, too, is the placement's [DeletePolicy].
// The ledger is a ConfigMap on the member, which others may be able to
// write: what it alone claims is given up instead. A run reports all that stays by
// [stages.ObjectsReleased]. A ledger with an object that is never placed by its name,
// see snapshot.Propagates, is refused as a whole. A namespace that Config.Rules come to
// reserve is not: what was placed there before is given up.
//
// # Deletion
//
// [Engine.DeletePlacement] ends a placement: its runs are superseded, a run of the
// engine's own cleans every cluster that may hold something, and then its records
// go. [Engine.Deletion] says how far that is, what was left where and why, also
// when it is over. The ledgers go too. A leader that was paused all the while finds
// none then, and asks the store before it places anything: a write of each cluster
// that was on its way to make a ledger may land, or an object where the member knows
// no fences, and nothing else. A placement that is declared again under the name
// goes on with the epochs.
//
// # Eviction
//
// A run whose strategy names clusters in Removal.Only takes the placement from these, whether it is picked there or not, and
// does nothing else. From its admission until it has ended they are not picked; then the policy decides about them as
// about new ones, so that a taint keeps away what it would not have taken away. It takes its turn as Placement.Admission says,
// but it is superseded by nothing but the deletion of the placement, and supersedes no other eviction. A run that was planned
// for such a cluster and is admitted later is refused with [backend.ErrConflict]; one that was admitted before brings
// there what it was to bring, in its turn. Its events are those of a removal.
//
// # Rollback
//
// A run whose strategy has a [stages.RollbackPolicy] is taken back when a budget is
// exceeded or a gate rejected, or by [Engine.Rollback]. With its end the placement's
// record gets the name, the UID and the place in the queue of the run that does, so
// there is one even if every engine stops meanwhile, and no run changes a cluster in between. What
// each cluster had is the bindings as they were until the run ended; its pages, and the
// contents that they name, are kept for as long as the run can be taken back, which
// is until another one has changed clusters. A cluster that another one under the
// same name has replaced since is taken for it. Maintenance windows and freezes hold
// a run that takes back as they do any other.
//
// # Drift
//
// What differs between a cluster and what was placed on it is drift. [Engine.Drift]
// compares the clusters of a placement at any time and writes nothing;
// [GroupDrift] puts together what is the same. A placement's [apply.Strategy] says
// what counts, what becomes of objects that drifted or were there before, and
// whether its clusters are watched between runs: then [Engine.Drifted] says what
// was seen last without asking them, events say what was found and put back, and
// one engine of those that share the store does it. What is put back is put back
// under the ledger of the run that brought it, only while no run has the placement
// and only while the ledger still says so; a run that comes takes over as it does
// from any engine. [NoDrift] is a gate that holds a stage back while one of its
// clusters has drifted.
//
// What an object was right after it was applied is kept beside the ledger, so
// that defaults and webhooks of the member are no drift. There, and in the ledger,
// nothing stands that is worked out from the content of objects alone: the revision is
// encrypted, and the rest is keyed, under a random key in the placement's record.
//
// # Before a run
//
// [Engine.Preview] returns the plan that a run would have, [Engine.Diff] what that
// plan would do to each cluster, in the form of a drift report, and [Engine.Forecast]
// how long it would take. The digest of the plan covers what every cluster gets after
// overrides; a run that names it brings that or nothing. An override that cannot be
// carried out, or does what [Config.Restrictions] forbid, fails the plan, and nothing
// has begun.
//
// # Approvals
//
// A gate that asks for approval is answered by people, through [Engine.Decide], and by
// [Config.Authority]; package fleet/authority makes one of several. The engine that drives
// the run asks the authority when the request opens, and then
//
//	Config.Poll after its answer came, and after twice as long each time, up to ten times Poll: with the
//	default of 1 s it is asked 1, 2, 4, 8, 10, 10, … seconds after the answer before;
//	where it is an [approval.Scheduler], after what NextAsk says instead, at least a tenth of Poll; an answer
//	of NextAsk that is not positive means Poll again, which doubles from there;
//	at once, and beginning with Poll again, when the request has changed: a decision was recorded, a wait
//	beside the request has ended, or another authority approves for the moment and its own approval does not
//	hold.
//
// An answer that is neither an approval nor a rejection, and an error, change nothing of
// that. One call of a request is under way at a time; each has Config.CallTimeout. What is
// asked then has the decisions of the others. After a restart, and when another engine takes
// the run over, all of that begins again. While a run is stopped no authority is asked.
//
// An approval that stands is stored as a command and recorded, and its author is
// still asked until the gate has opened, without effect. An approval that holds at a
// point in time only, by [approval.Decision].PointInTime, is kept in the memory of the
// engine for [approval.PointInTimeAge] and put into the next steps. It opens the
// gate if all others have approved before it was asked for. [NoDrift] is such an
// authority; it compares the clusters once no other approval is missing, which authority.Last
// does for any other. Between the opening of
// a gate and the start of a cluster no authority is asked: what a window, a cap or the cap of
// a stage holds back starts later on what was answered then.
//
// # Windows and forecasts
//
// [Config.Windows] says when clusters may be started: maintenance windows and
// freezes, of a run, its groups and its clusters. They gate the start of a cluster
// and nothing else: what is in flight goes on, and drift is put back at any time. A
// [stages.BypassWindows] command lets clusters start outside them for a while, and
// is recorded. [Engine.Forecast] carries a run out in virtual time before it exists,
// by the same rules, and tells when it would end and what would hold it up.
//
// # Caps that runs share
//
// [Engine.SetCap] bounds how many clusters are in flight of all runs whose strategies
// name the cap. How much of it each run holds is a record of the store: a run takes slots
// before it saves what uses them and gives them back when it has saved that nothing
// does, so a crash between two writes never exceeds the limit, and the next
// driver of the run gives back what is too much. A run that has ended or was deleted
// gives all back; where its engine stopped before, the runs that wait do it. One that is
// stopped keeps the slots of the clusters that are still in flight.
//
// # Updates of another kind
//
// An [backend.Updater] of the host's does what runs do to a cluster, instead of applying the
// objects of a snapshot: the snapshot is then what it makes of it, see
// [backend.Assignment.Content]. Package fleet/upgrade is one that upgrades clusters. It may
// refuse a plan before there is a run, as a [backend.Preflighter].
//
// # Errors
//
// A method that refuses something returns an error that wraps an [errdef.Error], which has the
// operation and the noun. errors.Is finds its cause: errdef.ErrNotFound, errdef.ErrDeleting,
// errdef.ErrPlanChanged, or a kind of package backend.
//
// # Records
//
// All state is in the store, as JSON with a format version: docs/records.md has the keys
// and what is atomic. A record of a newer version than this package knows is refused,
// never changed, and so are content and plans that are not what their digest says. That any
// other record is what was written is checked by the store, see backend.Store.
package fleet
