// Package trigger creates a run when there is something new to roll out, so that
// no person has to.
//
// A [Trigger] belongs to a placement and has the strategy of its runs. [Fire] asks what
// there is: by default that is the snapshot of what the source holds now, and where
// that is a new one, a run of it is created. A trigger with a Revision of its own asks
// that instead, as the profiles of package upgrade do. [Controller] fires triggers at
// intervals, and can run in any number of processes.
//
// # Once
//
// The name of a run follows from its trigger and from what it brings, see
// [Trigger.RunName]: firing twice, in one process or in two, after a crash or beside
// another, returns the run that is there. A run that has ended stays the answer,
// however it ended: what failed, was rejected or was rolled back is not tried again
// until there is something new. A run that was deleted, or that the placement's
// RunHistory does not keep any more, is created again: disable the trigger first.
//
// A trigger has one run at a time. While one has not ended, which includes one that
// waits for an approval or was stopped, nothing new is created, and what is newest when
// it ends is what the next run brings. Two processes that see two different revisions at the same
// moment may each create a run; the placement's admission then lets one go after
// the other.
//
// # Errors
//
// An error of the source, of the store or of Revision is returned, and nothing is
// created; so is that of a run that the engine refuses. Firing again is safe.
package trigger
