// Package simulate answers what would happen: it carries a run out in virtual
// time, without clusters, and says when it will end.
//
// A [Environment] is everything outside of a run that decides how it goes: how long clusters need, what goes wrong
// with them and when, which ones leave, what operators ask. [Run] calls the real [step.Step] in it, and
// jumps from one moment at which something happens to the next. Nothing is estimated: given how long clusters
// need, a simulation and the engine come to the same events.
//
// For that it does what package fleet does with a cluster. A call of Update is made when an attempt begins, a
// cluster that cannot be reached before anything was sent to it yields, one that cannot be reached later is
// tried again after 200 ms, twice that and so on up to 5 s, and one that was updated is observed whenever it
// may have changed, for the first time a second later where it was healthy. [Attempt] is what such calls come
// to: a model of a cluster, which a test of an engine can put behind an Updater.
//
// Everything here is a function of its arguments: no I/O, no clock, no
// randomness, no goroutine. A simulation costs a step for each moment at which
// something happens; a step costs what is in flight then.
//
// A run that is rolled back is followed by the one that does so, of the plan that
// [planner.RollBack] makes: an engine plans it at the same moment.
//
// # Moments
//
// Times are offsets from the start of the run. What happens at one moment
// happens in the order of a step: commands, clusters that leave, what clusters
// prove, then what time alone changes. There are two exceptions, so that a
// scenario with round numbers does what it says: a decision comes last, so that
// it finds the request that opens at its moment, together with the commands
// behind it; and of the commands at 0 those that skip something come before the
// start of the run, the others after it.
//
// Neighbours: package stages has the run, package calendar its windows; formats/scenario
// reads an environment from a file; package fleet carries the same plan out for real.
package simulate
