package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// checkStatus is how far a check is: what it came to, what it measured last, and how often it measured what.
type checkStatus struct {
	Name         string       `json:"name"`
	Phase        check.Phase  `json:"phase"`
	Value        string       `json:"value,omitempty"`
	Last         check.Phase  `json:"lastMeasurement,omitempty"`
	Message      string       `json:"message,omitempty"`
	Measured     *metav1.Time `json:"lastMeasuredTime,omitempty"`
	Next         *metav1.Time `json:"nextMeasurementTime,omitempty"`
	Count        int          `json:"count"`
	Successful   int          `json:"successful"`
	Failed       int          `json:"failed"`
	Inconclusive int          `json:"inconclusive"`
	Errors       int          `json:"error"`
}

func checkStatuses(runs []stages.CheckRun) []checkStatus {
	var out []checkStatus
	for i := range runs {
		r := &runs[i]
		out = append(out, checkStatus{
			Name: r.Name, Phase: r.Phase, Value: r.Value, Last: r.Last, Message: r.Message, Measured: api.SecondsOrNil(r.At), Next: api.SecondsOrNil(r.Next),
			Count: r.Number, Successful: r.Successful, Failed: r.Failed, Inconclusive: r.Inconclusive, Errors: r.Errors,
		})
	}
	return out
}

// clusterCheck is what a check of a cluster came to, and measured last.
type clusterCheck struct {
	Name     string       `json:"name"`
	Phase    check.Phase  `json:"phase"`
	Value    string       `json:"value,omitempty"`
	Last     check.Phase  `json:"lastMeasurement,omitempty"`
	Message  string       `json:"message,omitempty"`
	Measured *metav1.Time `json:"lastMeasuredTime,omitempty"`
}

// clusterChecks are those of a cluster that is measured now, or was: then events say what they came to.
func clusterChecks(flight *runstate.InFlight, seen clusterTimes) []clusterCheck {
	if flight == nil || flight.Checks == nil {
		return seen.checks
	}
	out := make([]clusterCheck, 0, len(flight.Checks.Checks))
	for i := range flight.Checks.Checks {
		r := &flight.Checks.Checks[i]
		out = append(out, clusterCheck{Name: r.Name, Phase: r.Phase, Value: r.Value, Last: r.Last, Message: r.Message, Measured: api.SecondsOrNil(r.At)})
	}
	return out
}

// foldCheck takes in an event of a check of a cluster.
func (c *clusterTimes) foldCheck(e *stages.Event, at stages.Instant) {
	now := clusterCheck{
		Name: e.Check, Phase: check.Running, Value: e.Value, Last: check.Phase(e.Result), Message: e.Message, Measured: api.SecondsOrNil(at),
	}
	if e.Type == stages.CheckEnded {
		now.Phase = check.Phase(e.Result)
	}
	if i := slices.IndexFunc(c.checks, func(k clusterCheck) bool { return k.Name == now.Name }); i >= 0 {
		c.checks[i] = now
	} else {
		c.checks = append(c.checks, now)
	}
}

// gateChecks are the checks on a side of a stage.
func gateChecks(run *runstate.StageRun, when approval.When) []checkStatus {
	for i := range run.Gates {
		if g := &run.Gates[i]; g.When == when && g.Type == stages.CheckTask {
			return checkStatuses(g.Checks)
		}
	}
	return nil
}

// holding says which checks of a stage let none of its clusters start, "" where all do.
func holding(run *runstate.StageRun) string {
	if why := stages.BadChecks(run.Checks); why != "" {
		return "; no cluster starts: " + why
	}
	return ""
}

// awaited are the tasks on a side of a stage that hold the run: which ones, and what the checks came to.
func awaited(run *runstate.StageRun, when approval.When, other string) string {
	var out []string
	for i := range run.Gates {
		switch g := &run.Gates[i]; {
		case g.When != when || g.State != stages.Pending:
		case g.Type == stages.CheckTask:
			out = append(out, strings.TrimSuffix("checks: "+stages.UnsuccessfulChecks(g.Checks), ": "))
		case len(out) == 0 || out[0] != other:
			out = append([]string{other}, out...)
		}
	}
	if len(out) == 0 {
		return other
	}
	return strings.Join(out, ", and for ")
}
