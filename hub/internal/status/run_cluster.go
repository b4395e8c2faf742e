package status

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// cluster returns the status of a cluster of a stage. KubeFleet's conditions report the start and
// the result. Between them, and while the cluster waits for a retry, a third condition reports the
// problem, if there is one.
func (p *runBuilder) cluster(stage int, s listedCluster) v1beta1.ClusterUpdatingStatus {
	run := &p.Run.Form(runstate.Key{}).Stages[stage]
	times := p.History.of(s.pos)
	start := cmp.Or(times.started, run.Started)
	if s.flight != nil {
		start = cmp.Or(times.started, s.flight.Started)
	}
	c := v1beta1.ClusterUpdatingStatus{ClusterName: p.Plan.Clusters[s.pos].Name}
	if p.Plan.Rollback != nil {
		c.ResourceSnapshotIndex = indexText(ShownIndex(p.Snapshots, p.Plan.IndexAt(s.pos)))
	}
	c.ClusterResourceOverrideSnapshots, c.ResourceOverrideSnapshots = p.overriding.names(c.ClusterName, p.Plan.IndexAt(s.pos))
	c.CheckStatus = clusterChecks(s.flight, times)
	if s.begun(times) {
		c.Conditions = append(c.Conditions, p.isTrue(api.ConditionStarted, api.ReasonClusterStarted, "Cluster update started", start))
	}
	end := cmp.Or(times.ended, p.skippedAt(s.pos), run.Done, run.Ended, p.Run.Ended, start)
	switch s.state {
	case stages.Completed:
		c.Conditions = append(c.Conditions, p.isTrue(api.ConditionSucceeded, api.ReasonClusterSucceeded, "Cluster update completed successfully", end))
	case stages.Failed:
		c.Conditions = append(c.Conditions, p.isFalse(api.ConditionSucceeded, api.ReasonClusterFailed, s.ending(), end))
	case stages.Skipped:
		c.Conditions = append(c.Conditions, p.isFalse(api.ConditionSucceeded, api.ReasonClusterSkipped, s.ending(), end))
	default:
		if reason, message := s.trouble(); message != "" {
			c.Conditions = append(c.Conditions, p.isFalse(api.ConditionProgressing, reason, message, max(times.changed, start)))
		}
	}
	return c
}

// begun reports whether the cluster was attempted.
func (s listedCluster) begun(t clusterTimes) bool {
	switch s.state {
	case stages.NotStarted:
		return false
	case stages.Skipped:
		return t.started != 0
	default:
		return true
	}
}

// skippedAt returns when the whole group of a cluster was skipped, zero if it was not.
func (p *runBuilder) skippedAt(pos int) stages.Instant {
	stage, group := p.Plan.StageOf(pos)
	st := &p.Plan.Stages[stage]
	return p.History.skipped[[2]string{st.Name, st.Groups[group].Name}]
}

// ending returns the reason why the cluster did not complete.
func (s listedCluster) ending() string {
	if s.exception == nil || s.exception.Reason == "" {
		return "the reason is in the run's journal, in the event of the cluster"
	}
	if s.exception.Attempts > 1 {
		return fmt.Sprintf("attempt %d: %s", s.exception.Attempts, s.exception.Reason)
	}
	return s.exception.Reason
}

// trouble returns the problem of a cluster that has not ended, "" if none is known.
func (s listedCluster) trouble() (reason, message string) {
	switch {
	case s.waiting != nil:
		message = s.waiting.Message
		if at := s.waiting.NotYet; at != 0 {
			message += "; next try at " + at.Time().Format(time.RFC3339)
		}
		return api.ReasonClusterPending, message
	case s.flight == nil || s.flight.Message == "":
		return "", ""
	}
	message = fmt.Sprintf("attempt %d: %s", s.flight.Attempt, s.flight.Message)
	switch s.flight.Phase {
	case stages.BackingOff:
		return api.ReasonClusterRetrying, message + "; next attempt at " + s.flight.NotYet.Time().Format(time.RFC3339)
	case stages.Applying:
		return api.ReasonClusterApplying, message
	default:
		return api.ReasonClusterSettling, message
	}
}
