// Package fleet is the engine: it takes a frozen snapshot of objects, plans the order in which
// clusters get it, and carries the plan out on the clusters.
//
// An [Engine] is built from the plug-ins in its [Config]: a store for its state, an inventory and a
// dialer for the clusters, a source for the objects. A host declares a [Placement], starts runs of
// it with [Engine.CreateRun], and lets [Engine.Start] drive them. Several engines may share a
// store.
//
// The loop is the same for every run: load, observe, [step.Step], save by compare-and-swap, then
// act. The engine reports events as [stages.Event] values and stores them with the state they
// belong to. [PlacementHandle.Follow] reads them from a cursor.
//
// # How a host uses the engine
//
// A host that rolls out a change, and may be restarted at any time, does the same each time it
// starts. It calls [Engine.PutPlacement], starts [Engine.Start] in a goroutine, and calls
// [Engine.EnsureRun] with a name that identifies the change. EnsureRun creates the run, or returns
// the run that exists: ExampleEngine_EnsureRun is such a host, and in short
//
//	engine, err := fleet.New(fleet.Config{Store: store, Inventory: inventory, Dialer: dialer, Source: source})
//	go engine.Start(ctx)
//	err = engine.PutPlacement(ctx, placement)
//	run, err := engine.EnsureRun(ctx, fleet.RunSpec{Name: "web-v1.4.2", Placement: "web", Strategy: strategy})
//	run, err = engine.Run("web-v1.4.2").Wait(ctx)
//
// If people declare strategies by themselves, for example by files with slipway apply, the host
// keeps them with [Engine.PutStrategy], and a run names one.
//
// To show the progress of one run, the host reads [RunHandle.Follow], whose events end with the run
// and its rollback. [PlacementHandle.Follow] covers all runs of a placement: without a cursor it
// yields the events of every run that is kept, and it never ends. A host with side effects that
// must not be repeated stores [Follower.Cursor] after each event that it has handled, and resumes
// there. A host that only shows the events reads all of them again.
//
// The events end in one of these ways, and [RunHandle.Status] says which:
//
//   - [stages.RunCompleted]: every cluster that was not skipped has the change.
//   - [stages.RunFailed]: a budget was exceeded or a gate rejected; the message says which. Updated
//     clusters keep the change, unless the strategy has a [stages.RollbackPolicy]: then the events
//     of the rollback run follow, and its end is the last event. [RunHandle.RollbackStatus] says
//     how the rollback ended, or why it was refused. A run of profile ClusterUpdate may be started
//     again; for other profiles the next run needs a new name.
//   - [stages.RunAborted] and [stages.RunSuperseded]: a command or a newer run of the placement
//     ended it.
//   - An error matching backend.ErrNotFound: the run was deleted.
//
// A stopped run has not ended, and neither has a run that waits at a gate. [stages.RunStopped] and
// [stages.ApprovalRequested] are ordinary events. No event follows them until a [RunHandle.Command]
// starts the run or decides. A run whose clusters cannot be updated does not end by
// itself if its strategy has neither a ProgressDeadline nor a bound on Attempts, see
// [stages.Strategy]. Plan.Warnings reports this.
//
// # Before a run
//
// [Engine.Preview] plans a run and writes nothing: [Preview].Plan is the plan that the run would
// have, [Preview.Diff] compares it with each cluster and returns the changes in the form of a drift
// report, and [Preview.Forecast] says how long the run would take. The digest of the plan covers
// the objects of every cluster after overrides, so a run that names the digest brings exactly these
// objects or is refused. An override that cannot be applied, or that violates
// [Config.Restrictions], fails the plan before anything has begun.
//
// # Approvals
//
// A gate that asks for approval is answered by people, through [RunHandle.Command], or by
// [Config.Authority]. Package fleet/authority combines several authorities. The engine that drives
// the run asks the authority when the request opens, and asks again
//
//   - first after Config.Poll. Each next wait is twice the last one, at most ten times Poll: with
//     the default of 1 s it asks 1, 2, 4, 8, 10, 10, … seconds after the previous answer;
//   - after the duration of NextAsk instead, if the authority is an [approval.Scheduler], but at
//     least a tenth of Poll. If NextAsk returns no positive duration, it waits Poll, and doubles
//     the wait from there;
//   - at once if the request has changed, and then again after Poll. A request changes if a
//     decision is recorded, if a wait beside it ends, or if another authority approves for the
//     moment and this authority's own approval does not hold.
//
// An answer that is neither an approval nor a rejection does not affect these times, and neither
// does an error. At most one call per request is under way at a time; each is limited by
// Config.CallTimeout. The request that the authority receives contains the decisions of the others.
// After a restart, and when another engine takes over the run, the times begin again. While a run
// is stopped, no authority is asked.
//
// An approval that stands is stored as a command and recorded. Its author is still asked until the
// gate has opened, without effect. An approval may hold only for the moment, see
// [approval.Decision].PointInTime. The engine keeps such an approval in memory for
// [approval.PointInTimeAge], and it opens the gate only if all others approved before it was asked
// for. [NoDrift] gives such approvals: it compares the clusters once no other approval is missing.
// authority.Last makes any authority wait, as NoDrift does, until all others have approved. No
// authority is asked between the opening of a gate and the start of a cluster: a cluster that a
// window, a cap or the cap of a stage delays starts later under the earlier approval.
//
// # Rollback
//
// A run whose strategy has a [stages.RollbackPolicy] is rolled back if a budget is exceeded or a
// gate rejected, or by [RunHandle.Rollback]. The write that ends the run also stores the name, the
// UID and the queue position of the rollback run in the placement's record. Therefore the rollback
// happens even if every engine stops in between, and no other run changes a cluster before it. Each
// cluster returns to the content that it was proven to have before the run. That is the content of
// an earlier run also if that run was superseded before it ended. The records of these contents,
// the bindings of clusters, and the contents are kept for as long as the run can be rolled back:
// until another run has changed clusters. If a cluster was replaced under the same name, the new
// cluster counts as the old one. Maintenance windows and freezes hold a rollback as they hold any
// other run.
//
// # Windows and forecasts
//
// [Config.Windows] says when clusters may be started: it returns maintenance windows and freezes of
// a run, its groups and its clusters. They gate only the start of a cluster: updates in flight
// continue, and drift is corrected at any time. A [stages.BypassWindows] command lets clusters
// start outside the windows for a while, and is recorded. [Preview.Forecast] simulates a run in
// virtual time before the run exists, by the same rules, and reports when it would end and what
// would delay it.
//
// # Caps that runs share
//
// [Engine.SetCap] limits how many clusters may be in flight over all runs whose strategies name the
// cap. The store has a record of the slots that each run holds. A run claims a slot before it saves
// that a cluster starts, and releases it after it has saved that the cluster ended. Therefore a
// crash between two writes never exceeds the limit, and the next driver of the run releases surplus
// slots. A run that has ended or was deleted releases all its slots; if its engine stopped before
// that, the waiting runs release them. A stopped run keeps the slots of the clusters that are still
// in flight.
//
// # Drift
//
// Drift is any difference between a cluster and the objects placed on it. [PlacementHandle.Drift]
// compares the clusters of a placement at any time and writes nothing; [GroupDrift] groups equal
// differences. A placement's [apply.Strategy] says which differences count, how to treat objects
// that drifted or existed before, and whether its clusters are watched between runs. If they are
// watched, [DriftOptions].Recorded returns the last observation without asking the clusters, events
// report drift and its correction, and one of the engines that share the store does the work. The
// engine corrects drift only between runs. It uses the ledger of the last run, and stops if a newer
// run takes over the ledger. [NoDrift] is a gate that holds a stage back while one of its clusters
// has drifted.
//
// The state of an object right after it was applied is kept beside the ledger, so that defaults and
// webhooks of the member do not count as drift. Neither it nor the ledger contains anything that
// can be computed from the content of objects alone: the revision is encrypted, and the rest is
// keyed, under a random key in the placement's record. If the key is lost, the revision of a
// cluster is unknown until a run updates the cluster. Two digests have no key. Each object has an
// annotation with its own digest: whoever reads it can read the object, too. The digest of a plan
// covers all contents and the clusters with their UIDs; if all of this is known except one value,
// the digest confirms a guess of the value.
//
// # Order
//
// On a cluster the engine applies an object after the objects it may need, by the phases of
// [snapshot.Phase], and removes it before them. A custom resource whose definition is in the same
// snapshot waits until the definition is established. A deleted object may stay because of the
// finalizer of another controller. It then holds back the removal of objects of earlier phases,
// because one of them may run the controller that removes the finalizer. In both cases the update
// is not finished: its message says why it waits, and the engine retries.
//
// A member may fail for one object, for example with a status of 500, while it serves others. Then
// the objects of later phases wait for it, and the other objects of its phase are applied. After
// ten such updates in a row in one attempt, about half a minute, the object counts as refused: the
// cluster reports it by name as a problem, and later phases are applied. A failing deletion is
// treated alike, but the objects that the deleted object may need stay. If no call succeeds, the
// member is down, and no object is refused.
//
// # Which objects are deleted
//
// The engine deletes an object only if both the ledger and the object say that it belongs to the
// placement. The object says so by annotation digest.slipway.dev/<placement>. The annotation is
// written in one step with the object, and has ",adopted" after the digest if the object existed
// before. The DeletePolicy of the [Placement] decides whether adopted objects are deleted too. The
// ledger is a ConfigMap on the member, and others may be able to write it. Therefore an object that
// only the ledger claims is released. A run reports all objects that stay by
// [stages.ObjectsReleased]. If the ledger names an object that is never placed because of its name,
// see snapshot.Propagates, the whole ledger is refused. This does not apply to a namespace that
// Config.Rules reserve later: objects placed there before are released. A user who may write an
// object with its annotation can cause its deletion, and could also delete it directly.
//
// # Deletion
//
// [PlacementHandle.Delete] ends a placement. It supersedes the placement's runs, the engine creates
// a run that cleans every cluster that may hold objects, and then the engine deletes the records. A
// placement that never had a snapshot needs no such run: the call deletes the records.
// [PlacementHandle.Deletion] reports the progress and which objects were left where and why, also
// after the deletion is complete. The ledgers are deleted too. A leader that was paused during the
// whole deletion finds no ledger, and must ask the store before it places anything. At most one
// late write per cluster may land: a write under way that creates a ledger, or an object if the
// member has no fences. If a placement is declared again under the name, its epochs continue.
//
// # Eviction
//
// A run whose strategy names clusters in Removal.Only removes the placement from these clusters,
// whether the placement picks them or not, and does nothing else. From its admission to its end
// they are not picked. Then the policy treats them as new clusters, so that a taint keeps the
// placement off a cluster from which it would not have removed it. The eviction waits for other
// runs as Placement.Admission says. Only the deletion of the placement supersedes it, and it
// supersedes no other eviction. A run that was planned before the eviction, and that includes one
// of its clusters, is refused with [backend.ErrConflict] if it enters the queue after the eviction.
// If it entered the queue before, it updates the cluster as planned. An eviction has the same
// events as a removal.
//
// # Updates of another kind
//
// A [backend.Updater] of the host replaces the update of a cluster: the engine then does not apply
// the objects of a snapshot, and the updater interprets the snapshot, see
// [backend.Assignment.Content]. Package fleet/upgrade has an updater that upgrades clusters. An
// updater may refuse a plan before there is a run, as a [backend.Preflighter]. There is no drift
// without objects: [PlacementHandle.Drift] and [Preview.Diff] return an error.
//
// # Errors
//
// A method that refuses a request returns an error that wraps an [errdef.Error], which has the
// operation and the noun. errors.Is finds its cause: errdef.ErrNotFound, errdef.ErrDeleting,
// errdef.ErrPlanChanged, or a kind of package backend. Invalid input is an Aggregate of
// field.Error values of k8s.io/apimachinery, and matches no kind; it stays invalid if the call is
// repeated.
//
// # Records
//
// All state is in the store, as JSON with a format version: docs/records.md lists the keys and the
// atomic writes. The package refuses a record of a newer version than it knows, and never changes
// it. It also refuses content and plans that do not match their digest. The store verifies the
// integrity of all other records, see backend.Store.
//
// # Several engines
//
// A lease ensures that one engine at a time drives a run. An engine that was paused may not know
// that another engine has taken its run. So each lease has an epoch, a number that grows, and each
// write names the epoch of its engine. The store and the clusters refuse the older epoch.
//
// On a cluster, the ledger of the placement has the current epoch and the objects that were placed.
// A new leader first marks all existing objects, and then writes its epoch to the ledger. From then
// on an older leader cannot change, delete or release them.
//
// An object that does not exist yet cannot be marked. Therefore each write also names the ledger
// under which it was decided, as a [backend.Fence]. A member that compares fences accepts no write
// of an older leader, not even a creation; [backend.FencingOf] reports whether a member does. On
// another member two kinds of objects may still appear late: one object per cluster that the older
// leader is about to create, and the objects whose creation was never answered. The new leader
// takes them over if it wants them, and otherwise removes them at its next read.
package fleet
