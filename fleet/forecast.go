package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
)

// Assumptions are inputs that a [Forecast] cannot know.
type Assumptions struct {
	// Start is when the run starts; zero means now. It is ignored for an existing run, which
	// continues now.
	Start time.Time `json:"start,omitzero"`
	// Take is the duration assumed for a cluster if neither the run nor an earlier run of the
	// placement has updated a cluster; default 1 min.
	Take metav1.Duration `json:"take,omitzero"`
	// Approve is the assumed time from the opening of a request to its approval by people; 0 means
	// that they approve at once, and a negative value that they never do. A request that has been
	// open for longer is approved at once.
	Approve metav1.Duration `json:"approve,omitzero"`
	// Until is the maximum duration that the forecast covers; default 365 days.
	Until metav1.Duration `json:"until,omitzero"`
}

// Forecast is the expected course of a run if nothing fails.
type Forecast struct {
	// Plan is the plan that [Engine.Preview] returns, or the plan of the run. It is shared: the
	// caller must not change it.
	Plan *stages.Plan `json:"plan"`
	// Now is the moment at which the forecast begins: the start of a run that does not exist yet,
	// and for an existing run the time of the forecast. The offsets in Events and End count from
	// it; earlier events have negative offsets.
	Now time.Time `json:"now,omitzero"`
	// Events are the expected events from Now on, End the expected end.
	Events []simulate.Event `json:"events"`
	End    simulate.End     `json:"end"`
	// Ends is when the run ends, or when it ended. If the run does not end, it is zero and Why is
	// the reason, such as "waits for a decision on request web-canary", "waits for run web-2", or
	// that it goes on for longer than Assumptions.Until.
	Ends time.Time `json:"ends,omitzero"`
	Why  string    `json:"why,omitempty"`
	// Assumes is an event that the forecast presumes to happen now, such as "it is started now" for
	// a stopped or held run; empty for a run that continues by itself.
	Assumes string `json:"assumes,omitempty"`
	// Stages are the stages of the plan, in its order.
	Stages []StageForecast `json:"stages"`
	// Known is the number of clusters with a recorded duration, from this run or an earlier one.
	// Typical is the duration assumed for the other clusters: the median of the clusters that this
	// run has completed, or else of the clusters that earlier runs did, or Assumptions.Take if
	// there are none.
	Known   int             `json:"known"`
	Typical metav1.Duration `json:"typical"`
}

// StageForecast is when a stage is expected to begin and to end.
type StageForecast struct {
	Name string `json:"name"`
	// State is the state of the stage at the end of the forecast.
	State stages.State `json:"state"`
	// Starts is when its first cluster may start, Ends when the stage and its gates are done; zero
	// if this does not happen. Times before Forecast.Now are real.
	Starts time.Time `json:"starts,omitzero"`
	Ends   time.Time `json:"ends,omitzero"`
}

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

func (e *Engine) forecastOf(ctx context.Context, p *stages.Plan, starter approval.Identity, a Assumptions) (Forecast, error) {
	if a.Start.IsZero() {
		a.Start = e.state.Now()
	}
	var t timings
	if err := t.readEarlier(ctx, e, p, ""); err != nil {
		return Forecast{}, err
	}
	w, err := e.environmentOf(ctx, p, &t, a, "")
	if err != nil {
		return Forecast{}, err
	}
	w.Starter = starter
	f := Forecast{Plan: p, Now: w.Start, Known: t.known(), Typical: metav1.Duration{Duration: w.Default.Take}}
	f.End, err = simulate.Run(p, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// Forecast forecasts the end of the run, and the events until then. It simulates the run in
// virtual time from its current state: clusters in flight with the time they have used so far,
// open gates, and clusters that wait for a window or a retry, with the current windows and cap.
// Durations follow the clusters that the run has completed. A cluster that an earlier run updated
// takes its earlier duration, scaled by the pace of this run. Any other cluster takes the median
// of this run. A cluster that has exceeded its duration takes the median of the clusters that took
// even longer; if there are none, it is assumed to finish now. It writes nothing and asks no
// cluster.
//
// A run that has not begun or is stopped is assumed to start now, without waiting for the run
// before it; Forecast.Assumes says so. The forecast of an ended run is its real end. A rollback is
// another run with its own forecast. The run is assumed to have the slots of its cap that other
// runs do not hold now, and at least its own.
//
// The first forecast of a run reads its whole journal. The engine remembers the journals of the
// runs that it forecast last, so a display may call Forecast every second: it reads one record if
// nothing is new, and otherwise the new part of the journal. While only cluster events occur, it
// returns a forecast again for twenty times the duration of its computation, so that polling takes
// at most a twentieth of one processor; Forecast.Now is the time of the forecast. The result is
// shared: the caller must not change it.
func (h RunHandle) Forecast(ctx context.Context, a Assumptions) (Forecast, error) {
	r := h.e.forecasts.GetOrAdd(forecastKey{h.name, a}, func() *forecaster { return &forecaster{e: h.e, run: h.name, a: a} })
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.forecast(ctx)
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of run %s: %w", h.name, err)
	}
	return f, nil
}

// forecastsKept is the maximum number of forecasters that an engine keeps: one for each run that
// is watched at the same time.
const forecastsKept = 16

// forecastKey identifies a forecaster.
type forecastKey struct {
	run string
	a   Assumptions
}

// forecaster forecasts one run repeatedly. It keeps the parts of the run's journal and of earlier
// runs that it has read, and its last forecast.
type forecaster struct {
	e   *Engine
	run string
	a   Assumptions

	// mu protects the fields below.
	mu sync.Mutex
	// uid is the UID of the run whose events up to next are in timings.
	uid     string
	next    int64
	timings timings
	// last is the latest forecast, which is valid until good as long as only cluster events occur.
	last Forecast
	good time.Time
}

// forecastShare is the validity of a forecast, as a multiple of its computation time.
const forecastShare = 20

func (r *forecaster) forecast(ctx context.Context) (Forecast, error) {
	h, err := r.e.Run(r.run).History(ctx, r.next)
	if err != nil || h.UID != r.uid {
		if h, err = r.e.Run(r.run).History(ctx, 0); err != nil {
			return Forecast{}, err
		}
		r.uid, r.next, r.timings, r.good = "", 0, timings{}, time.Time{}
		if err := r.timings.readEarlier(ctx, r.e, h.Status.Plan, h.UID); err != nil {
			return Forecast{}, err
		}
		r.uid = h.UID
	}
	r.next = h.Next
	r.timings.add(h.Events, h.Status.Plan)
	began := time.Now()
	if began.Before(r.good) && !slices.ContainsFunc(h.Events, func(ev stages.Event) bool { return ev.Cluster == "" }) {
		return r.last, nil
	}
	if r.last, err = r.simulate(ctx, &h.Status); err != nil {
		r.good = time.Time{}
		return Forecast{}, err
	}
	done := time.Now()
	r.good = done.Add(forecastShare * done.Sub(began))
	return r.last, nil
}

// simulate continues the run in virtual time from now.
func (r *forecaster) simulate(ctx context.Context, status *Status) (Forecast, error) {
	a := r.a
	a.Start = r.e.state.Now()
	w, err := r.e.environmentOf(ctx, status.Plan, &r.timings, a, r.uid)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Plan: status.Plan, Now: w.Start, Known: r.timings.known(), Typical: metav1.Duration{Duration: w.Default.Take}}
	f.Assumes = assumeStart(&status.Run, &w)
	r.timings.inFlight(status.Plan, &status.Run, &w)
	f.End, err = simulate.Resume(status.Plan, status.Run, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// assumeStart adds a start command for a run that does not continue by itself, and returns that as
// an assumption.
func assumeStart(r *step.Run, w *simulate.Environment) string {
	held := r.State == stages.NotStarted && r.Hold
	stopped := r.State == stages.Stopped || r.State == stages.Stopping && r.Ending == stages.Stopped
	switch {
	case held || stopped:
		w.Orders = append(w.Orders, simulate.Order{Command: stages.Command{Verb: stages.Start, By: r.Starter}})
		return "it is started now"
	case r.State == stages.Pending && r.Hold:
		w.Orders = append(w.Orders, simulate.Order{Command: stages.Command{Verb: stages.Start, By: r.Starter}})
		return "its turn comes and it is started now"
	case r.State == stages.Pending:
		return "its turn comes now"
	case r.State == stages.NotStarted:
		return "an engine takes it now"
	default:
		return ""
	}
}

// event returns a function that records the events of a simulation.
func (f *Forecast) event(ctx context.Context) func(simulate.Event) error {
	return func(ev simulate.Event) error {
		f.Events = append(f.Events, ev)
		return ctx.Err()
	}
}

// conclude derives the remaining fields from the end of the simulation.
func (f *Forecast) conclude(w *simulate.Environment) {
	for i := range f.End.Stages {
		st, run := &f.End.Stages[i], &f.End.Run.Form(runstate.Key{}).Stages[i]
		f.Stages = append(f.Stages, StageForecast{Name: st.Name, State: st.State, Starts: run.Started.Time(), Ends: run.Ended.Time()})
	}
	switch f.End.Reason {
	case simulate.Ended:
		f.Ends = f.End.Run.Ended.Time()
	case simulate.Cut:
		f.Why = "goes on for longer than " + cmp.Or(w.Until, simulate.DefaultUntil).String()
	default:
		f.Why = waitsFor(f.End.Waiting)
	}
}

// waitsFor describes in words why a run waits forever.
func waitsFor(waiting []stages.Awaited) string {
	words := map[stages.Await]string{
		stages.AwaitDecision: "waits for a decision on request %s", stages.AwaitStart: "waits for a start of run %s",
		stages.AwaitRun: "waits for run %s", stages.AwaitCap: "waits for cap %s", stages.AwaitCheck: "waits for check %s", stages.AwaitWindow: "waits for a window of %s that never opens",
	}
	for _, w := range waiting {
		if as, ok := words[w.Kind]; ok {
			return fmt.Sprintf(as, w.Name)
		}
	}
	return "waits for something that does not come"
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

// slotsOf returns how many clusters of a cap a run may have in flight: the whole cap if the run
// does not exist yet.
func slotsOf(c stages.Cap, uid string) int {
	if uid == "" {
		return c.Limit
	}
	own, _ := c.Share(uid)
	return max(own.Holds, c.Limit-(c.Held()-own.Holds))
}

// calendarOf requests the windows of a plan.
func calendarOf(ctx context.Context, st *state.State, p *stages.Plan) (stages.Calendar, error) {
	rules, err := st.RulesOf(ctx, p, "plan "+p.Digest)
	if err != nil {
		return nil, err
	}
	return rules.For(p)
}

// approvals returns a function that answers each request once, a.Approve after it opened. A request
// that expires before that is not answered, and a request whose policy refuses the approval stays
// open.
func approvals(a Assumptions) func(approval.Request, time.Duration) []simulate.Order {
	if a.Approve.Duration < 0 {
		return nil
	}
	until, answered := cmp.Or(a.Until.Duration, simulate.DefaultUntil), map[string]bool{}
	return func(req approval.Request, opened time.Duration) (out []simulate.Order) {
		at := max(0, opened+a.Approve.Duration)
		expires := req.Policy.Expires.Duration
		if answered[req.Name] || at > until || expires > 0 && at >= opened+expires {
			answered[req.Name] = true
			return nil
		}
		answered[req.Name] = true
		for i, by := range approvers(&req) {
			d := approval.Decision{Verdict: approval.Approve, By: by, Binding: approval.Binding{Stage: req.Stage, Group: req.Group, When: req.When}}
			out = append(out, simulate.Order{
				At:      min(at+time.Duration(i)*time.Millisecond, until),
				Command: stages.Command{Verb: stages.Decide, By: by, Decision: &d},
			})
		}
		return out
	}
}

// approvers returns identities whose approvals satisfy the policy of a request.
func approvers(req *approval.Request) (out []approval.Identity) {
	for _, q := range approval.Missing(*req) {
		for range q.Count {
			by := approval.Identity{Name: fmt.Sprintf("approver-%d", len(out)+1)}
			if q.Group != "" {
				by.Groups = []string{q.Group}
			}
			out = append(out, by)
		}
	}
	return out
}
