// Package runner drives what is stored: it takes the leases of runs that no engine drives, steps each of them
// (package stages), saves, and only then has workers update clusters and authorities asked; and it continues
// what placements have under way beside their runs, and reconciles drift between runs.
//
// One goroutine drives a run. What happens to the run outside of it, observations, answers, commands, changes
// of the inventory, reaches it by channels, and is taken into the next step.
package runner
