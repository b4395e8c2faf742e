// Package planner makes plans.
//
// [Plan] resolves a strategy and a target, which names the revision of every cluster, into a [stages.Plan].
// [CatchUp] is the target of a run that takes what another one missed, and [RollBack] the plan that rolls back
// what a run brought.
//
// Everything here is a function of its arguments: no I/O, no clock, no randomness, no goroutine.
package planner
