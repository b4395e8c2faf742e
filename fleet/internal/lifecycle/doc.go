// Package lifecycle is what a placement comes to: the queue of its runs, which snapshots are kept, what each cluster
// may have, what a rollback goes back to, and its deletion.
//
// [Advance] is the state machine, beside step.Step, which is that of one run. It takes the [State] of the placement,
// an [Input] and the [Facts] that were read for it, and returns an [Outcome]: the next state, what to do before and
// after it is saved, and the events to commit with it. Everything here is a function of its arguments: no I/O, no
// clock, no randomness, no goroutine.
//
// # Driver
//
// Facts that are missing are named by the outcome, so a driver is a loop:
//
//	for {
//		state, revision := read()
//		facts := lifecycle.Facts{Spec: spec, Now: now(), ID: unique()}
//		out, err := lifecycle.Advance(state, input, facts)
//		for err == nil && !out.Need.IsZero() {
//			gather(out.Need, out.State, &facts)
//			out, err = lifecycle.Advance(state, input, facts)
//		}
//		if err != nil || !out.Changed {
//			return carryOut(out.After), err
//		}
//		carryOut(out.Before)
//		if swap(revision, out.State, out.Events) {
//			return carryOut(out.After), nil
//		}
//	}
//
// The facts are read after the state, each time that it is read: that orders them. Where the swap fails, what Before
// stored is garbage. Where a driver dies after it, what After was to do is found again by the next input that needs
// it ([Supersede], in each turn) or by a collection.
//
// # Inputs
//
//	runs         RunRequested  RunAdmitted  TurnAsked  RetryAsked  RunTaken  RunEnded  RunDeleted  RunAbandoned
//	rollbacks    RollbackRequested  RollbackRenamed  RollbackAbandoned  IrreversibleMarked
//	retention    SnapshotTaken  SelectionChanged  CollectionBegun  Collected
//	deletion     DeleteRequested  DeletionContinued  Emptied
//
// How a run that has ended came out is also recorded with the inputs that need the placement to be free,
// where its engine died before it recorded that: what the clusters have is known before another run changes
// them.
//
// # Laws
//
//  1. Advance changes none of its arguments. The same arguments give the same outcome. A state survives being
//     stored as JSON and read again between any two inputs, and [State.Validate] holds after each.
//  2. At most one run has the placement, and each that starts does so at a newer epoch than every run before it.
//  3. A run that has ended or was deleted does not have the placement, nor does it wait for it.
//  4. The latest snapshot is kept, and each that a cluster may have, that the clusters had before a run which can be
//     rolled back, or that a run under way brings.
//  5. An input that is repeated changes nothing: the outcome is not Changed, or an error.
//  6. Runs have the placement in the order of their admission. Only a run that supersedes goes before others, and
//     those never start.
//  7. The bindings of a cluster change where a run of it has ended or was deleted, to what that run came to. A cluster
//     is forgotten where it was cleaned, or is not in the inventory; one that an admitted run is to update has a
//     binding until that run has ended. What an attempt of a run brought is taken in once, and before another run starts.
//  8. A placement that is being deleted takes nothing new but the run that cleans, and refers to nothing in the end.
//  9. A run is rolled back by one run at a time, and to what its clusters had when it began.
//  10. What a state names is stored before the state is, and is kept for as long as a state names it.
//  11. When each run goes to its end and each input is repeated, the queue becomes empty.
package lifecycle
