package stages

import "fmt"

// Admission is the policy for a run that is started while another one of its placement is active. A run with
// an older index than the active one is a rollback and always supersedes.
type Admission string

// The admission policies.
const (
	// QueueRun lets the run wait for its turn, behind those that wait already.
	// It is the default.
	QueueRun Admission = "Queue"
	// RejectRun refuses the run with a [RejectedError].
	RejectRun Admission = "Reject"
	// SupersedeActive drains the active run and takes its place, and that of
	// the runs that wait, except of those that evict.
	SupersedeActive Admission = "Supersede"
)

// RejectedError is how [RejectRun] refuses a run.
type RejectedError struct {
	// Run is the name of the run that was refused, Active that of the run
	// which has the placement or, where none has, is the next to.
	Run, Active string
}

// Error names both runs, and the policies that would take the run.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("run %s is rejected: run %s has the placement; start it when that has ended, or ask for %s or %s",
		e.Run, e.Active, QueueRun, SupersedeActive)
}
