package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
)

func stopRun(ctx context.Context, s *session) error {
	return s.send(ctx, stages.Command{Verb: stages.Stop, By: by()})
}

func skipTargets(ctx context.Context, s *session) error {
	var all []stages.Command
	for _, t := range s.values["targets"] {
		c, err := azure.SkipOf(t)
		if err != nil {
			return err
		}
		c.By = by()
		all = append(all, c)
	}
	return s.send(ctx, all...)
}

// send gives commands to the run, all or, where one does not fit, none, and shows the
// run.
func (s *session) send(ctx context.Context, all ...stages.Command) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	rec, err := s.record(ctx, e, s.name())
	if err != nil {
		return err
	}
	var refusals []error
	for _, c := range all {
		if err := stages.Allowed(rec.Plan, rec.Run, c); err != nil {
			refusals = append(refusals, about(s.name(), err))
		}
	}
	if len(refusals) > 0 {
		return errors.Join(refusals...)
	}
	idle, err := s.left(ctx, e)
	if err != nil {
		return err
	}
	d, err := s.newDrive(ctx, e, s.name())
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := e.Command(ctx, s.name(), c); err != nil {
			return err
		}
	}
	if err := s.carryOut(ctx, d, idle, all[0].Verb); err != nil {
		return err
	}
	return s.showAsked(ctx, e)
}

// showAsked shows a run that was asked something. What it was asked may have been the
// last thing to do for the process that drove it: then the file is free, and is read
// here.
func (s *session) showAsked(ctx context.Context, e *fleet.Engine) error {
	err := s.showRun(ctx, e, s.name())
	if err != nil && !s.store.ours && s.store.again(ctx) == nil {
		err = s.showRun(ctx, e, s.name())
	}
	return err
}

// carryOut has commands carried out: by the process that drives, or here where nothing
// starts by that.
func (s *session) carryOut(ctx context.Context, d *drive, idle bool, v stages.Verb) error {
	d.quietly = true
	switch {
	case !s.store.ours:
		return s.wait(ctx)
	case v == stages.Stop:
		return d.do(ctx)
	case idle:
		d.until = s.heard
		return d.do(ctx)
	}
	s.warn([]string{"no process drives the run: updaterun start carries it out, and goes on"})
	return nil
}

// wait waits until the driver has taken all commands in.
func (s *session) wait(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < patience && ctx.Err() == nil; pause(ctx, moment) {
		heard, err := s.heard(ctx)
		if err != nil && !s.store.ours {
			err = s.store.again(ctx) // the driver is gone
		}
		if heard || err != nil {
			return err
		}
	}
	s.warn([]string{"it is asked for, and the driver has not taken it in yet"})
	return ctx.Err()
}

// asked ends a command that does not wait.
func (s *session) asked(ctx context.Context, e *fleet.Engine) error {
	if s.store.ours {
		s.warn([]string{"no process drives: the next updaterun start carries it out"})
	} else if err := s.wait(ctx); err != nil {
		return err
	}
	return s.showAsked(ctx, e)
}

// gateView is a gate as it is printed.
type gateView struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Type        string `json:"gateType"`
	State       string `json:"state"`
	Run         string `json:"updateRun"`
	Stage       string `json:"stage"`
	Group       string `json:"group,omitempty"`
	Timing      string `json:"timing"`
}

func listGates(ctx context.Context, s *session) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	gates, err := s.gates(ctx, e)
	if err != nil {
		return err
	}
	return s.print(gates, func() { s.gateTable(gates) })
}

// gates returns the gates that the run has come to.
func (s *session) gates(ctx context.Context, e *fleet.Engine) ([]gateView, error) {
	rec, err := s.record(ctx, e, s.name())
	if err != nil {
		return nil, err
	}
	u := azure.NewUpdateRun(rec)
	out := []gateView{}
	for _, st := range u.Status.Stages {
		out = append(out, gatesOf(u.Name, st.Name, "", "Before", st.BeforeGates)...)
		for _, g := range st.Groups {
			out = append(out, gatesOf(u.Name, st.Name, g.Name, "Before", g.BeforeGates)...)
			out = append(out, gatesOf(u.Name, st.Name, g.Name, "After", g.AfterGates)...)
		}
		out = append(out, gatesOf(u.Name, st.Name, "", "After", st.AfterGates)...)
	}
	return out, nil
}

func gatesOf(run, stage, group, timing string, list []azure.GateStatus) (out []gateView) {
	for _, g := range list {
		if g.GateID == nil {
			continue
		}
		v := gateView{Name: *g.GateID, Type: g.Type, State: g.Status.State, Run: run, Stage: stage, Group: group, Timing: timing}
		if g.DisplayName != nil {
			v.DisplayName = *g.DisplayName
		}
		out = append(out, v)
	}
	return out
}

// updateGate completes a gate: an approval by a decision, a scheduled start by a
// command.
func updateGate(ctx context.Context, s *session) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	gates, err := s.gates(ctx, e)
	if err != nil {
		return err
	}
	name := s.one("gate-name")
	i := slices.IndexFunc(gates, func(g gateView) bool { return g.Name == name && g.State == string(stages.Pending) })
	if i < 0 {
		return fmt.Errorf("update run %s has no gate %s that is Pending: gate list shows which there are", s.name(), name)
	}
	if gates[i].Type == string(stages.ScheduledStart) {
		return s.send(ctx, stages.Command{Verb: stages.CompleteGate, Name: name, By: by()})
	}
	return s.approve(ctx, e, name)
}

func (s *session) approve(ctx context.Context, e *fleet.Engine, request string) error {
	if err := e.Decide(ctx, s.name(), fleet.Answer{Request: request, Verdict: approval.Approve, By: by()}); err != nil {
		return err
	}
	if s.store.ours {
		s.warn([]string{"no process drives the run: updaterun start carries it out, and goes on"})
	} else if err := s.wait(ctx); err != nil {
		return err
	}
	return s.showRun(ctx, e, s.name())
}
