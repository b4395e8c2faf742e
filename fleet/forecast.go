package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// Assumptions are what a [Forecast] cannot know.
type Assumptions struct {
	// Start is when the run starts; zero means now.
	Start time.Time `json:"start,omitzero"`
	// Take is how long a cluster needs where no earlier run has updated it or any other cluster; default 1
	// min.
	Take time.Duration `json:"take,omitempty"`
	// Approve is how long people take to approve what they are asked; 0 means
	// that they approve at once, and a negative one that they never do.
	Approve time.Duration `json:"approve,omitempty"`
	// Until is how far ahead the forecast computes; default 365 days.
	Until time.Duration `json:"until,omitempty"`
}

// Forecast is how a run would go if nothing went wrong.
type Forecast struct {
	// Plan is the one that [Engine.Preview] returns.
	Plan *stages.Plan `json:"plan"`
	// Events are what would happen, End what it would come to.
	Events []simulate.Event `json:"events"`
	End    simulate.End     `json:"end"`
	// Known counts the clusters of which an earlier run says how long they take,
	// Typical is the median of those: what all others are taken to need, or
	// Assumptions.Take where there are none.
	Known   int           `json:"known"`
	Typical time.Duration `json:"typical"`
}

// The most that a forecast reads: so many runs of the placement, the latest.
const forecastRuns = 5

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
	var w simulate.Environment
	took, err := durations(ctx, e.state, e.Progress, p)
	if err == nil {
		w, err = environmentOf(ctx, e.state.Now, e.caps, p, took, a)
	}
	if err == nil && e.cfg.Windows != nil {
		w.Calendar, err = calendarOf(ctx, e.state, p)
	}
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast of a run of placement %s: %w", spec.Placement, err)
	}
	w.Starter = spec.Starter
	f := Forecast{Plan: p, Known: len(w.Members), Typical: w.Default.Take}
	return f, f.run(ctx, w, a.Approve)
}

// environmentOf is what a run would meet, but for its windows.
func environmentOf(ctx context.Context, now func() time.Time, cs *caps.Caps, p *stages.Plan, took map[string]time.Duration, a Assumptions) (w simulate.Environment, err error) {
	w.Start, w.Until, w.Members = a.Start, a.Until, make(map[string]simulate.Member, len(took))
	if w.Start.IsZero() {
		w.Start = now()
	}
	w.Default.Take = cmp.Or(a.Take, time.Minute)
	if len(took) > 0 {
		w.Default.Take = median(took)
	}
	for name, d := range took {
		w.Members[name] = simulate.Member{Take: d}
	}
	if name := p.Strategy.Cap; name != "" {
		c, _, err := cs.Get(ctx, name)
		if err != nil {
			return w, err
		}
		if w.Slots = c.Limit; w.Slots == 0 {
			w.Slots = -1
		}
	}
	return w, nil
}

// calendarOf asks for the windows of a plan.
func calendarOf(ctx context.Context, st *state.State, p *stages.Plan) (stages.Calendar, error) {
	rules, err := st.RulesOf(ctx, p, "plan "+p.Digest)
	if err != nil {
		return nil, err
	}
	return rules.For(p)
}

// run simulates the run, once more from the beginning for each approval that it asks for, since the time of
// the request is known only then. That is answered after approve, once: what expires before is not asked for
// again, and what the policy refuses or what comes after the end of the forecast stays open.
func (f *Forecast) run(ctx context.Context, w simulate.Environment, approve time.Duration) (err error) {
	answered := map[string]bool{}
	for {
		f.Events = f.Events[:0]
		f.End, err = simulate.Run(f.Plan, w, func(ev simulate.Event) error {
			f.Events = append(f.Events, ev)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		answers := f.answers(approve, cmp.Or(w.Until, simulate.DefaultUntil), answered)
		if approve < 0 || len(answers) == 0 {
			return nil
		}
		w.Orders = append(w.Orders, answers...)
	}
}

// answers are the approvals that the run waits for at its end and that were not
// answered before, as far as they come until the end of the forecast.
func (f *Forecast) answers(after, until time.Duration, answered map[string]bool) (out []simulate.Order) {
	for _, req := range stages.Requests(f.Plan, &f.End.Run) {
		i := slices.IndexFunc(f.Events, func(ev simulate.Event) bool { return ev.Type == stages.ApprovalRequested && ev.Request == req.Name })
		if req.Attempt > 1 || i < 0 || answered[req.Name] || f.Events[i].At+after > until {
			continue
		}
		answered[req.Name] = true
		asked := f.Events[i].At
		for i, by := range approvers(&req) {
			d := approval.Decision{Verdict: approval.Approve, By: by, Binding: approval.Binding{Stage: req.Stage, Group: req.Group, When: req.When}}
			out = append(out, simulate.Order{
				At:      min(asked+after+time.Duration(i)*time.Millisecond, until),
				Command: stages.Command{Verb: stages.Decide, By: by, Decision: &d},
			})
		}
	}
	return out
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

// durations are how long clusters of a plan took in the latest run of its placement
// that updated them, without the time that they had to stay healthy.
func durations(ctx context.Context, st *state.State, progress func(ctx context.Context, run string, after int64) (Status, History, error), p *stages.Plan) (map[string]time.Duration, error) {
	rec, _, err := st.Placement(ctx, p.Placement)
	if err != nil {
		return nil, err
	}
	out, read := map[string]time.Duration{}, 0
	for _, r := range slices.Backward(rec.Runs) {
		if read == forecastRuns || len(out) == len(p.Clusters) {
			break
		}
		status, h, err := progress(ctx, r.Name, 0)
		if state.IsNotFound(err) || err == nil && (status.Run.UID != r.UID || h.UID != r.UID) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		addDurations(out, p, h.Events, status.Plan.Strategy.MinHealthy)
		read++
	}
	return out, nil
}

// addDurations adds the durations that the events of a run have for clusters of p which have none yet.
func addDurations(out map[string]time.Duration, p *stages.Plan, events []stages.Event, minHealthy time.Duration) {
	began := map[string]time.Time{}
	for i := range events {
		switch ev := &events[i]; ev.Type {
		case stages.ClusterStarted:
			began[ev.Cluster] = ev.Time
		case stages.ClusterCompleted:
			_, known := out[ev.Cluster]
			_, wanted := p.Position(ev.Cluster)
			if at := began[ev.Cluster]; !known && wanted && !ev.Unchanged && !at.IsZero() {
				out[ev.Cluster] = max(0, ev.Time.Sub(at)-minHealthy)
			}
		default:
		}
	}
}

// median returns the middle one of durations.
func median(took map[string]time.Duration) time.Duration {
	all := make([]time.Duration, 0, len(took))
	for _, d := range took {
		all = append(all, d)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
