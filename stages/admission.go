package stages

import "fmt"

// Admission is the policy for a run that is started while another run of its placement is
// active. A run with an older index than the active run is a rollback and always supersedes the
// active run.
type Admission string

// The admission policies.
const (
	// QueueRun queues the run behind the runs that already wait. It is the default.
	QueueRun Admission = "Queue"
	// RejectRun refuses the run with a [RejectedError].
	RejectRun Admission = "Reject"
	// SupersedeActive ends the active run, after the clusters in flight have ended, and the waiting
	// runs. The new run replaces them; only evictions are not replaced.
	SupersedeActive Admission = "Supersede"
)

// RejectedError reports that [RejectRun] refused a run.
type RejectedError struct {
	// Run is the name of the refused run. Active is the name of the run that has the
	// placement or, if no run has it, of the next run in the queue.
	Run, Active string
}

// Error names both runs, and the policies that would accept the run.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("run %s is rejected: run %s has the placement; start it when that has ended, or ask for %s or %s",
		e.Run, e.Active, QueueRun, SupersedeActive)
}
