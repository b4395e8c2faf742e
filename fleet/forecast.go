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
	// that they approve at once, and a negative value that they never do. If a request has been open
	// for longer than that already, it is assumed to be approved at once.
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
	// run has completed, or else of the clusters that earlier runs have completed, or Assumptions.Take
	// if there are none.
	Known   int             `json:"known"`
	Typical metav1.Duration `json:"typical"`
}

// StageForecast is when a stage is expected to begin and to end.
type StageForecast struct {
	Name string `json:"name"`
	// State is the state of the stage at the end of the forecast.
	State stages.State `json:"state"`
	// Starts is when the first cluster of the stage may start, Ends is when the stage and its gates
	// are done; zero if this does not happen. Times before Forecast.Now are real.
	Starts time.Time `json:"starts,omitzero"`
	Ends   time.Time `json:"ends,omitzero"`
}

// forecastsKept is the maximum number of runs whose forecasts an engine remembers. It covers the
// runs that people watch at the same time.
const forecastsKept = 16

// forecastKey identifies the forecasts of a run.
type forecastKey struct {
	run string
	a   Assumptions
}

// forecastMemory is what an engine keeps of a run that is forecast repeatedly: the parts of the
// run's journal and of earlier runs that it has read, and its last forecast.
type forecastMemory struct {
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

// add adds the events since the last forecast, and reports whether that forecast is still valid.
func (m *forecastMemory) add(events []stages.Event, p *stages.Plan, next int64, now time.Time) (valid bool) {
	m.next = next
	m.timings.add(events, p)
	return now.Before(m.good) && !slices.ContainsFunc(events, func(ev stages.Event) bool { return ev.Cluster == "" })
}

// keep keeps a forecast that was computed between two times.
func (m *forecastMemory) keep(f Forecast, began, done time.Time) {
	m.last, m.good = f, done.Add(forecastShare*done.Sub(began))
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

// slotsOf returns how many clusters of a cap a run may have in flight: the whole cap if the run
// does not exist yet.
func slotsOf(c stages.Cap, uid string) int {
	if uid == "" {
		return c.Limit
	}
	own, _ := c.Share(uid)
	return max(own.Holds, c.Limit-(c.Held()-own.Holds))
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
