// Package step is the state machine of a run: [Step] takes a run and an input, and returns the new run,
// the actions to carry out now, and the events that happened.
//
// A [Run] is opaque: its exported fields say what it is and how far, [Run.Outline] and
// [Run.Clusters] describe it for people, and a driver stores it with [Run.Encode] and needs to store
// nothing else. [RollBack] plans its rollback. [Allowed] predicts whether Step would refuse a command, [Waiting] names everything that a
// run waits for, and [Explain] gives the reason for the state of one cluster.
//
// Every function depends on its arguments only: no I/O, no clock, no randomness, no goroutine. A host that
// owns its loop calls Step itself: load, observe, step, save by compare-and-swap, then act. Package fleet is
// such a loop.
//
// # Laws
//
//  1. Step does not change its argument. The same input gives the same output.
//     A run survives being stored as JSON and read again between any two steps.
//     Step leaves a run alone if it does not belong to the plan or has lost data.
//  2. There are never more clusters in flight than every cap allows: the caps of the
//     stage, the group and each failure domain, and the cap that runs share.
//     Nothing starts in a stage before all earlier stages are done, or in a
//     stage or a group before its gates have passed.
//  3. A cluster completes only on proof from its current attempt: it reports
//     the revision of the plan, its report is at least as new as the last applied
//     change, and it is healthy for as long as the strategy asks. An unknown
//     state is no proof.
//  4. Nothing starts after a stop was committed. After a run has failed or was aborted,
//     only stages and groups with Always start. Terminal states are terminal. A
//     passed gate stays passed.
//  5. If more clusters have failed than a budget allows, nothing more
//     starts. With a strict budget, the failed clusters and the clusters in flight
//     together never exceed it. Completed clusters are never applied
//     again, nor are skipped ones without a [stages.Retry].
//  6. A run that is not terminal either wakes at a known time or waits for an
//     input that [Waiting] names.
//  7. No cluster starts outside its window, unless windows are bypassed, and
//     a bypass ends within 7 days unless it is renewed.
//  8. Nothing continues past its timeout. The time in which the run is stopped does
//     not count.
//  9. A run that fails or is aborted first runs its stages and groups with Always,
//     unless it is aborted again or superseded.
//
// # Time
//
// Time enters as Input.Now. Waits are absolute instants, anchored to recorded
// facts: an after-stage wait begins when the last cluster of the stage ended.
// Stopping, resuming, a restart or a clock that jumps back neither restarts
// nor shortens one.
//
// The time of a run never goes back: it is the latest Input.Now that was saved with it, in Run.Now, and an
// earlier one counts as that. Therefore one step with a fast clock ends every wait that is over by
// that clock. When the clock is right again, the time of the run stands still until the clock has caught up.
// Until then Step processes inputs as usual. A new wait (a soak, a backoff, an after-stage
// wait, a deadline) begins at the time of the run: it ends late by the rest of the jump,
// and never early. Ready.Wake and the times of events are in the time of the run too. A step cannot
// distinguish a fast clock from a restart after days, so there is no bound: a host that does not trust its
// clock checks it before it steps.
//
// # Gates
//
// Tasks stand before and after stages, and before and after groups. A task before a group opens when its
// stage starts and holds that group alone. A task after a group opens when the last cluster of the group has
// ended and holds the end of the stage. The tasks after a stage open when all its groups have ended. Tasks
// of one side open at the same instant and must all pass. A stage or a group does not wait if all its
// clusters were skipped. A ScheduledStart is fixed when it is reached, as the next time of its schedule, and
// [stages.CompleteGate] ends it early. An approval that holds at a point in time only, see [stages.Answer], passes its gate
// in the step in which it is given or not at all: when every other approval was recorded before it was asked
// for, and every wait of the same side is over. A passed gate is not asked again: clusters that windows, caps
// or gates of groups hold back start later on the same answer. Retrying a cluster reopens its group and its
// stage: passed gates stay passed, open gates after them restart, and gates that were skipped with the group
// are opened again.
//
// # Windows
//
// Input.Calendar says when clusters may be started. Step reads it for a cluster when that would start, and
// again when its window was to change or the calendar has changed, not with every step. A cluster outside its
// window is Pending and takes no slot: the next one goes. Windows keep clusters from starting, also from a
// retry after they lost their slot or were queued again; what is in flight goes on, over all its attempts,
// and the time before it started does not count for its deadline. Stages and gates wait as ever: a stage is
// not done before its last cluster.
//
// In profile ClusterUpdate those whose windows are open go first and those
// without windows after them; in the other profiles all go in the order of the
// plan. What can start at all is the same.
//
// # Budgets
//
// A run ends for MaxFailures only if the failures exceed it, and the clusters
// then in flight may fail too. A strict budget is a bound instead: the number of
// clusters in flight is at most the number that may still fail, so that a failed cluster
// makes no room for another. If the budget is used up and clusters are left, the run ends.
//
// # Workflows
//
// A stage or a group may be a step of a workflow, see [stages.Flow]. A pause has no
// clusters and holds the run at its gates. Groups may depend on others of their
// stage: they begin when those have ended. A timeout begins when the gates before
// have passed, so that the wait for a person does not count. After it, the clusters
// in flight count as failed. In profile Workflow a failure stops the run, to be resumed, or
// with [stages.EndRun] ends it. Before a run ends as Failed or Aborted it runs the stages
// and groups with Always and skips the rest. During that time it is Running: it can be stopped
// and resumed, and a second [stages.Abort] ends it at once.
//
// # Failure domains and shared caps
//
// [stages.Domain] bounds what is in flight of each region, zone or the like. The values of
// the labels are read when the plan is made and are frozen with it. Of the clusters
// whose domains have room the first of the plan goes first, so one that is full
// holds no other cluster up, and its clusters keep their turn.
//
// A [stages.Cap] bounds what is in flight of several runs together. Step starts clusters
// while the run has fewer in flight than Input.Slots, and says in Ready.Wants how
// many it would have: the host that keeps the Cap makes a [stages.Claim] of it once the run is
// saved, and raises Slots when that was saved too.
//
// # Size
//
// In a stage with failure domains a run keeps a number for each combination of
// domains in each group, at most 4096.
//
// What is stored of a run grows with what is in flight and with the unsuccessful ones,
// and both are bounded in what they say. At most 256 clusters wait because they
// could not be reached; when more cannot, the others keep their slots, and the
// clusters that wait take turns with those. At most 256 unsuccessful ranges keep their
// reason; the others are merged into ranges where they can be, and the events
// have the reasons. Clusters that are outside their windows are ranges, at most
// 1024 in a group, and 2048 in all groups of a stage, which share those evenly:
// beyond that no more are deferred, and the group waits for one of those. A run of
// 10,000 clusters stays under 256 KiB when 6,000 cannot be reached, 5,000 fail each
// for a reason of its own, or every other one is outside its window, in up to 1,000
// groups.
//
// Related packages: placement selects the clusters, snapshot holds the content, and approval defines the
// identities that may approve a run.
package step
