// Package trigger creates a run when there is a new revision to roll out, so that no person has to
// do it.
//
// A [Trigger] belongs to a placement and has the strategy of its runs. [Fire] determines the newest
// revision. By default it takes a snapshot of the current objects of the source, and creates a run
// if the snapshot is new. A trigger with a Revision of its own calls that function instead, as the
// profiles of package upgrade do. [Controller] fires triggers at intervals, and can run in any
// number of processes.
//
// # One run per revision
//
// The name of a run follows from its trigger and its revision, see [Trigger.RunName]. Firing twice,
// in one process or in two, after a crash or concurrently, returns the existing run. This includes
// runs that have ended in any way: a revision that failed, was rejected or was rolled back is not
// retried; the next run brings a new revision. If a run was deleted, or is no longer kept because
// of the placement's RunHistory, the trigger creates it again. To prevent that, disable the trigger
// before you delete the run.
//
// A trigger has one run at a time. Until that run has ended, also while it waits for an approval or
// is stopped, no new run is created. The next run brings the revision that is newest at that time.
// Two processes that see two different revisions at the same moment may each create a run; the
// placement's admission then decides their order.
//
// # Errors
//
// If the source, the store or Revision fails, or if the engine refuses the run, Fire returns the
// error and creates no run. Firing again is safe.
package trigger
