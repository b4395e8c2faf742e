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
// The time of a run never goes back: it is the latest Input.Now that was saved
// with it, in Run.Now, and an earlier one counts as that. So one step with a
// clock that is fast ends at once every wait that is over by that clock. When
// the clock is right again, the time of the run stands still until the clock
// has caught up. Meanwhile inputs are taken in as ever, and what begins to wait
// then (a soak, a backoff, an after-stage wait, a deadline) waits from the time
// of the run: it ends later than asked, by what is left of the jump, and never
// earlier. Ready.Wake and the times of events are in the time of the run too. A
// step cannot tell a fast clock from a restart after days, so there is no
// bound: a host that does not trust its clock checks it before it steps.
//
// # Size
//
// What is stored of a run grows with what is in flight and with the exceptions,
// and both are bounded in what they say. At most 256 clusters wait because they
// could not be reached; when more cannot, the others keep their slots, and the
// clusters that wait take turns with those. At most 256 exceptions keep their
// reason; the others are merged into ranges where they can be, and the events
// have the reasons. A run of 10,000 clusters stays under 256 KiB when 6,000
// cannot be reached, or 5,000 fail each for a reason of its own.
//
// Neighbours: package placement says where, package snapshot what, package
// approval who may let a run go on.
package stages
