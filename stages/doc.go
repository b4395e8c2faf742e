// Package stages answers WHEN: in which order and how fast a change reaches
// the clusters of a fleet.
//
// A [Strategy] is a template. [NewPlan] resolves it and a [Target] against
// clusters into a [Plan], which is frozen: every cluster stands in exactly one
// stage and group, at one position, with the digest of what it will get, and
// the plan's own digest covers all of it. A [Run] is what carrying out a plan
// has come to. [Step] is the state machine: it takes a run and what is new,
// and returns what the run becomes, what is to be done now, and what happened.
//
// Everything here is a function of its arguments: no I/O, no clock, no
// randomness, no goroutine. A host that owns its loop calls Step itself: load,
// observe, step, save by compare-and-swap, then act. Package fleet is such a
// loop.
//
// # Laws
//
//  1. Step does not change its argument. The same input gives the same output.
//     A run survives being stored and read again between any two steps.
//  2. There are never more clusters in flight than every cap allows, and
//     nothing starts in a stage before all earlier stages are done.
//  3. A cluster completes only on proof from its current attempt: it reports
//     the revision of the plan, is at least as new as what was applied, and
//     healthy, for as long as the strategy asks. What is not known is no
//     proof.
//  4. Nothing starts after a stop was committed. Terminal states are terminal.
//     A gate that was passed stays passed.
//  5. When more clusters have failed than a budget allows, nothing more
//     starts. Skipped and completed clusters are never applied again.
//  6. A run that is not terminal either wakes at a known time or waits for an
//     input that [Waiting] names.
//
// # Time
//
// Time enters as Input.Now. Waits are absolute instants, anchored to recorded
// facts: an after-stage wait begins when the last cluster of the stage ended.
// Stopping, resuming, a restart or a clock that jumps back neither restarts
// nor shortens one.
//
// Neighbours: package placement says where, package snapshot what, package
// approval who may let a run go on.
package stages
