package simulate

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// BackName is the name of the rollback run in a simulation.
const BackName = RunName + "-rollback"

// Back is the result of the rollback of the run.
type Back struct {
	// Refused is the reason why the run was not rolled back. If it is set, all other fields are empty.
	Refused string `json:"refused,omitempty"`
	// Plan is the plan of the rollback run, Started its beginning.
	Plan    *stages.Plan    `json:"plan,omitempty"`
	Started metav1.Duration `json:"started,omitzero"`
	// End is the end of the rollback run.
	End End `json:"end,omitzero"`
}

// rollback is what a simulation knows about the rollback of its run.
type rollback struct {
	// request is the reason for a pending rollback, result what became of it.
	request *stages.RollbackRequest
	result  *Back
	// of is the plan if the run is itself a rollback.
	of *stages.Plan
}

// rollsBack reports whether the run has ended and must be rolled back now.
func (s *simulation) rollsBack() bool {
	return !s.resumed && s.begun && s.rollback.request != nil && s.run.Final(s.p)
}

// rollbackOrdered handles an order that rolls back an ended run, like an engine, and reports
// whether the next order was one.
func (s *simulation) rollbackOrdered() (bool, error) {
	c := s.agenda.orders[0].Command
	if s.resumed || c.Verb != stages.RequestRollback || s.rollback.result != nil || !s.run.Final(s.p) || s.p.Strategy.Rollback == nil || s.run.Started == 0 {
		return false, nil
	}
	c = s.order()
	s.rollback.request = &stages.RollbackRequest{Cause: stages.OnCommand, By: c.By, Message: c.Message}
	return true, s.report([]stages.Event{s.event(stages.RollbackRequested, c.By.Name, c.Message)})
}

func (s *simulation) event(t stages.EventType, by, message string) stages.Event {
	return stages.Event{Type: t, Time: s.time(), By: by, Message: message}
}

// rollBack plans the rollback run and carries it out, from now on and with the remaining orders
// and churn.
func (s *simulation) rollBack() error {
	request := s.rollback.request
	s.rollback.request = nil
	plan, err := s.inverse()
	if err == nil && len(plan.Clusters) == 0 {
		err = fmt.Errorf("no cluster changes%s", reasons(plan.Rollback))
	}
	if err != nil {
		s.rollback.result = &Back{Refused: err.Error()}
		return s.report([]stages.Event{s.event(stages.RollbackRefused, "", err.Error())})
	}
	w := s.w.duringRollback(plan)
	if of := w.Return.Calendar; of != nil {
		if w.Calendar, err = of(plan); err != nil {
			return fmt.Errorf("windows of the rollback run: %w", err)
		}
	}
	b := newSimulation(plan, &w, s.tell)
	b.run = step.NewRun(plan, BackName, "simulated-back", request.By, false, s.time())
	b.rollback.of, b.now, b.last, b.steps = plan, s.now, s.now, s.steps
	b.agenda = s.agenda
	s.agenda.orders, s.agenda.churn = nil, nil
	why, err := b.play()
	if err != nil {
		return err
	}
	s.rollback.result = &Back{Plan: plan, Started: metav1.Duration{Duration: s.now}, End: b.end(why)}
	return nil
}

// inverse plans the rollback run.
func (s *simulation) inverse() (*stages.Plan, error) {
	if s.w.Return.Previous == nil {
		return nil, errors.New("the earlier revisions of the clusters are not known")
	}
	return step.RollBack(s.p, &s.run, s.w.Return.Previous)
}

// reasons returns the end of a sentence about clusters that are not rolled back.
func reasons(b *stages.PlannedRollback) string {
	var all []string
	for _, k := range b.Kept {
		all = append(all, fmt.Sprintf("%d because %s", k.Count, k.Reason))
	}
	return strings.TrimSuffix(": "+strings.Join(all, "; "), ": ")
}

// duringRollback returns the environment during the rollback.
func (w *Environment) duringRollback(p *stages.Plan) Environment {
	out := *w
	out.Members = make(map[string]Member, len(w.Members))
	for i := range p.Clusters {
		name := p.Clusters[i].Name
		m, own := w.Return.Members[name]
		if _, known := w.Members[name]; !own && known {
			m, own = w.Members[name], true
			m.Fail = 0
		}
		if own {
			out.Members[name] = m
		}
	}
	out.Default.Fail = 0
	return out
}
