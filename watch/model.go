package watch

import (
	"maps"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Model is what a frame shows: a run as it is stored, and what is known besides. It is a value.
type Model struct {
	// Status is the run with its plan.
	Status fleet.Status
	// Now is the moment that is shown. Times of day are in its location.
	Now time.Time
	// End is when the run is forecast to end, if people approve at once; zero if that is not known.
	End time.Time
	// Rollback is the state of the rollback of the run.
	Rollback fleet.Rollback
	// Since has since when clusters in flight are in their phase, by name, as [Model.Observe] keeps it. A cluster
	// that is not in it is shown since it started.
	Since map[string]time.Time
	// Hint says how a person ends what the run waits for, "" where none does; nil says nothing.
	Hint func(stages.Awaited) string
	// Footer are lines at the end, which are never left out: what keys do, a question, an error.
	Footer []string
}

// Observe returns the model after events of the run, which brings Since up to date.
func (m Model) Observe(events []stages.Event) Model {
	if len(events) == 0 {
		return m
	}
	since := maps.Clone(m.Since)
	if since == nil {
		since = map[string]time.Time{}
	}
	for i := range events {
		switch e := &events[i]; e.Type {
		case stages.ClusterStarted, stages.ClusterApplied, stages.ClusterUnhealthy, stages.ClusterRetrying:
			since[e.Cluster] = e.Time
		case stages.ClusterCompleted, stages.ClusterFailed, stages.ClusterSkipped, stages.ClusterRemoved, stages.ClusterPending:
			delete(since, e.Cluster)
		}
	}
	m.Since = since
	return m
}

// since is when a cluster in flight came to its phase. A soak is known from its end alone.
func (m *Model) since(f *stages.InFlight) time.Time {
	p := m.Status.Plan
	if d := p.Strategy.MinHealthy; f.Phase == stages.Soaking && d > 0 && f.Until != 0 {
		return f.Until.Time().Add(-d)
	}
	if at, known := m.Since[p.Clusters[f.Pos].Name]; known {
		return at
	}
	return f.Started.Time()
}
