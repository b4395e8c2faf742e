package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// Forecast simulates the run: the order, the start of each cluster, the end of the run, and the
// causes of delay. It simulates the plan in virtual time with the engine's own rules and windows.
// Each cluster is assumed to take as long as in the latest run of the placement that updated it.
// The forecast assumes that the whole cap of the strategy is free. It writes nothing, asks no
// cluster, and does not wait for runs that are queued before this one.
func (p *Preview) Forecast(ctx context.Context, a Assumptions) (Forecast, error) {
	f, err := p.e.forecastOf(ctx, p.Plan, p.starter, a)
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of a run of placement %s: %w", p.Plan.Placement, err)
	}
	return f, nil
}

func (e *Engine) forecastOf(ctx context.Context, p *stages.Plan, starter approval.Identity, a Assumptions) (f Forecast, err error) {
	if a.Start.IsZero() {
		a.Start = e.state.Now()
	}
	var t timings
	if t.earlier, err = e.earlierTimings(ctx, p, ""); err != nil {
		return Forecast{}, err
	}
	w, err := e.environmentOf(ctx, p, &t, a, "")
	if err != nil {
		return Forecast{}, err
	}
	w.Starter = starter
	f = Forecast{Plan: p, Now: w.Start, Known: t.known(), Typical: metav1.Duration{Duration: w.Default.Take}}
	f.End, err = simulate.Run(p, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// Forecast forecasts the end of the run, and the events until then. It simulates the run in
// virtual time from its current state: clusters in flight with the time they have used so far,
// open gates, and clusters that wait for a window or a retry, with the current windows and cap.
// The durations are estimated from the clusters that the run has completed. A cluster that an
// earlier run updated takes its earlier duration, scaled by the pace of this run. Any other cluster
// takes the median of this run. If a cluster has already taken longer than that, its duration is
// the median of the clusters that took even longer; if there are none, it is assumed to finish now.
// It writes nothing and asks no cluster.
//
// A run that has not begun or is stopped is assumed to start now, without waiting for the run
// before it; Forecast.Assumes says so. The forecast of an ended run is its real end. A rollback is
// another run with its own forecast. The run is assumed to have the slots of its cap that other
// runs do not hold now, and at least its own.
//
// The first forecast of a run reads its whole journal. The engine remembers the journals of the
// runs that it forecast last, so a display may call Forecast every second: it reads one record if
// nothing is new, and otherwise the new part of the journal. While only cluster events occur, it
// returns the previous forecast for twenty times as long as its computation took, so that polling
// takes at most a twentieth of one processor; Forecast.Now is the time of the forecast. The result
// is shared: the caller must not change it.
func (h RunHandle) Forecast(ctx context.Context, a Assumptions) (Forecast, error) {
	m := h.e.forecasts.GetOrAdd(forecastKey{h.name, a}, func() *forecastMemory { return new(forecastMemory) })
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := h.forecast(ctx, m, a)
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of run %s: %w", h.name, err)
	}
	return f, nil
}

// forecast reads the new events of the run. It returns the last forecast if that is still valid,
// and otherwise a new one.
func (h RunHandle) forecast(ctx context.Context, m *forecastMemory, a Assumptions) (Forecast, error) {
	past, err := h.History(ctx, m.next)
	if err != nil || past.UID != m.uid {
		if past, err = h.History(ctx, 0); err != nil {
			return Forecast{}, err
		}
		m.uid, m.next, m.timings, m.good = "", 0, timings{}, time.Time{}
		if m.timings.earlier, err = h.e.earlierTimings(ctx, past.Status.Plan, past.UID); err != nil {
			return Forecast{}, err
		}
		m.uid = past.UID
	}
	began := time.Now()
	if m.add(past.Events, past.Status.Plan, past.Next, began) {
		return m.last, nil
	}
	f, err := h.resume(ctx, m, &past.Status, a)
	if err != nil {
		m.good = time.Time{}
		return Forecast{}, err
	}
	m.keep(f, began, time.Now())
	return f, nil
}

// resume continues the run in virtual time from now.
func (h RunHandle) resume(ctx context.Context, m *forecastMemory, status *Status, a Assumptions) (Forecast, error) {
	a.Start = h.e.state.Now()
	w, err := h.e.environmentOf(ctx, status.Plan, &m.timings, a, m.uid)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Plan: status.Plan, Now: w.Start, Known: m.timings.known(), Typical: metav1.Duration{Duration: w.Default.Take}}
	f.Assumes = assumeStart(&status.Run, &w)
	m.timings.inFlight(status.Plan, &status.Run, &w)
	f.End, err = simulate.Resume(status.Plan, status.Run, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// forecastRuns limits how many of the placement's latest runs a forecast reads.
const forecastRuns = 5

// earlierTimings reads the durations of a plan's clusters in the placement's runs, except for the
// run with that UID.
func (e *Engine) earlierTimings(ctx context.Context, p *stages.Plan, uid string) (map[string]time.Duration, error) {
	earlier := map[string]time.Duration{}
	rec, _, err := e.state.Placement(ctx, p.Placement)
	if err != nil {
		return nil, err
	}
	read := 0
	for _, r := range slices.Backward(rec.Runs) {
		if read == forecastRuns || len(earlier) == len(p.Clusters) {
			break
		}
		if r.UID == uid {
			continue
		}
		h, err := e.Run(r.Name).History(ctx, 0)
		if state.IsNotFound(err) || err == nil && (h.Status.Run.UID != r.UID || h.UID != r.UID) {
			continue // it was deleted in between
		}
		if err != nil {
			return nil, err
		}
		var of timings
		of.add(h.Events, h.Status.Plan)
		for name, d := range of.own {
			_, known := earlier[name]
			if _, wanted := p.Position(name); wanted && !known {
				earlier[name] = d
			}
		}
		read++
	}
	return earlier, nil
}

// environmentOf returns the environment of a run from a.Start on. uid is the UID of an existing
// run, or "".
func (e *Engine) environmentOf(ctx context.Context, p *stages.Plan, t *timings, a Assumptions, uid string) (w simulate.Environment, err error) {
	w = simulate.Environment{Start: stages.At(a.Start).Time(), Until: a.Until.Duration, Answer: approvals(a)}
	w.Default.Take, w.Members = t.expect(cmp.Or(a.Take.Duration, time.Minute))
	if name := p.Strategy.Cap; name != "" {
		c, _, err := e.caps.Get(ctx, name)
		if err != nil {
			return w, err
		}
		if w.Slots = slotsOf(c, uid); w.Slots == 0 {
			w.Slots = -1
		}
	}
	if e.cfg.Windows != nil {
		w.Calendar, err = calendarOf(ctx, e.state, p)
	}
	return w, err
}

// calendarOf requests the windows of a plan.
func calendarOf(ctx context.Context, st *state.State, p *stages.Plan) (stages.Calendar, error) {
	rules, err := st.World.Rules(ctx, p, "plan "+p.Digest)
	if err != nil {
		return nil, err
	}
	return rules.For(p)
}
