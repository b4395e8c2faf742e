// Package runner drives the stored runs. It takes the leases of runs without an engine, steps each
// run (package stages), saves the result, and only then starts the workers that update clusters and
// asks authorities. It also continues deletions and rollbacks of placements, and reconciles drift
// between runs.
//
// One goroutine drives a run. Everything from outside of the run reaches it through channels and
// enters its next step: observations, answers, commands, changes of the inventory.
package runner
