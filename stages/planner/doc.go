// Package planner makes plans.
//
// [Plan] resolves a strategy and a target, which names the revision of every cluster, into a
// [stages.Plan]. [CatchUp] returns the target of a run that updates the clusters that another
// run missed, and [RollBack] returns the plan that rolls a run back.
//
// Every function depends on its arguments only: no I/O, no clock, no randomness, no goroutine.
package planner
