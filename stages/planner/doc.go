// Package planner makes plans.
//
// [Plan] resolves a strategy and a target, which names the revision of every cluster, into a
// [stages.Plan]. [CatchUp] returns the target of a run that updates the clusters that another run
// missed. Package step has the plan that rolls a run back.
//
// Every function depends only on its arguments: no I/O, no clock, no randomness, no goroutine.
package planner
