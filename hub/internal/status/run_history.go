package status

import (
	"cmp"
	"time"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/stages"
)

// stuckAfter is the time that a cluster may be in flight before its run counts as stuck, as
// in KubeFleet.
const stuckAfter = 5 * time.Minute

// RunHistory has the times of events that the run itself does not keep. It depends on the run's
// events alone, so that a hub that starts builds the same history from the journal. Its zero value
// has seen no event.
//
// If events were missed, the status uses a time that the run keeps instead: a condition always has
// a time.
type RunHistory struct {
	queued, resumed, stopping, stopped stages.Instant
	// freed is when a cluster ended that had been in flight too long.
	freed stages.Instant
	// clusters are by position; nil before the first event of a cluster.
	clusters []clusterTimes
	// skipped is when a whole group was skipped, by its stage and name.
	skipped map[[2]string]stages.Instant
}

// clusterTimes holds when the first attempt of a cluster started, when its last event was and when
// it ended, and the checks of its last attempt.
type clusterTimes struct {
	started, changed, ended stages.Instant
	checks                  []v1beta1.ClusterCheckStatus
}

// Fold adds the next event of the run of p. Adding an event again is harmless: it can only set a
// time again that a later event had replaced.
func (h *RunHistory) Fold(p *stages.Plan, e *stages.Event) {
	at := stages.At(e.Time)
	switch e.Type {
	case stages.RunQueued:
		h.queued = at
	case stages.RunStopping:
		h.stopping = at
	case stages.RunStopped:
		h.stopped = at
	case stages.RunResumed:
		h.resumed = at
	case stages.ClusterSkipped:
		if e.Cluster == "" {
			h.skipGroup(e.Stage, e.Group, at)
			return
		}
	default:
	}
	if e.Cluster != "" {
		h.foldCluster(p, e, at)
	}
}

func (h *RunHistory) skipGroup(stage, group string, at stages.Instant) {
	if h.skipped == nil {
		h.skipped = map[[2]string]stages.Instant{}
	}
	h.skipped[[2]string{stage, group}] = at
}

func (h *RunHistory) foldCluster(p *stages.Plan, e *stages.Event, at stages.Instant) {
	pos, ok := p.Position(e.Cluster)
	if !ok {
		return
	}
	if h.clusters == nil {
		h.clusters = make([]clusterTimes, p.Len())
	}
	c := &h.clusters[pos]
	c.changed = at
	switch e.Type {
	case stages.ClusterStarted:
		c.started, c.checks = cmp.Or(c.started, at), nil
	case stages.CheckMeasured, stages.CheckEnded:
		c.foldCheck(e, at)
	case stages.ClusterCompleted, stages.ClusterRemoved, stages.ClusterFailed, stages.ClusterSkipped:
		c.ended = at
		if c.started != 0 && at >= c.started.Add(stuckAfter) {
			h.freed = at
		}
	default:
	}
}

// of returns the times of the cluster at pos, zero if none are known.
func (h *RunHistory) of(pos int) clusterTimes {
	if pos >= len(h.clusters) {
		return clusterTimes{}
	}
	return h.clusters[pos]
}
