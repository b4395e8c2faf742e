package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages/moment"
)

// Run is how far a check is, in one place: before or after a stage or a group, for a stage that goes on, or for a cluster.
type Run struct {
	Name string `json:"name"`
	// Phase is Running until enough was measured, or too much of it was bad. A Failed check, one that is an Error, and one
	// that is Inconclusive have ended; one that is Successful is measured again when something else held the run meanwhile. A check
	// of a stage that goes on is never Successful.
	Phase Phase `json:"phase"`
	// Number counts the measurements; each has been one of the others.
	Number       int `json:"n,omitempty"`
	Successful   int `json:"successful,omitempty"`
	Failed       int `json:"failed,omitempty"`
	Inconclusive int `json:"inconclusive,omitempty"`
	Errors       int `json:"errors,omitempty"`
	// ErrorsInARow are those since the last measurement that was none.
	ErrorsInARow int `json:"errorsInARow,omitempty"`
	// Last is what the last measurement came to, Value its number, Message what is wrong with it, and At when it was asked for.
	Last    Phase          `json:"last,omitempty"`
	Value   string         `json:"value,omitempty"`
	Message string         `json:"message,omitempty"`
	At      moment.Instant `json:"at,omitempty"`
	// Next is when the next measurement is due; 0 where none is.
	Next moment.Instant `json:"next,omitempty"`
	// Bad says why a check of a stage that goes on lets no cluster start: from a measurement that Failed, from the Error in a
	// row or the Inconclusive one that is one too many, until one is Successful.
	Bad string `json:"bad,omitempty"`
}

// ClusterRun is how far the checks of a cluster are that is healthy.
type ClusterRun struct {
	// Since is when the cluster was healthy, Until when its checks expire.
	Since  moment.Instant `json:"s"`
	Until  moment.Instant `json:"u"`
	Checks []Run          `json:"c"`
}

// NewRuns returns the runs of checks that begin at a moment. The shortest window of a query is 1 s, so that is how long after the
// beginning the first measurement is made at the earliest: at once it could be of what was before.
func NewRuns(checks []Check, from moment.Instant) []Run {
	if len(checks) == 0 {
		return nil
	}
	out := make([]Run, len(checks))
	for i := range checks {
		out[i] = Run{Name: checks[i].Name, Phase: Running, Next: from.Add(max(checks[i].InitialDelay, shortestWindow))}
	}
	return out
}

// Expiry is when the first of checks that begin at a moment expires.
func Expiry(checks []Check, from moment.Instant) (first moment.Instant) {
	for i := range checks {
		if t := from.Add(checks[i].Lifetime()); first == 0 || t < first {
			first = t
		}
	}
	return first
}

// HasEnded reports whether nothing more is measured.
func (r *Run) HasEnded() bool {
	return r.Phase == Failed || r.Phase == Error || r.Phase == Inconclusive
}

// IsDue reports whether the next measurement is.
func (r *Run) IsDue(now moment.Instant) bool { return r.Next != 0 && r.Next <= now }

// Take takes in a measurement that was asked for at a moment. endless reports whether the check goes on for as long as its
// stage does: such a one does not end.
func (r *Run) Take(c *Check, m Measurement, at, now moment.Instant, endless bool) {
	r.Number++
	r.Last, r.Value, r.Message, r.At = m.Phase, m.Value, m.Message, at
	if m.Phase == Error {
		r.Errors++
		r.ErrorsInARow++
	} else {
		r.ErrorsInARow = 0
	}
	switch m.Phase {
	case Successful:
		r.Successful++
	case Failed:
		r.Failed++
	case Inconclusive:
		r.Inconclusive++
	default:
	}
	r.Next = now.Add(c.Every())
	if endless {
		r.judge(c)
		return
	}
	switch {
	case r.Failed > c.FailureLimit:
		r.Phase, r.Next = Failed, 0
	case r.ErrorsInARow > c.ErrorLimit():
		r.Phase, r.Next = Error, 0
	case r.Inconclusive > c.InconclusiveLimit:
		r.Phase, r.Next = Inconclusive, 0
	case r.Successful >= c.Needed():
		r.Phase = Successful
		if m.Phase == Successful {
			r.Next = 0
		}
	}
}

// judge decides whether a check of a stage that goes on lets clusters start.
func (r *Run) judge(c *Check) {
	switch {
	case r.Last == Successful:
		r.Bad = ""
	case r.Last == Failed, r.ErrorsInARow > c.ErrorLimit(), r.Last == Inconclusive && r.Inconclusive > c.InconclusiveLimit:
		r.Bad = r.Says()
	}
}

// Bad says which checks of a stage that goes on let no cluster start, "" where all do.
func Bad(runs []Run) (why string) {
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

// Says is what those that are not Successful came to.
func Says(runs []Run) (out string) {
	for i := range runs {
		if r := &runs[i]; r.Phase != Successful || r.Last != Successful {
			if out != "" {
				out += "; "
			}
			out += r.Says()
		}
	}
	return out
}

// AllSuccessful reports whether all are.
func AllSuccessful(runs []Run) bool {
	return !slices.ContainsFunc(runs, func(r Run) bool { return r.Phase != Successful })
}

// Failures is how often a check of a stage that goes on counts in the budget of the stage: so often it has Failed, and could
// not be measured, beyond what may be.
func (r *Run) Failures(c *Check) int {
	return max(0, r.Failed-c.FailureLimit) + max(0, r.ErrorsInARow-c.ErrorLimit())
}

// Says is what the last measurement came to, as a sentence without its point.
func (r *Run) Says() string {
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
func (r *Run) Progress(c *Check, now moment.Instant) string {
	says := r.Says()
	if c.Object != "" && r.IsDue(now) {
		says = fmt.Sprintf("check %s waits for the verdict of its object %s since %s", r.Name, c.Object, r.Next.Time().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (%d of %d measurements successful, %d failed, %d inconclusive, %d errors)", says, min(r.Successful, c.Needed()), c.Needed(), r.Failed, r.Inconclusive, r.Errors)
}

// Where says of what a measurement is: of a cluster in flight, of a gate, or of the stage that the run is in.
type Where struct {
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	// When is the side of a gate; empty for a stage that goes on, and for a cluster.
	When string `json:"when,omitempty"`
	// Cluster is the cluster that is measured, Attempt that of its update, or of its gate.
	Cluster string `json:"cluster,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Name is that of the check, Number the number of the measurement, from 1.
	Name   string `json:"name"`
	Number int    `json:"number"`
}

// Question is a measurement that is due. The driver resolves the query, with the labels that the cluster has now.
type Question struct {
	Where
	Check *Check
	// Window is for how long what is measured has been so: what is older does not count.
	Window time.Duration
}

// Measured is the answer to a [Question].
type Measured struct {
	Where
	// Query is what was asked, as it was resolved.
	Query string
	Answer
	// At is when the provider was asked; zero means now.
	At time.Time
}
