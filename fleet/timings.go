package fleet

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
)

// timings are the durations of the clusters of a plan, without the time that they had to stay
// healthy.
type timings struct {
	// own has the durations of the clusters that the run itself has completed. earlier has, for
	// these and other clusters, the duration in the latest earlier run that updated them.
	own, earlier map[string]time.Duration
	// started has the start times of the run's clusters, began the start times of their current
	// attempts.
	started, began map[string]time.Time
}

// add adds events of the run itself, whose plan is p.
func (t *timings) add(events []stages.Event, p *stages.Plan) {
	if t.own == nil {
		t.own, t.started, t.began = map[string]time.Duration{}, map[string]time.Time{}, map[string]time.Time{}
	}
	for i := range events {
		switch ev := &events[i]; ev.Type {
		case stages.ClusterStarted:
			t.started[ev.Cluster], t.began[ev.Cluster] = ev.Time, ev.Time
		case stages.ClusterRetrying:
			t.began[ev.Cluster] = ev.Until
		case stages.ClusterPending:
			delete(t.began, ev.Cluster) // it begins when it is reached
		case stages.ClusterCompleted:
			if at := t.started[ev.Cluster]; !ev.Unchanged && !at.IsZero() {
				t.own[ev.Cluster] = max(0, ev.Time.Sub(at)-p.Strategy.MinHealthy.Duration)
			}
			delete(t.started, ev.Cluster)
			delete(t.began, ev.Cluster)
		case stages.ClusterFailed, stages.ClusterSkipped, stages.ClusterRemoved:
			delete(t.started, ev.Cluster)
			delete(t.began, ev.Cluster)
		default:
		}
	}
}

// known counts the clusters with a duration.
func (t *timings) known() int {
	n := len(t.own)
	for name := range t.earlier {
		if _, both := t.own[name]; !both {
			n++
		}
	}
	return n
}

// expect returns the expected duration of each cluster that an earlier run updated, and the typical
// duration for all others.
func (t *timings) expect(otherwise time.Duration) (typical time.Duration, members map[string]simulate.Member) {
	pace := t.pace()
	members = make(map[string]simulate.Member, len(t.earlier))
	for name, d := range t.earlier {
		members[name] = simulate.Member{Take: min(time.Duration(float64(d)*pace), simulate.DefaultUntil)}
	}
	switch {
	case len(t.own) > 0:
		typical = median(sorted(t.own))
	case len(t.earlier) > 0:
		typical = median(sorted(t.earlier))
	default:
		typical = otherwise
	}
	return min(typical, simulate.DefaultUntil), members
}

// pace returns how many times longer clusters take in this run than before: the median over the
// clusters with both durations, 1 if there are none.
func (t *timings) pace() float64 {
	var all []float64
	for name, d := range t.own {
		if before := t.earlier[name]; before > 0 {
			all = append(all, float64(d)/float64(before))
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// inFlight tells an environment when the current attempts of a run began. An attempt that has
// exceeded its expected duration gets the median of the completed durations that were longer still.
func (t *timings) inFlight(p *stages.Plan, r *step.Run, w *simulate.Environment) {
	w.Began = t.began
	var all []time.Duration
	for i := range r.Form(runstate.Key{}).InFlight {
		f := &r.Form(runstate.Key{}).InFlight[i]
		if f.Attempt == 0 || f.Phase != stages.Applying && f.Phase != stages.Settling {
			continue
		}
		name := p.Clusters[f.Pos].Name
		began, ok := t.began[name]
		if !ok {
			began = f.Started.Time()
		}
		m, ok := w.Members[name]
		if !ok {
			m = w.Default
		}
		used := w.Start.Sub(began)
		if used <= m.Take {
			continue
		}
		if all == nil {
			all = sorted(t.own)
		}
		if i, _ := slices.BinarySearch(all, used+1); i < len(all) {
			m.Take = median(all[i:])
			w.Members[name] = m
		}
	}
}

// sorted returns durations in ascending order.
func sorted(took map[string]time.Duration) []time.Duration {
	all := make([]time.Duration, 0, len(took))
	for _, d := range took {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

// median returns the middle element of sorted durations, which must not be empty.
func median(all []time.Duration) time.Duration { return all[len(all)/2] }
