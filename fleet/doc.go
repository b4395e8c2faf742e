// Package fleet is the engine: it freezes what is to be rolled out, plans
// where and in which order, and carries the plan out on the clusters.
//
// An [Engine] is made of the seams in its [Config]: a store for its state, an
// inventory and a dialer for the clusters, a source for the objects. A host
// declares a [Placement], starts runs of it with [Engine.CreateRun], and lets
// [Engine.Run] drive them. Several engines may share a store: each run is
// driven by one of them at a time, by a lease, and every write carries the
// epoch of whoever makes it, so that an engine that was paused and wakes up
// late is refused by the store and by the clusters.
//
// On a cluster the ledger of the placement refuses it. A leader that takes over
// where another may still have a write on its way marks all objects before it
// writes its epoch to the ledger: from then on nothing that existed is changed,
// deleted or released by the older one. An object that is missing cannot be
// marked: every write names the ledger under which it was decided, as a
// [backend.Fence], and a member that compares it accepts nothing of an older leader
// from then on, creations included. Where a member cannot, which
// [backend.FencingOf] tells, one object of each cluster that the older leader is
// about to create may come late; the newer leader takes it over where it wants it,
// and otherwise removes it when it looks again.
//
// The loop is the same for every run: load, observe, [stages.Step], save by
// compare-and-swap, then act. What happened is told as [stages.Event] values,
// stored with the state they belong to; [Engine.Follow] reads them from a
// cursor.
//
// # Order
//
// On a cluster objects are applied after what they may need, by the phases of
// [snapshot.Phase], and removed before it. An object of a kind that comes with its
// definition waits until that is established. An object that was deleted and is
// not gone, because somebody's finalizer holds it, keeps back what earlier phases
// have: that may be what takes the finalizer away. Either way the update is not
// finished then; its message says what it waits for, and it is tried again.
//
// # Deletion
//
// [Engine.DeletePlacement] ends a placement: its runs are superseded, a run of the
// engine's own cleans every cluster that may hold something, and then its records
// go. [Engine.Deletion] tells how far that is, what was left where and why, also
// when it is over. The ledgers go too. A leader that was paused all the while finds
// none then, and asks the store before it places anything: a write of each cluster
// that was on its way to make a ledger may land, or an object where the member knows
// no fences, and nothing else. A placement that is declared again under the name
// goes on with the epochs.
//
// # Rollback
//
// A run whose strategy has a [stages.Rollback] is taken back when a budget is
// exceeded or a gate rejected, or by [Engine.Rollback]. With its end the placement's
// record gets the name, the UID and the place in the line of the run that does, so
// there is one whoever dies meanwhile, and nobody changes a cluster in between. What
// each cluster had is the roster as it was until the run ended; its pages, and the
// contents that they name, are kept for as long as the run can be taken back, which
// is until another one has changed clusters. A cluster that another one under the
// same name has replaced since is taken for it. Maintenance windows and freezes hold
// a run that takes back as they do any other.
//
// # Drift
//
// What differs between a cluster and what was placed on it is drift. [Engine.Drift]
// compares the clusters of a placement at any time and writes nothing;
// [GroupDrift] puts together what is the same. A placement's [ApplyStrategy] says
// what counts, what becomes of objects that drifted or were there before, and
// whether its clusters are watched between runs: then [Engine.Drifted] tells what
// was seen last without asking them, events tell what was found and put back, and
// one engine of those that share the store does it. What is put back is put back
// under the ledger of the run that brought it, only while no run has the placement
// and only while the ledger still says so; a run that comes takes over as it does
// from any engine. [NoDrift] is a gate that holds a stage back while one of its
// clusters has drifted.
//
// What an object was right after it was applied is kept beside the ledger, so
// that defaults and webhooks of the member are no drift.
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
// name the cap. Who holds how much of it is a record of the store: a run takes slots
// before it saves what uses them and gives them back when it has saved that nothing
// does, so a crash between two writes never exceeds the limit, and whoever drives
// the run next gives back what is too much. A run that has ended or was deleted
// gives all back; where nobody was left to do that, those who wait do. One that is
// stopped keeps the slots of the clusters that are still in flight.
//
// # Updates of another kind
//
// An [Updater] of the host's does what runs do to a cluster, instead of applying the
// objects of a snapshot: the snapshot is then what it makes of it, see
// [Assignment.Content]. Package fleet/upgrade is one that upgrades clusters. It may
// refuse a plan before there is a run, as a [Preflighter].
//
// # Records
//
// All state is in the store, under these keys, as JSON with a format version.
// A record of a newer version than this package knows is refused, never
// changed; so is one that is not what was written, by its digest or checksum.
//
//	placement/<name>                              the placement, its snapshots' index, who has it
//	content/<placement>/<digest>                  objects, sets and overrides by their digest
//	roster/<placement>/<generation>-<unique>-<n>  the clusters that may hold something
//	decision/<placement>/<digest>/<n>             the clusters that it picks, paged
//	plan/<digest>, plan/<digest>/<n>              plans
//	begun/<placement>/<uid>                       a run that was begun: its name and its plan
//	run/<name>                                    a run: its state, its lease
//	flight/<uid>/<epoch>-<seq>-<try>-<n>          the clusters in flight of a run, where they are many, paged
//	flight/<uid>/<epoch>-<seq>-<try>-x<n>, -w<n>  the clusters that failed or were skipped, and those that wait, likewise
//	journal/<stream>/<first>-<unique>             events but for the last ones, paged; a stream is a
//	                                              run's UID, or placement.<name>
//	command/<uid>/<id>                            what operators ask of a run
//	cap/<name>                                    a cap that runs share: its limit, who holds how much
//	deleted/<placement>                           how the deletion of a placement ended, its last epoch
//	drift/<placement>/<cluster>                   what was last seen of a cluster that differs
//	keep/<placement>                              who watches the clusters of a placement
//
// Only single records are written atomically. A change is one batch of writes
// ([backend.WriteAll]): pages first, under keys that nothing refers to yet, then
// the placement's or the run's record, which is the commit, then the deletions of
// what that makes superfluous. A crash in between leaves pages that nobody reads.
//
// Snapshots beyond a placement's HistoryLimit and runs beyond its RunHistory
// are deleted when nothing needs them, with all that was stored for them, and
// so are the oldest of the placement's own events. Whatever is deleted of a
// placement, the same collection finds what crashes left of it: contents and
// plans that nothing refers to, runs that were begun and never recorded, pages
// that no record names. A deletion is announced in the placement's record first:
// a commit that was being prepared is refused then and prepared again, and
// whoever stored a content or a plan just then stores it again.
package fleet
