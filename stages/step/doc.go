// Package step is the state machine of a run: [Step] takes a run and an input, and returns the new
// run, the actions to carry out now, and the events that happened.
//
// A [Run] is opaque. Its exported fields identify it and its progress, and [Run.Outline] and
// [Run.Clusters] describe it for people. A driver stores it with [Run.Encode] and needs to store
// nothing else. [RollBack] plans its rollback. [Allowed] predicts whether Step would refuse a
// command, [Waiting] names everything that a run waits for, and [Explain] gives the reason for the
// state of one cluster.
//
// Every function depends on its arguments only: no I/O, no clock, no randomness, no goroutine. A
// host that owns its loop calls Step itself: load, observe, step, save by compare-and-swap, then
// act. Package fleet is such a loop.
//
// # Laws
//
//  1. Step does not change its argument. The same input gives the same output. A run survives being
//     stored as JSON and read again between any two steps. Step leaves a run alone if it does not
//     belong to the plan or has lost data.
//  2. There are never more clusters in flight than every cap allows: the caps of the stage, the
//     group and each failure domain, and the cap that runs share. Nothing starts in a stage before
//     all earlier stages are done, or in a stage or a group before its gates have passed.
//  3. A cluster completes only on proof from its current attempt: it reports the revision of the
//     plan, its report is at least as new as the last applied change, and it is healthy for as long
//     as the strategy asks. An unknown state is no proof.
//  4. Nothing starts after a stop was committed. After a run has failed or was aborted, only stages
//     and groups with Always start. Terminal states are terminal. A passed gate stays passed.
//  5. If more clusters have failed than a budget allows, nothing more starts. With a strict budget,
//     the failed clusters and the clusters in flight together never exceed it. Completed clusters
//     are never applied again, nor are skipped ones without a [stages.Retry].
//  6. A run that is not terminal either wakes at a known time or waits for an input that [Waiting]
//     names.
//  7. No cluster starts outside its window, unless windows are bypassed, and a bypass ends within 7
//     days unless it is renewed.
//  8. Nothing continues past its timeout. The time in which the run is stopped does not count.
//  9. A run that fails or is aborted first runs its stages and groups with Always, unless it is
//     aborted again or superseded.
//
// # Time
//
// Time enters as Input.Now. Waits are absolute instants, anchored to recorded facts: an after-stage
// wait begins when the last cluster of the stage ended. Stopping, resuming, a restart or a clock
// that jumps back neither restarts nor shortens one.
//
// The time of a run never goes back: it is the latest Input.Now so far, saved as Run.Now. Step
// replaces an earlier Input.Now by Run.Now. Therefore one step with a fast clock ends every wait
// that is over by that clock. When the clock is right again, the time of the run stands still until
// the clock has caught up. Until then Step processes inputs as usual. A new wait (a soak, a
// backoff, an after-stage wait, a deadline) begins at the time of the run. So it may end too late,
// by the time that the clock still has to catch up, but never too early. Ready.Wake and the times
// of events are in the time of the run too. A step cannot distinguish a fast clock from a restart
// after days, so there is no bound: a host that does not trust its clock checks it before it steps.
//
// # Gates
//
// Tasks stand before and after stages, and before and after groups. A task before a group opens
// when its stage starts and holds only that group. A task after a group opens when the last cluster
// of the group has ended and holds the end of the stage. The tasks after a stage open when all its
// groups have ended. Tasks of one side open at the same instant and must all pass. A stage or a
// group does not wait if all its clusters were skipped.
//
// The time of a ScheduledStart is the next time of its schedule when the task is reached; it never
// changes, and [stages.CompleteGate] ends the wait early. An approval for a point in time, see
// [stages.Answer], must pass its gate in the step in which it is given, or it has no effect. It
// passes if every other approval was recorded before it was requested, and every wait of the same
// side is over.
//
// A passed gate is not asked again: clusters that windows, caps or gates of groups hold back start
// later on the same answer. Retrying a cluster reopens its group and its stage: passed gates stay
// passed, open gates after them restart, and gates that were skipped with the group open again.
//
// # Windows
//
// Input.Calendar says when clusters may be started. Step reads it for a cluster when that cluster
// would start, and again when its window should change or the calendar has changed, but not in
// every step. A cluster outside its window is Pending and takes no slot, so that the next cluster
// goes first. Windows keep clusters from starting, also from a retry after they lost their slot or
// were queued again. They do not affect clusters in flight, over all attempts. The time before a
// cluster started does not count for its deadline. Stages and gates wait as usual: a stage is not
// done before its last cluster.
//
// In profile ClusterUpdate, clusters with open windows go first and clusters without windows after
// them. In the other profiles all go in the order of the plan. The profile does not change which
// clusters can start.
//
// # Budgets
//
// A run ends for MaxFailures only if the failures exceed it, and the clusters then in flight may
// fail too. A strict budget is a bound instead: the number of clusters in flight is at most the
// number that may still fail, so that a failed cluster makes no room for another. If the budget is
// used up and clusters are left, the run ends.
//
// # Workflows
//
// A stage or a group may be a step of a workflow, see [stages.Flow]. A pause has no clusters and
// holds the run at its gates. Groups may depend on others of their stage: they begin when those
// have ended. A timeout begins when the gates before have passed, so that the wait for a person
// does not count. After the timeout, the clusters in flight count as failed. In profile Workflow a
// failure stops the run so that it can be resumed, or ends it with [stages.EndRun]. Before a run
// ends as Failed or Aborted it runs the stages and groups with Always and skips the rest. During
// that time it is Running: it can be stopped and resumed, and a second [stages.Abort] ends it at
// once.
//
// # Failure domains and shared caps
//
// A [stages.Domain] limits the clusters in flight of each region, zone or the like. Step reads no
// labels: their values are frozen in the plan. Step starts the first cluster of the plan whose
// domains have room, so a full domain holds no other cluster up, and its own clusters keep their
// turn.
//
// A [stages.Cap] limits the clusters in flight of several runs together. Step starts clusters while
// the run has fewer in flight than Input.Slots, and returns in Ready.Wants how many it would have
// without the cap. The host that keeps the Cap saves the run, then makes a [stages.Claim] from
// Ready.Wants, and raises Slots once the claim is saved.
//
// # Size
//
// In a stage with failure domains, a run keeps a number for each combination of domains in each
// group, at most 4096 of them.
//
// The stored run grows with the clusters in flight and the unsuccessful clusters, and its record of
// both is bounded:
//
//   - At most 256 clusters wait because they could not be reached. If more cannot be reached, the
//     others keep their slots, and the waiting clusters take turns with them.
//   - At most 256 unsuccessful ranges keep their reason. The others are merged if possible, and the
//     events have the reasons.
//   - Clusters outside their windows are stored as ranges, at most 1024 in a group and 2048 in all
//     groups of a stage, which share that number evenly. Beyond that no more clusters are deferred,
//     and the group waits for one of the deferred ranges.
//
// A run of 10,000 clusters stays under 256 KiB if 6,000 clusters cannot be reached, if 5,000 fail
// for different reasons, or if every second cluster is outside its window, in up to 1,000 groups.
//
// Related packages: placement selects the clusters, snapshot holds the content, and approval
// defines the identities that may approve a run.
package step
