// Package runstate has what a run is made of: its state, what a step of it takes and returns, and
// what the state says.
//
// A [Run] is small, plain data: its JSON is whole and comes back equal, with a format number,
// and [Check] says whether it is one that stages.NewRun and stages.Step can have made of a plan.
// Nothing else has to be known to keep one. [Derive] and [States] say what the stages and the
// clusters of a run have come to, in people's words.
//
// [Input] is what is new since the last step, and [Ready] what the step returns: the run to be
// saved, the [Event] values that happened, and the [Action] values to be done then.
//
// Everything here is a function of its arguments: no I/O, no clock, no randomness, no goroutine.
// A value may be read by several goroutines at a time, and changed by one. An [Instant] is in
// milliseconds since the Unix epoch.
package runstate
