package stages

import (
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/stages/check"
)

// CheckRun is how far a check is, in one place: before or after a stage or a group, for a stage that goes on, or for a cluster.
type CheckRun struct {
	Name string `json:"name"`
	// Phase is Running until enough was measured, or too much of it was bad. A Failed check, one that is an Error, and one
	// that is Inconclusive have ended; one that is Successful is measured again when something else held the run meanwhile. A check
	// of a stage that goes on is never Successful.
	Phase check.Phase `json:"phase"`
	// Number counts the measurements; each has been one of the others.
	Number       int `json:"n,omitempty"`
	Successful   int `json:"successful,omitempty"`
	Failed       int `json:"failed,omitempty"`
	Inconclusive int `json:"inconclusive,omitempty"`
	Errors       int `json:"errors,omitempty"`
	// ErrorsInARow are those since the last measurement that was none.
	ErrorsInARow int `json:"errorsInARow,omitempty"`
	// Last is what the last measurement came to, Value its number, Message what is wrong with it, and At when it was asked for.
	Last    check.Phase `json:"last,omitempty"`
	Value   string      `json:"value,omitempty"`
	Message string      `json:"message,omitempty"`
	At      Instant     `json:"at,omitempty"`
	// Next is when the next measurement is due; 0 where none is.
	Next Instant `json:"next,omitempty"`
	// Bad says why a check of a stage that goes on lets no cluster start: from a measurement that Failed, from the Error in a
	// row or the Inconclusive one that is one too many, until one is Successful.
	Bad string `json:"bad,omitempty"`
}

// ClusterCheckRun is how far the checks of a cluster are that is healthy.
type ClusterCheckRun struct {
	// Since is when the cluster was healthy, Until when its checks expire.
	Since  Instant    `json:"s"`
	Until  Instant    `json:"u"`
	Checks []CheckRun `json:"c"`
}

// HasEnded reports whether nothing more is measured.
func (r *CheckRun) HasEnded() bool {
	return r.Phase == check.Failed || r.Phase == check.Error || r.Phase == check.Inconclusive
}

// IsDue reports whether the next measurement is.
func (r *CheckRun) IsDue(now Instant) bool { return r.Next != 0 && r.Next <= now }

// BadChecks says which checks of a stage that goes on let no cluster start, "" where all do.
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

// UnsuccessfulChecks is what those that are not Successful came to.
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

// Says is what the last measurement came to, as a sentence without its point.
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

// Progress is how far the check is: what it measured last, or which object's verdict it waits for, and since when.
func (r *CheckRun) Progress(c *check.Check, now Instant) string {
	says := r.Says()
	if c.Object != "" && r.IsDue(now) {
		says = fmt.Sprintf("check %s waits for the verdict of its object %s since %s", r.Name, c.Object, r.Next.Time().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (%d of %d measurements successful, %d failed, %d inconclusive, %d errors)", says, min(r.Successful, c.Needed()), c.Needed(), r.Failed, r.Inconclusive, r.Errors)
}
