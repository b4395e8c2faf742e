// Package simulate predicts a run: it executes the run in virtual time, without clusters, and
// reports when the run will end.
//
// An [Environment] is everything outside of a run that affects it: the time that clusters need,
// their failures, the clusters that leave, and the commands of operators. [Run] calls the real
// [step.Step] in it, and jumps from one event to the next. So a simulation and the engine produce
// the same events if the environment has the real times of the clusters.
//
// To achieve this, the simulation treats a cluster as package fleet does. It calls Update when an
// attempt begins. A cluster that cannot be reached before anything was sent to it yields its
// slot. If a cluster cannot be reached later, the call is retried after 200 ms, then twice that
// and so on up to 5 s. It observes an updated cluster whenever the cluster may have changed; if the
// cluster was healthy after the update, the first observation is a second later. [Attempt] models
// the results of these calls; a test of an engine can use it to implement an Updater.
//
// Every function depends on its arguments only: no I/O, no clock, no randomness, no goroutine. A
// simulation takes a step for each moment with an event, and the cost of a step grows with the
// clusters in flight.
//
// If a run is rolled back, the simulation continues with the rollback run, by the plan that
// [step.RollBack] makes; an engine makes this plan at the same moment.
//
// # Moments
//
// Times are offsets from the start of the run. Inputs of one moment are processed in the order of
// a step: commands, clusters that leave, observations, then changes by time alone. Two exceptions
// make scenarios with round numbers work as written. Decisions and rollback requests come last,
// with the commands behind them, so that a decision finds a request that opens at its moment. Skip
// commands at 0 come before the start of the run, and all other commands at 0 after it.
//
// Related packages: stages defines the run, and calendar its windows; formats/scenario reads an
// environment from a file; fleet executes the same plan on real clusters.
package simulate
