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
// The loop is the same for every run: load, observe, [stages.Step], save by
// compare-and-swap, then act. What happened is told as [stages.Event] values,
// stored with the state they belong to; [Engine.Follow] reads them from a
// cursor.
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
//	plan/<digest>, plan/<digest>/<n>              plans
//	run/<name>                                    a run: its state, its lease
//	flight/<uid>/<epoch>-<seq>-<try>-<n>          the clusters in flight of a run, where they are many, paged
//	journal/<stream>/<first>-<unique>             events but for the last ones, paged; a stream is a
//	                                              run's UID, or placement.<name>
//	command/<uid>/<id>                            what operators ask of a run
//
// Only single records are written atomically. A change is one batch of writes
// ([backend.WriteAll]): pages first, under keys that nothing refers to yet, then
// the placement's or the run's record, which is the commit, then the deletions of
// what that makes superfluous. A crash in between leaves pages that nobody reads.
//
// Snapshots beyond a placement's HistoryLimit and runs beyond its RunHistory
// are deleted when nothing needs them, with all that was stored for them. A
// deletion is announced in the placement's record first, so that whoever stores
// a content just then stores it again.
package fleet
