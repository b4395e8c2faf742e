package oam

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Operation is an operation on a workflow in the terms of the engine: the commands for its run, in
// their order, with the decisions on requests last. Message is the output of the command line.
type Operation struct {
	Commands []stages.Command
	Message  string
}

// The errors of operations, with KubeVela's texts.
var (
	ErrNotRunning = errors.New("the workflow in application is not running")
	ErrNotFailed  = errors.New("can not restart from a non-failed step")
	// ErrRolledBack is Slipway's own: the run was rolled back, so the results of earlier steps no
	// longer exist.
	ErrRolledBack = errors.New("can not restart from a step, because the workflow is rolled back: restart it from the first step")
)

func errTerminated(verb string) error { return fmt.Errorf("can not %s a terminated workflow", verb) }

// Suspend stops the workflow: nothing more starts, and running steps finish.
func (rec Record) Suspend(by approval.Identity) (Operation, error) {
	switch {
	case rec.Run == nil:
		return Operation{}, ErrNotRunning
	case rec.terminated():
		return Operation{}, errTerminated("suspend")
	case rec.Run.State == stages.Completed:
		return Operation{}, errors.New("can not suspend a finished workflow")
	}
	op := Operation{Message: "Successfully suspend workflow: " + rec.Release.Name}
	if rec.Run.State == stages.Running || rec.Run.State == stages.Pending {
		op.Commands = []stages.Command{{Verb: stages.Stop, By: by}}
	}
	return op, nil
}

// Resume resumes a workflow that was suspended by a user, by a suspend step or by a step with auto:
// false. If it is given the name of a step, it resumes that step alone, and also the workflow if a
// user suspended it.
func (rec Record) Resume(step string, by approval.Identity) (Operation, error) {
	switch {
	case rec.Run == nil || rec.Plan == nil:
		return Operation{}, ErrNotRunning
	case rec.terminated():
		return Operation{}, errTerminated("resume")
	case step != "" && !rec.Release.hasStep(step):
		return Operation{}, fmt.Errorf("can not find step %s", step)
	}
	var op Operation
	if rec.Run.State == stages.Stopped || rec.Run.State == stages.Stopping {
		op.Commands = append(op.Commands, stages.Command{Verb: stages.Start, By: by})
	}
	var decisions []stages.Command
	for _, g := range rec.gates() {
		switch c := g.pass(rec, by); {
		case step != "" && g.step != step:
		case c.Verb == stages.Decide:
			decisions = append(decisions, c)
		default:
			op.Commands = append(op.Commands, c)
		}
	}
	op.Commands = append(op.Commands, decisions...)
	op.Message = "Successfully resume workflow: " + rec.Release.Name
	switch {
	case len(op.Commands) == 0:
		op.Message = "workflow " + rec.Release.Name + " is not suspended."
	case step != "":
		op.Message = "Successfully resume workflow " + rec.Release.Name + " from step " + step
	}
	return op, nil
}

// Terminate ends the workflow. Steps that always run still run; a second Terminate ends these steps
// too.
func (rec Record) Terminate(by approval.Identity) (Operation, error) {
	if rec.Run == nil {
		return Operation{}, ErrNotRunning
	}
	op := Operation{Message: "Successfully terminate workflow: " + rec.Release.Name}
	switch {
	case rec.Run.State == stages.Completed:
		return Operation{}, errors.New("can not terminate a finished workflow")
	case !rec.Run.IsEnded():
		op.Commands = []stages.Command{{Verb: stages.Abort, By: by}}
	}
	return op, nil
}

// Restart returns the release of a run that repeats the workflow, with the same objects, from the
// first step or, if step is not empty, from a failed step. The steps before it keep their status.
// Creating the run is one write, which supersedes an old run that is still active; nth, from 2,
// distinguishes the restarts of a version.
func (rec Record) Restart(step string, nth int) (Release, Operation, error) {
	if rec.Run == nil || rec.Plan == nil {
		return Release{}, Operation{}, ErrNotRunning
	}
	next := *rec.Release
	if len(next.Whole) == 0 {
		next.Whole = next.Run.Strategy.Stages
	}
	next.Before, next.Run.Strategy.Stages = nil, next.Whole
	next.Run.Name = kubefleet.ApplicationName(next.Namespace, next.Name+"."+versionLabel(next.Version)+"-"+strconv.Itoa(nth))
	next.Run.Index, next.Run.Plan = new(rec.Plan.Index), ""
	op := Operation{Message: "Successfully restart workflow: " + next.Name}
	if step == "" {
		return next, op, nil
	}
	status := newWalk(rec).status()
	switch at, ok := status.find(step); {
	case rec.Run.Form(runstate.Key{}).RollbackRequest != nil:
		return Release{}, Operation{}, ErrRolledBack
	case !ok:
		return Release{}, Operation{}, fmt.Errorf("failed step %s not found", step)
	case at.Phase != PhaseFailed:
		return Release{}, Operation{}, ErrNotFailed
	}
	next.Run.Strategy.Stages = from(next.Whole, step)
	next.Before = status.flat()
	op.Message = "Successfully restart workflow " + next.Name + " from step " + step
	return next, op, nil
}

// from returns the stages from a step on: the stages after it and, if it is a group, the groups
// that depend on it.
func from(list []stages.Stage, step string) []stages.Stage {
	for i := range list {
		if list[i].Name == step {
			return list[i:]
		}
		if again := dependents(list[i].Groups, step); len(again) > 0 {
			st := list[i]
			st.Groups, st.Clusters = again, clustersOf(again)
			return append([]stages.Stage{st}, list[i+1:]...)
		}
	}
	return nil
}

// dependents returns the group of a step and the groups that depend on it, without their other
// dependencies.
func dependents(groups []stages.Group, step string) (out []stages.Group) {
	again := map[string]bool{step: slices.ContainsFunc(groups, func(g stages.Group) bool { return g.Name == step })}
	if !again[step] {
		return nil
	}
	for more := true; more; {
		more = false
		for i := range groups {
			on := slices.ContainsFunc(groups[i].DependsOn, func(name string) bool { return again[name] })
			if on && !again[groups[i].Name] {
				again[groups[i].Name], more = true, true
			}
		}
	}
	for _, g := range groups {
		if again[g.Name] {
			g.DependsOn = slices.DeleteFunc(slices.Clone(g.DependsOn), func(name string) bool { return !again[name] })
			out = append(out, g)
		}
	}
	return out
}

// find returns a step by name.
func (w *WorkflowStatus) find(name string) (StepStatus, bool) {
	for _, s := range w.flat() {
		if s.Name == name {
			return s, true
		}
	}
	return StepStatus{}, false
}

// flat returns all steps; the steps of a step-group follow the group.
func (w *WorkflowStatus) flat() (out []StepStatus) {
	for _, s := range w.Steps {
		out = append(append(out, s.StepStatus), s.SubSteps...)
	}
	return out
}

func (r *Release) hasStep(name string) bool {
	return slices.ContainsFunc(r.Workflow.Steps, func(s Step) bool { return s.Name == name || isStep(s.Steps, name) })
}

// openGate is a gate that suspends a step.
type openGate struct {
	step, stage, group string
	gate               *runstate.Gate
}

// gates returns the open gates before steps.
func (rec Record) gates() (open []openGate) {
	if rec.Run.Form(runstate.Key{}).Stage >= len(rec.Plan.Stages) {
		return nil
	}
	st, run := &rec.Plan.Stages[rec.Run.Form(runstate.Key{}).Stage], &rec.Run.Form(runstate.Key{}).Stages[rec.Run.Form(runstate.Key{}).Stage]
	add := func(step, group string, gates []runstate.Gate) {
		for i := range gates {
			if g := &gates[i]; g.State == stages.Pending && g.When == approval.Before {
				open = append(open, openGate{step, st.Name, group, g})
			}
		}
	}
	add(st.Name, "", run.Gates)
	for i := range run.Groups {
		add(st.Groups[i].Name, st.Groups[i].Name, run.Groups[i].Gates)
	}
	return open
}

// pass returns the command that completes the gate, or the decision on its request.
func (g *openGate) pass(rec Record, by approval.Identity) stages.Command {
	if g.gate.Type != stages.Approval {
		name := g.stage
		if g.group != "" {
			name += "/" + g.group
		}
		return stages.Command{Verb: stages.CompleteGate, Name: name, By: by}
	}
	d := stages.Command{Verb: stages.Decide, By: by, Decision: &approval.Decision{Verdict: approval.Approve}}
	for _, r := range step.Requests(rec.Plan, rec.Run) {
		if r.Stage == g.stage && r.Group == g.group && r.When == approval.Before {
			d.Name, d.Decision.Binding = r.Name, r.Binding
		}
	}
	return d
}
