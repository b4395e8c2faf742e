// Package stages defines the types of a staged rollout: the order and the speed in which a
// change reaches the clusters of a fleet.
//
// A [Strategy] is a template. It has ordered stages that select clusters by their labels. A
// stage sets how many clusters update at once, how many may fail, and which gates hold the run
// before and after the stage. A [Plan] is a strategy resolved against clusters and a [Target].
// A plan is frozen: every cluster has exactly one stage, group and position, and the digest of
// its content, and percentages are resolved to numbers. The digest of the plan covers all of
// this, so that a run carries out exactly the plan that was approved. [Plan.Encode] stores a
// plan in pieces, and its JSON holds the whole plan. [DecodePlan] reads the pieces and refuses
// a plan that the planner could not have made.
//
// Begin with [Strategy], [Stage] and [Task], which people write: a strategy has stages, and a stage
// has tasks before and after it. Of the other types a host reads [Plan], [Event] and [Outline], and
// writes [Command]. The rest are fields of these, or input and output of the state machine: look
// them up where a field names them.
//
// Two packages below this one work with the types: stages/planner makes plans, and stages/step
// is the state machine of a run, and has its state, step.Run. An [Input] is the news since the
// last step, such as a [Command] or an [Observation]. A step returns the run to save, the
// [Event] values to publish, and the [Action] values to carry out after the save. An [Outline]
// and [ClusterOutline] values describe the state of a run, its stages and its clusters for people.
// A [Cap] bounds the number of clusters that several runs together have in flight. Package
// stages/check defines the checks and their measurements.
//
// Every function depends on its arguments only: no I/O, no clock, no randomness, no goroutine.
// A Plan does not change after it is made. Several goroutines may read a value at the same
// time, but only one may change it. The times of a [Schedule] are local to its offset from UTC,
// an [Instant] is in milliseconds since the Unix epoch, and JSON has durations as texts such as
// "10s".
//
// Related packages: placement selects the clusters, snapshot holds the content, and approval
// defines the identities that may approve a run.
package stages
