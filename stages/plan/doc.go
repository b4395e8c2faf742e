// Package plan resolves a strategy against clusters.
//
// A [Strategy] has ordered stages that select clusters by their labels, with how many are
// updated at once, how many may fail, and what a run waits for before and after each. [New]
// resolves it and a [Target], which names the revision of every cluster, into a [Plan]: every
// cluster stands in exactly one stage and group, at one position, with the digest of what it
// will get, and percentages are numbers. The plan's own digest covers all of it, so that what
// was approved is what is carried out.
//
// A plan is stored in pieces by [Plan.Encode], or in one by its JSON, and read by [Decode],
// which refuses one that New could not have made. [CatchUp] is the target of a run that
// takes what another one missed, [Plan.Reverse] the plan that rolls back what one brought.
//
// Everything here is a function of its arguments: no I/O, no clock, no randomness, no
// goroutine. A Plan does not change once it is made and may be read by several goroutines at a
// time. Times of a [Schedule] are those of a distance from UTC; durations are in nanoseconds,
// as in their JSON.
package plan
