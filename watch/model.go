package watch

import (
	"maps"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// Model is the content of a frame: a stored run, and further information. It is a value.
type Model struct {
	// Status is the run with its plan.
	Status fleet.Status
	// Now is the displayed moment. Times of day are in its location.
	Now time.Time
	// End is the forecast end of the run, if people approve at once; zero if unknown.
	End time.Time
	// Rollback is the state of the rollback of the run.
	Rollback fleet.Rollback
	// Since maps clusters in flight to the start of their phase, by name; [Model.Observe] maintains
	// it. For a missing cluster the time of its start is shown.
	Since map[string]time.Time
	// Hint returns how a person can end a reason for waiting, "" if none can; nil gives no hints.
	Hint func(stages.Awaited) string
	// Shown returns the displayed form of the placement's name and of the name of the run that is
	// rolled back; nil shows them unchanged.
	Shown func(name string) string
	// Footer are lines at the end, which are never left out: keys, a question, an error.
	Footer []string
}

func (m *Model) shown(name string) string {
	if m.Shown == nil {
		return name
	}
	return m.Shown(name)
}

// Observe returns the model after events of the run, with updated Since.
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

// since returns when a cluster in flight entered its phase. For a soak it follows from the end
// alone.
func (m *Model) since(f *runstate.InFlight) time.Time {
	p := m.Status.Plan
	if d := p.Strategy.MinHealthy.Duration; f.Phase == stages.Soaking && d > 0 {
		return f.SoakEnds.Time().Add(-d)
	}
	if at, known := m.Since[p.Clusters[f.Pos].Name]; known {
		return at
	}
	return f.Started.Time()
}
