// Package lifecycle holds the rules for one placement: the queue of its runs, the retention of its
// snapshots, the bindings of its clusters, rollbacks, and its deletion.
//
// [Advance] is the state machine of a placement, as step.Step is the state machine of a run. It
// takes the [State] of the placement, an [Input] and the [Facts] that were read for it, and returns
// an [Outcome]: the next state, the effects before and after its save, and the events to commit
// with it. Everything here is a function of its arguments: no I/O, no clock, no randomness, no
// goroutine.
//
// # Driver
//
// The outcome names missing facts, so a driver is a loop:
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
// The driver must read the facts after the state, each time that it reads the state, because this
// orders them. If the swap fails, everything that Before stored is garbage. If a driver dies after
// the swap, the effects of After are not lost. Either the next input that needs them repeats them,
// as [Supersede] does in each turn, or a collection carries them out.
//
// # Inputs
//
//	runs         RunRequested  RunAdmitted  TurnAsked  RetryAsked  RunTaken  RunEnded  RunDeleted  RunAbandoned
//	rollbacks    RollbackRequested  RollbackRenamed  RollbackAbandoned  IrreversibleMarked
//	retention    SnapshotTaken  SelectionChanged  CollectionBegun  Collected
//	deletion     DeleteRequested  DeletionContinued  Emptied
//
// An engine may die before it records the result of a run that has ended. Inputs that need the
// placement to be free record that result too, so the bindings are up to date before another run
// changes clusters.
//
// # Laws
//
//  1. Advance changes none of its arguments. The same arguments give the same outcome. A state
//     survives JSON encoding and decoding between any two inputs, and [State.Validate] holds after
//     each.
//  2. At most one run is active, and each run starts at a newer epoch than every run before it.
//  3. A run that has ended or was deleted is neither active nor waiting.
//  4. The latest snapshot is kept. So is each snapshot that a cluster may have, that the clusters
//     had before a run which can be rolled back, or that an unfinished run rolls out.
//  5. A repeated input changes nothing: the outcome is not Changed, or an error.
//  6. Runs become active in the order of their admission. Only a run that supersedes others
//     overtakes them, and the overtaken runs never start.
//  7. The bindings of a cluster change if a run of the cluster ends or is deleted, to the result of
//     that run. A binding is removed if the cluster was cleaned, and emptied if the cluster has left
//     the inventory. A cluster that an admitted run must update has a binding until that run has
//     ended. The result of an attempt is recorded once, and before another run starts.
//  8. A placement that is being deleted accepts only the run that cleans its clusters. In the end
//     it refers to nothing.
//  9. At most one run at a time rolls a run back, to the bindings from before that run began.
//  10. Everything that a state names is stored before the state, and kept as long as a state names
//     it.
//  11. If every run ends and every input is repeated, the queue becomes empty.
package lifecycle
