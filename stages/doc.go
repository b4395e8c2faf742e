// Package stages has the nouns of WHEN: in which order and how fast a change reaches the clusters of a fleet.
//
// A [Strategy] is a template: ordered stages that select clusters by their labels, with how many are updated
// at once, how many may fail, and what a run waits for before and after each. A [Plan] is a strategy resolved
// against clusters and a [Target]. It is frozen: every cluster stands in exactly one stage and group, at one
// position, with the digest of what it will get, and percentages are numbers. The plan's own digest covers all
// of it, so that what was approved is what is carried out. A plan is stored in pieces by [Plan.Encode], or in
// one by its JSON, and read by [DecodePlan], which refuses one that the planner could not have made.
//
// A [Run] is the state of carrying out a plan. It is small, plain data: its JSON is whole and comes back
// equal, with a format number, and [Check] says whether it is one of a plan. Nothing else has to be known to
// keep one. [Derive], [States] and [Clusters] say what the run, its stages and its clusters have come to, in
// people's words. [Input] is what is new since the last step, such as a [Command] or an [Observation]. [Ready]
// is what a step returns: the run to be saved, the [Event] values that happened, and the [Action] values to be
// done then. A [Cap] bounds what several runs have in flight together.
//
// Two packages below this one work with the nouns: stages/planner makes plans, and stages/step is the state
// machine of a run. Package stages/check has what is measured.
//
// Everything here is a function of its arguments: no I/O, no clock, no randomness, no goroutine. A Plan does
// not change once it is made. Any value may be read by several goroutines at a time, and changed by one. Times
// of a [Schedule] are those of a distance from UTC, an [Instant] is in milliseconds since the Unix epoch, and
// durations are in nanoseconds, as in their JSON.
//
// Neighbours: package placement says where, package snapshot what, package approval which identities may let
// a run go on.
package stages
