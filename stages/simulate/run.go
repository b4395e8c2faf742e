package simulate

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// ErrSteps is matched by the error of a simulation that has used all of its steps.
var ErrSteps = errors.New("the simulation takes too many steps")

// Event is an event of the run with its time.
type Event struct {
	// At is the time since the start of the run.
	At metav1.Duration `json:"at"`
	// Back is the plan of the rollback run if this is an event of the rollback run, otherwise nil.
	Back *stages.Plan `json:"back,omitempty"`
	stages.Event
}

// RunName is the name of the run in a simulation. The names of its requests begin with it.
const RunName = "run"

// NewPlan returns the plan of a strategy for clusters, for a simulation without a rollout. Errors
// come from [planner.Plan].
func NewPlan(s stages.Strategy, clusters []placement.Cluster) (*stages.Plan, error) {
	const digest = "simulated"
	t := stages.Target{Placement: "scenario", Snapshot: digest, Selection: digest, Default: digest}
	return planner.Plan(s, t, clusters)
}

// Run carries out a run of the plan in an environment, from its start until it has ended and no
// order is left, until nothing can happen any more, or until w.Until. It calls tell, unless it is
// nil, with each event as it happens, and returns the result. A run that has failed or was stopped
// waits for later orders. If the run refuses an order, tell receives an event.
//
// If the strategy or an order requests a rollback, the rollback run follows at once, with the plan
// of [step.RollBack]. Later orders go to the rollback run. An order that rolls back an ended run
// must come before the simulation ends.
//
// The error is an error of tell, which ends the simulation, an invalid environment, or an error
// that matches [ErrSteps].
func Run(p *stages.Plan, w Environment, tell func(Event) error) (End, error) {
	if err := w.Validate(); err != nil {
		return End{}, fmt.Errorf("environment: %w", err)
	}
	w = w.settled()
	return newSimulation(p, &w, tell).carryOut()
}

// Resume is [Run] for an existing run: it continues r from its state at w.Start. Durations are
// counted from that moment, also in the result: earlier times are negative. The open gates, the
// deferred and the retried clusters, and the deadlines are taken from r. The clusters in flight
// continue their attempts, which began at w.Began. A run that has ended does not change, and a run
// that is stopped or held waits for an order to start it. r is not changed.
//
// If the run is rolled back, the simulation ends, because the rollback is another run.
//
// The error is an error of [Run], or of [step.Run.Check] if r is not a run of the plan.
func Resume(p *stages.Plan, r step.Run, w Environment, tell func(Event) error) (End, error) {
	if err := w.Validate(); err != nil {
		return End{}, fmt.Errorf("environment: %w", err)
	}
	if err := r.Check(p); err != nil {
		return End{}, err
	}
	w = w.settled()
	s := newSimulation(p, &w, tell)
	s.run, s.begun, s.resumed = r, true, true
	if r.Ended != 0 {
		s.last = s.since(r.Ended).Duration
	}
	s.workers.resume(p, &r)
	for _, req := range step.Requests(p, &r) {
		s.ask(req)
	}
	return s.carryOut()
}

// carryOut carries out the run, and its rollback run.
func (s *simulation) carryOut() (End, error) {
	for {
		why, err := s.play()
		if err == nil && s.rollsBack() {
			if err = s.rollBack(); err == nil && s.rollback.result.Plan == nil && len(s.agenda.orders) > 0 {
				continue // continues with the remaining orders
			}
		}
		if err != nil {
			return End{}, err
		}
		return s.end(why), nil
	}
}

// simulation is a run in its environment.
type simulation struct {
	p    *stages.Plan
	w    *Environment
	tell func(Event) error

	clock
	run     step.Run
	workers *workerPool
	steps   int
	// begun reports whether the run has begun, stepped whether this simulation has stepped it, and
	// resumed whether it had begun before.
	begun, stepped, resumed bool
	agenda                  agenda
	peaks                   peaks
	rollback                rollback
}

func newSimulation(p *stages.Plan, w *Environment, tell func(Event) error) *simulation {
	if tell == nil {
		tell = func(Event) error { return nil }
	}
	return &simulation{
		p: p, w: w, tell: tell, clock: newClock(w.Start), workers: newWorkerPool(w, p.Len()),
		agenda: agenda{churn: w.Churn, orders: w.Orders}, peaks: newPeaks(p),
		run: step.NewRun(p, RunName, "simulated", w.Starter, false, w.Start),
	}
}

// play simulates until the end and returns its reason.
func (s *simulation) play() (Reason, error) {
	for next, ok := s.now, true; ; next, ok = s.next() {
		switch {
		case s.rollsBack():
			return Ended, nil
		case s.begun && s.run.IsEnded() && len(s.agenda.orders) == 0:
			return Ended, nil
		case !ok:
			return Stuck, nil
		case next > s.w.Until:
			s.now = s.w.Until
			return Cut, nil
		}
		s.now = next
		if err := s.moment(); err != nil {
			return "", err
		}
	}
}

// next returns the time of the next event; false if there is none.
func (s *simulation) next() (first time.Duration, ok bool) {
	at := func(t time.Duration) {
		if !ok || t < first {
			first, ok = t, true
		}
	}
	if due, busy := s.workers.due(); busy {
		at(due)
	}
	if s.wake >= 0 {
		at(s.wake)
	}
	for _, t := range s.agenda.times() {
		at(t)
	}
	return max(first, s.now), ok
}

// moment simulates the current moment. Decisions, and the orders after them, come after the steps
// that open their requests.
func (s *simulation) moment() error {
	changed := s.agenda.follow(s.now)
	in := stages.Input{Observations: s.workers.work(s.now)}
	first := !s.stepped
	for s.agenda.ordered(s.now) && (!first || s.agenda.orders[0].Command.Verb == stages.Skip) {
		if v := s.agenda.orders[0].Command.Verb; v == stages.Decide || v == stages.RequestRollback {
			break
		}
		in.Commands = append(in.Commands, s.order())
	}
	if first || changed || len(in.Observations)+len(in.Commands) > 0 || s.rings() {
		if err := s.step(in, changed); err != nil {
			return err
		}
	}
	for s.agenda.ordered(s.now) && !s.rollsBack() {
		if rolls, err := s.rollbackOrdered(); rolls || err != nil {
			return err
		}
		if err := s.step(stages.Input{Commands: []stages.Command{s.order()}}, false); err != nil {
			return err
		}
	}
	return nil
}

// order takes the next order and returns it as a command of now.
func (s *simulation) order() stages.Command {
	c := s.agenda.orders[0].Command
	s.agenda.orders = s.agenda.orders[1:]
	c.ID, c.At = s.agenda.newID(s.run.Form(runstate.Key{}).Seen), s.time()
	if c.Verb == stages.Decide {
		c.Decision = s.decision(*c.Decision)
		c.By = c.Decision.By
	}
	return c
}

// step steps the run. It passes the clusters that have left if they changed, or if an order may
// have resumed a run that accepted no inputs.
func (s *simulation) step(in stages.Input, left bool) error {
	if s.steps++; s.steps > s.w.Steps {
		return fmt.Errorf("%w: %d, and the run has reached %s, in state %s; set a smaller until", ErrSteps, s.w.Steps, s.now, s.run.State)
	}
	in.Slots = s.w.slots()
	in.Now, in.Calendar, in.NewCalendar = s.time(), s.w.Calendar, !s.stepped
	if left || !s.stepped || len(in.Commands) > 0 {
		in.Gone = s.agenda.away.names
	}
	s.begun, s.stepped = true, true
	ready := step.Step(s.p, s.run, in)
	if ready.Err != nil {
		return ready.Err
	}
	s.run = ready.Run
	s.wakeAt(ready.Wake)
	if s.rollback.request = s.run.Form(runstate.Key{}).RollbackRequest; s.rollback.result != nil {
		s.rollback.request = nil // it was refused
	}
	s.workers.act(s.now, ready.Actions)
	if ready.Changed {
		s.peaks.count(s.p, &s.run)
	}
	for i := range ready.Events {
		if ready.Events[i].Type == stages.ApprovalRequested {
			s.asked(ready.Events[i].Request)
		}
	}
	if err := s.report(ready.Events); err != nil {
		return err
	}
	if in = s.measured(ready.Actions); len(in.Measured) > 0 {
		return s.step(in, false)
	}
	return nil
}

// measured answers the questions of a step.
func (s *simulation) measured(actions []stages.Action) (in stages.Input) {
	for i := range actions {
		if q := actions[i].Measure; q != nil {
			in.Measured = append(in.Measured, check.Measured{Where: q.Where, Query: q.Check.Query, Answer: s.w.measure(q, s.now)})
		}
	}
	return in
}

// asked handles a request that has just opened.
func (s *simulation) asked(name string) {
	for _, req := range step.Requests(s.p, &s.run) {
		if req.Name == name {
			s.ask(req)
		}
	}
}

// ask adds the orders that answer a request.
func (s *simulation) ask(req approval.Request) {
	if s.w.Answer == nil {
		return
	}
	for _, o := range s.w.Answer(req, req.Opened.Sub(s.w.Start)) {
		if o.At = max(o.At, s.now); o.At > s.w.Until {
			continue
		}
		s.agenda.add(o)
	}
}

func (s *simulation) report(events []stages.Event) error {
	for _, e := range events {
		s.last = e.Time.Sub(s.w.Start)
		if err := s.tell(Event{At: metav1.Duration{Duration: s.last}, Back: s.rollback.of, Event: e}); err != nil {
			return err
		}
	}
	return nil
}
