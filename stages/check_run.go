package stages

import (
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/stages/check"
)

// CheckRun is the state of a check in one place: before or after a stage or a group, during a
// stage, or for a cluster.
type CheckRun struct {
	Name string `json:"name"`
	// Phase is Running until there are enough measurements, or too many bad ones. A Failed,
	// Error or Inconclusive check has ended. A Successful check is measured again if something else
	// has delayed the run since. A check during a stage never becomes Successful.
	Phase check.Phase `json:"phase"`
	// Number counts the measurements; each is also counted in one of the four fields below.
	Number       int `json:"n,omitempty"`
	Successful   int `json:"successful,omitempty"`
	Failed       int `json:"failed,omitempty"`
	Inconclusive int `json:"inconclusive,omitempty"`
	Errors       int `json:"errors,omitempty"`
	// ErrorsInARow counts the errors since the last measurement without one.
	ErrorsInARow int `json:"errorsInARow,omitempty"`
	// Last is the result of the last measurement, Value its number, Message its problem,
	// and At the time of its request.
	Last    check.Phase `json:"last,omitempty"`
	Value   string      `json:"value,omitempty"`
	Message string      `json:"message,omitempty"`
	At      Instant     `json:"at,omitempty"`
	// Next is when the next measurement is due; 0 if none is.
	Next Instant `json:"next,omitempty"`
	// Bad is the reason why a check during a stage lets no cluster start. A measurement sets it if it
	// is Failed, or if with it there are more Inconclusive measurements, or more Errors in a row, than
	// the check allows. The next Successful measurement clears it.
	Bad string `json:"bad,omitempty"`
}

// HasEnded reports whether nothing more is measured.
func (r *CheckRun) HasEnded() bool {
	return r.Phase == check.Failed || r.Phase == check.Error || r.Phase == check.Inconclusive
}

// IsDue reports whether the next measurement is due.
func (r *CheckRun) IsDue(now Instant) bool { return r.Next != 0 && r.Next <= now }

// BadChecks returns the reasons why checks during a stage let no cluster start, or an empty string
// if there is none.
func BadChecks(runs []CheckRun) (why string) {
	for i := range runs {
		if r := &runs[i]; r.Bad != "" {
			if why != "" {
				why += "; "
			}
			why += r.Bad
		}
	}
	return why
}

// UnsuccessfulChecks describes the last results of the checks that are not Successful.
func UnsuccessfulChecks(runs []CheckRun) (out string) {
	for i := range runs {
		if r := &runs[i]; r.Phase != check.Successful || r.Last != check.Successful {
			if out != "" {
				out += "; "
			}
			out += r.Says()
		}
	}
	return out
}

// Says describes the last measurement, as a sentence without its full stop.
func (r *CheckRun) Says() string {
	switch {
	case r.Last == "":
		return "check " + r.Name + " was not measured yet"
	case r.Message != "":
		return fmt.Sprintf("check %s is %s: %s", r.Name, r.Last, r.Message)
	default:
		return fmt.Sprintf("check %s is %s: %s", r.Name, r.Last, r.Value)
	}
}

// Progress describes the state of the check: its last measurement, or the object whose verdict
// it awaits and since when, and the counts.
func (r *CheckRun) Progress(c *check.Check, now Instant) string {
	says := r.Says()
	if c.Object != "" && r.IsDue(now) {
		says = fmt.Sprintf("check %s waits for the verdict of its object %s since %s", r.Name, c.Object, r.Next.Time().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (%d of %d measurements successful, %d failed, %d inconclusive, %d errors)", says, min(r.Successful, c.Needed()), c.Needed(), r.Failed, r.Inconclusive, r.Errors)
}
