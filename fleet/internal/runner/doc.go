// Package runner drives the stored runs. It takes the leases of runs without an engine, steps each
// run (package stages), saves the result, and only then starts the workers that update clusters and
// asks authorities. It also continues deletions and rollbacks of placements, and reconciles drift
// between runs.
//
// One goroutine drives a run. Everything from outside of the run reaches it through channels and
// enters its next step: observations, answers, commands, changes of the inventory.
//
// A driver consists of parts that do not know one another. Its lease says when the record must be
// saved again, its input what the next step has to know, and its recorder saves the record and
// finds out about saves with an unknown outcome. It asks a queuer for its turn and a capShare for
// slots. Its windows and its inventory follow the host. Its workers, inquiries and measures carry
// out the actions of a step.
package runner
