package status

import (
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

func checkStatuses(runs []stages.CheckRun) []v1beta1.CheckStatus {
	var out []v1beta1.CheckStatus
	for i := range runs {
		r := &runs[i]
		out = append(out, v1beta1.CheckStatus{
			Name: r.Name, Phase: v1beta1.CheckPhase(r.Phase), Value: r.Value, LastMeasurement: v1beta1.CheckPhase(r.Last), Message: r.Message,
			LastMeasuredTime: api.SecondsOrNil(r.At), NextMeasurementTime: api.SecondsOrNil(r.Next),
			Count: int32(r.Number), Successful: int32(r.Successful), Failed: int32(r.Failed), Inconclusive: int32(r.Inconclusive), Error: int32(r.Errors),
		})
	}
	return out
}

// clusterChecks returns the checks of a cluster: of the current measurement, otherwise as the
// events of the cluster describe them.
func clusterChecks(flight *runstate.InFlight, seen clusterTimes) []v1beta1.ClusterCheckStatus {
	if flight == nil || flight.Checks == nil {
		return seen.checks
	}
	out := make([]v1beta1.ClusterCheckStatus, 0, len(flight.Checks.Checks))
	for i := range flight.Checks.Checks {
		r := &flight.Checks.Checks[i]
		out = append(out, v1beta1.ClusterCheckStatus{
			Name: r.Name, Phase: v1beta1.CheckPhase(r.Phase), Value: r.Value, LastMeasurement: v1beta1.CheckPhase(r.Last), Message: r.Message,
			LastMeasuredTime: api.SecondsOrNil(r.At),
		})
	}
	return out
}

// foldCheck adds an event about a check of the cluster.
func (c *clusterTimes) foldCheck(e *stages.Event, at stages.Instant) {
	now := v1beta1.ClusterCheckStatus{
		Name: e.Check, Phase: v1beta1.CheckRunning, Value: e.Value, LastMeasurement: v1beta1.CheckPhase(e.Result), Message: e.Message,
		LastMeasuredTime: api.SecondsOrNil(at),
	}
	if e.Type == stages.CheckEnded {
		now.Phase = v1beta1.CheckPhase(e.Result)
	}
	if i := slices.IndexFunc(c.checks, func(k v1beta1.ClusterCheckStatus) bool { return k.Name == now.Name }); i >= 0 {
		c.checks[i] = now
	} else {
		c.checks = append(c.checks, now)
	}
}

// gateChecks returns the checks before or after a stage.
func gateChecks(run *runstate.StageRun, when approval.When) []v1beta1.CheckStatus {
	for i := range run.Gates {
		if g := &run.Gates[i]; g.When == when && g.Type == stages.CheckTask {
			return checkStatuses(g.Checks)
		}
	}
	return nil
}

// holding returns the text about the checks that prevent clusters of a stage from starting, "" if
// none does.
func holding(run *runstate.StageRun) string {
	if why := stages.BadChecks(run.Checks); why != "" {
		return "; no cluster starts: " + why
	}
	return ""
}

// awaited returns the text for the pending tasks before or after a stage, with the unsuccessful
// checks. It uses other for tasks without checks.
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
