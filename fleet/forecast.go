package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// Assumptions are what a [Forecast] cannot know.
type Assumptions struct {
	// Start is when the run starts; zero means now. It is not used for a run that exists: that goes on now.
	Start time.Time `json:"start,omitzero"`
	// Take is how long a cluster needs where no cluster has been updated that says it, neither by the run itself
	// nor by an earlier one of the placement; default 1 min.
	Take time.Duration `json:"take,omitempty"`
	// Approve is how long people take to approve what they are asked, from the moment at which the request opens; 0
	// means that they approve at once, and a negative one that they never do. What has been open for longer is
	// approved at once.
	Approve time.Duration `json:"approve,omitempty"`
	// Until is how far ahead the forecast computes; default 365 days.
	Until time.Duration `json:"until,omitempty"`
}

// Forecast is how a run would go if nothing went wrong.
type Forecast struct {
	// Plan is the one that [Engine.Preview] returns, or that of the run. It is shared: it is not to be changed.
	Plan *stages.Plan `json:"plan"`
	// Now is the moment that the forecast begins with: the start of a run that does not exist, and for one that
	// does the time at which the forecast was made. The offsets in Events and End count from it; those of what
	// happened before are negative.
	Now time.Time `json:"now,omitzero"`
	// Events are what would happen from Now on, End what it would come to.
	Events []simulate.Event `json:"events"`
	End    simulate.End     `json:"end"`
	// Ends is when the run ends, or when it did. It is zero where it does not, and then Why is the reason, such as
	// "waits for a decision on request web-canary", "waits for run web-2", or that it goes on for longer than
	// Assumptions.Until.
	Ends time.Time `json:"ends,omitzero"`
	Why  string    `json:"why,omitempty"`
	// Assumes is what else has to happen now, such as "it is started now" for a run that is stopped or held; empty
	// for one that goes on by itself.
	Assumes string `json:"assumes,omitempty"`
	// Stages are those of the plan, in its order.
	Stages []StageForecast `json:"stages"`
	// Known counts the clusters of which this run or an earlier one says how long they take. Typical is what one
	// is taken to need of which nothing is known: the median of those that this run has completed, or else of
	// those that earlier ones did, or Assumptions.Take where there are none.
	Known   int           `json:"known"`
	Typical time.Duration `json:"typical"`
}

// StageForecast is when a stage is expected to begin and to end.
type StageForecast struct {
	Name string `json:"name"`
	// State is what the stage comes to by the end of the forecast.
	State stages.State `json:"state"`
	// Starts is when its first cluster may start, Ends when it is done with its gates; zero where that does not
	// happen. Those that are before Forecast.Now did happen.
	Starts time.Time `json:"starts,omitzero"`
	Ends   time.Time `json:"ends,omitzero"`
}

// Forecast says how the run that spec asks for would go: in which order, when
// each cluster's turn comes, when the run ends, and what would hold it up. It
// carries the plan out in virtual time, with the engine's own rules and windows,
// and takes each cluster to need what it needed in the latest run of the
// placement that updated it. Of the cap of its strategy it has all that there is, as
// if no other run shared it. Nothing is written, no cluster is asked, and runs
// that are before this one are not waited for.
func (e *Engine) Forecast(ctx context.Context, spec RunSpec, a Assumptions) (Forecast, error) {
	p, err := e.Preview(ctx, spec)
	if err != nil {
		return Forecast{}, err
	}
	f, err := e.forecastOf(ctx, p, spec.Starter, a)
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of a run of placement %s: %w", spec.Placement, err)
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
	f := Forecast{Plan: p, Now: w.Start, Known: t.known(), Typical: w.Default.Take}
	f.End, err = simulate.Run(p, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// ForecastRun says when a run that exists will end, and what is between now and then. It carries the run on in
// virtual time from what it has come to: clusters in flight with what they have used so far, open gates, clusters that
// wait for their windows or to be tried again, with windows and the cap as they are now. It takes what the run's
// other clusters needed so far as the measure: a cluster that an earlier run updated needs what it needed then, by as
// much more or less as this run's clusters did, and any other one as much as most of this run's did. A cluster that has
// taken longer than that by now is taken to need what those did that took longer still, or else to be done now.
// Nothing is written and no cluster is asked.
//
// A run that has not begun or is stopped is taken to start now, without waiting for the run before it: Forecast.Assumes
// says so. The forecast of one that has ended is its real end. Where what the run brought is rolled back, that is
// another run with its own forecast. Of a cap the run is taken to have what the others do not hold now, and at least
// what it holds itself.
//
// It reads the run's whole journal. A program that asks for the same run again and again keeps a [Forecaster].
func (e *Engine) ForecastRun(ctx context.Context, run string, a Assumptions) (Forecast, error) {
	return e.Forecaster(run, a).Forecast(ctx)
}

// Forecaster forecasts one run again and again, as for a display that is drawn every second. It keeps what it has read
// of the run's journal and of earlier runs, and its last forecast. It is for one goroutine at a time.
type Forecaster struct {
	e   *Engine
	run string
	a   Assumptions
	// uid is that of the run whose events up to next are in timings.
	uid     string
	next    int64
	timings timings
	// last is the latest forecast, which is good until then as long as only clusters go on.
	last Forecast
	good time.Time
}

// forecastShare is how many times as long as it took to compute a forecast may be used.
const forecastShare = 20

// Forecaster returns a forecaster of a run. Nothing is read yet.
func (e *Engine) Forecaster(run string, a Assumptions) *Forecaster {
	return &Forecaster{e: e, run: run, a: a}
}

// Forecast is [Engine.ForecastRun], at a bounded cost: where nothing is new it reads one record, and else what is new
// of the journal. While nothing but clusters goes on, a forecast that took a while to compute is returned again for
// twenty times as long, so that asking takes at most a twentieth of one processor; Forecast.Now says of when it is.
// What is returned is shared: it is not to be changed.
func (r *Forecaster) Forecast(ctx context.Context) (Forecast, error) {
	f, err := r.forecast(ctx)
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of run %s: %w", r.run, err)
	}
	return f, nil
}

func (r *Forecaster) forecast(ctx context.Context) (Forecast, error) {
	status, h, err := r.e.Progress(ctx, r.run, r.next)
	if err != nil || h.UID != r.uid {
		if status, h, err = r.e.Progress(ctx, r.run, 0); err != nil {
			return Forecast{}, err
		}
		r.uid, r.timings, r.good = h.UID, timings{}, time.Time{}
		if err := r.timings.readEarlier(ctx, r.e, status.Plan, h.UID); err != nil {
			return Forecast{}, err
		}
	}
	r.next = h.Next
	r.timings.add(h.Events, status.Plan)
	began := time.Now()
	if began.Before(r.good) && !slices.ContainsFunc(h.Events, func(ev stages.Event) bool { return ev.Cluster == "" }) {
		return r.last, nil
	}
	if r.last, err = r.simulate(ctx, &status); err != nil {
		return Forecast{}, err
	}
	done := time.Now()
	r.good = done.Add(forecastShare * done.Sub(began))
	return r.last, nil
}

// simulate carries the run on from now.
func (r *Forecaster) simulate(ctx context.Context, status *Status) (Forecast, error) {
	a := r.a
	a.Start = r.e.state.Now()
	w, err := r.e.environmentOf(ctx, status.Plan, &r.timings, a, r.uid)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Plan: status.Plan, Now: w.Start, Known: r.timings.known(), Typical: w.Default.Take}
	f.Assumes = assumeStart(&status.Run, &w)
	r.timings.inFlight(status.Plan, &status.Run, &w)
	f.End, err = simulate.Resume(status.Plan, status.Run, w, f.event(ctx))
	f.conclude(&w)
	return f, err
}

// assumeStart lets a run that does not go on by itself start at once, and returns that as an assumption.
func assumeStart(r *stages.Run, w *simulate.Environment) string {
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

// event returns a function that takes down what happens in a simulation.
func (f *Forecast) event(ctx context.Context) func(simulate.Event) error {
	return func(ev simulate.Event) error {
		f.Events = append(f.Events, ev)
		return ctx.Err()
	}
}

// conclude fills in what follows from the end.
func (f *Forecast) conclude(w *simulate.Environment) {
	for i := range f.End.Stages {
		st, run := &f.End.Stages[i], &f.End.Run.Stages[i]
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

// waitsFor says in words what a run waits for that waits for ever.
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

// environmentOf is what a run would meet from a.Start on. uid is that of a run which exists.
func (e *Engine) environmentOf(ctx context.Context, p *stages.Plan, t *timings, a Assumptions, uid string) (w simulate.Environment, err error) {
	w = simulate.Environment{Start: stages.At(a.Start).Time(), Until: a.Until, Answer: approvals(a)}
	w.Default.Take, w.Members = t.expect(cmp.Or(a.Take, time.Minute))
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

// slotsOf is how many clusters of a cap a run may have in flight: all of it for one that does not exist.
func slotsOf(c stages.Cap, uid string) int {
	if uid == "" {
		return c.Limit
	}
	own, _ := c.Share(uid)
	return max(own.Holds, c.Limit-(c.Held()-own.Holds))
}

// calendarOf asks for the windows of a plan.
func calendarOf(ctx context.Context, st *state.State, p *stages.Plan) (stages.Calendar, error) {
	rules, err := st.RulesOf(ctx, p, "plan "+p.Digest)
	if err != nil {
		return nil, err
	}
	return rules.For(p)
}

// approvals answers each request once, a while after it opened. One that expires before is not answered, and what the
// policy refuses stays open.
func approvals(a Assumptions) func(approval.Request, time.Duration) []simulate.Order {
	if a.Approve < 0 {
		return nil
	}
	until, answered := cmp.Or(a.Until, simulate.DefaultUntil), map[string]bool{}
	return func(req approval.Request, opened time.Duration) (out []simulate.Order) {
		at := max(0, opened+a.Approve)
		expires := req.Policy.Expires
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
