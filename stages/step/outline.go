package step

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// Outline returns the state of the run, its stages, groups and gates. It changes nothing, and its
// cost grows with the stages and groups, the clusters in flight and the exceptions, not with the
// fleet.
//
// In profile ClusterUpdate the states follow from the states below them, in this order:
//
//   - A group is Skipped if an operator skipped it or its stage and none of its clusters is in
//     flight, or if all its clusters are Skipped. It is Failed if more clusters have failed than
//     its budget allows, if a request of it was rejected, or if it has timed out. A group without
//     its own budget is Failed if some of its clusters have failed and its stage is Failed. It is
//     Pending while a gate of its own holds it, and while none of its clusters is in flight,
//     Completed or Failed. Otherwise it is Running until all clusters have ended and the gates
//     after it have passed, and then Completed. A group that a stop or the failure of its stage
//     left unfinished is Stopping while its clusters are in flight, then Stopped; in an aborted
//     run it is Aborted.
//   - A stage follows the same rules over its groups. It is Skipped if an operator skipped it or all
//     groups are Skipped. It is Pending while it has not started, while a gate other than the wait
//     after it holds it, and while every group is Pending, not started or Skipped.
//   - The run is Pending if its current stage is Pending, and Skipped if all stages are Skipped.
//
// In the other profiles the run and the stages have their recorded states; groups follow the rules
// above.
//
// If the run does not belong to the plan, see [Run.Check], the outline has only the state of the
// run.
func (r *Run) Outline(p *stages.Plan) stages.Outline {
	if r.Check(p) != nil {
		return stages.Outline{Run: r.State}
	}
	return derive(p, r)
}

func derive(p *stages.Plan, r *Run) stages.Outline {
	d := newDeriver(p, r)
	out := stages.Outline{Run: r.State, Stages: make([]stages.StageOutline, len(p.Stages))}
	skipped := 0
	for i := range p.Stages {
		out.Stages[i] = d.stage(i)
		if out.Stages[i].State == stages.Skipped {
			skipped++
		}
	}
	if p.Strategy.Profile != stages.ClusterUpdate {
		return out
	}
	switch {
	case r.State == stages.Completed && skipped == len(p.Stages):
		out.Run = stages.Skipped
	case r.State == stages.Running && r.form.Stage < len(p.Stages) && out.Stages[r.form.Stage].State == stages.Pending:
		out.Run = stages.Pending
	}
	return out
}

// stateOf returns the state of the run for people, like [Run.Outline].
func stateOf(p *stages.Plan, r *Run) stages.State { return derive(p, r).Run }

// deriver derives the states of the stages of a run.
type deriver struct {
	p *stages.Plan
	r *Run
	// flying has the number of clusters in flight in each group of the current stage.
	flying []int
	// next is the first unsuccessful range that is not before the current group. Stages and groups
	// are visited in order.
	next int
}

func newDeriver(p *stages.Plan, r *Run) *deriver {
	d := &deriver{p: p, r: r}
	if r.form.Stage < len(p.Stages) {
		d.flying = make([]int, len(p.Stages[r.form.Stage].Groups))
	}
	for i := range r.form.InFlight {
		if f := &r.form.InFlight[i]; f.Attempt != 0 {
			if stage, group := p.StageOf(f.Pos); stage == r.form.Stage {
				d.flying[group]++
			}
		}
	}
	return d
}

func (d *deriver) stage(i int) stages.StageOutline {
	st, run := &d.p.Stages[i], &d.r.form.Stages[i]
	out := stages.StageOutline{
		Name: st.Name, State: run.State, Started: run.Started.Time(), Ended: run.Ended.Time(),
		Groups: make([]stages.GroupOutline, len(st.Groups)), Checks: slices.Clone(run.Checks),
	}
	for j := range st.Groups {
		out.Groups[j] = d.group(i, j)
	}
	if d.p.Strategy.Profile == stages.ClusterUpdate {
		out.State = d.stageState(i, out.Groups)
	}
	out.Gates = gateOutlines(st.Gates, run.Gates, out.State == stages.Skipped, run.SkipWait)
	return out
}

// stageState derives the state of a stage from its groups.
func (d *deriver) stageState(i int, groups []stages.GroupOutline) stages.State {
	run := &d.r.form.Stages[i]
	of := countStates(groups)
	switch {
	case run.Reached == 0:
		if size := d.p.Stages[i].Size(); size > 0 && of[stages.Skipped] == len(groups) {
			return stages.Skipped
		}
		return stages.NotStarted
	case run.Ended != 0:
		if of[stages.Skipped] == len(groups) {
			return stages.Skipped
		}
		return run.State
	case d.r.State != stages.Running:
		return d.haltedState(run.State)
	case run.Started == 0 || isOpen(run.Gates, stages.Approval), of[stages.Pending] > 0 && of[stages.Pending]+of[stages.NotStarted]+of[stages.Skipped] == len(groups):
		return stages.Pending
	default:
		return stages.Running
	}
}

func countStates(groups []stages.GroupOutline) map[stages.State]int {
	of := map[stages.State]int{}
	for i := range groups {
		of[groups[i].State]++
	}
	return of
}

// haltedState returns the state of a stage if the run in it is not Running.
func (d *deriver) haltedState(own stages.State) stages.State {
	switch d.r.State {
	case stages.Stopping, stages.Stopped:
		return d.r.State
	default:
		return own
	}
}

func (d *deriver) group(stage, group int) stages.GroupOutline {
	st, run := &d.p.Stages[stage], &d.r.form.Stages[stage]
	g, gr := &st.Groups[group], &runstate.GroupRun{}
	if len(run.Groups) > 0 {
		gr = &run.Groups[group]
	}
	out := stages.GroupOutline{Name: g.Name, Clusters: g.Len, Completed: gr.Completed}
	if stage == d.r.form.Stage {
		out.InFlight = d.flying[group]
	}
	d.unsuccessful(g, &out)
	out.State = d.groupState(stage, g, gr, &out)
	out.Gates = gateOutlines(g.Gates, gr.Gates, out.State == stages.Skipped, false)
	return out
}

// unsuccessful counts the clusters of a group that have failed or are skipped.
func (d *deriver) unsuccessful(g *stages.PlannedGroup, out *stages.GroupOutline) {
	es, last := d.r.form.Unsuccessful, g.First+g.Len-1
	for d.next < len(es) && es[d.next].Last < g.First {
		d.next++
	}
	for i := d.next; i < len(es) && es[i].First <= last; i++ {
		n := min(es[i].Last, last) - max(es[i].First, g.First) + 1
		if es[i].State == stages.Failed {
			out.Failed += n
		} else {
			out.Skipped += n
		}
	}
}

func (d *deriver) groupState(stage int, g *stages.PlannedGroup, gr *runstate.GroupRun, out *stages.GroupOutline) stages.State {
	run := &d.r.form.Stages[stage]
	left := out.Clusters - out.Completed - out.Failed - out.Skipped
	switch {
	case d.p.Stages[stage].Pause || g.Pause:
		return d.pauseState(g, run, gr)
	case run.Reached == 0 && out.Clusters == 0:
		return stages.NotStarted
	case out.Skipped == out.Clusters, (gr.SkipGates || run.SkipGates) && left == 0:
		return stages.Skipped
	case run.Started == 0:
		return stages.NotStarted
	case d.groupFailed(run, g, gr, out):
		return stages.Failed
	case left == 0 && (len(g.Gates) == 0 || gr.Ended != 0):
		return stages.Completed
	default:
		return d.unfinished(gr, out)
	}
}

// pauseState returns the state of a group without clusters that holds the run.
func (d *deriver) pauseState(g *stages.PlannedGroup, run *runstate.StageRun, gr *runstate.GroupRun) stages.State {
	switch {
	case run.Reached == 0, len(g.After) > 0 && gr.Reached == 0 && !gr.SkipGates && !run.SkipGates:
		return stages.NotStarted
	case run.TimedOut || gr.TimedOut || isRejected(gr.Gates) || isRejected(run.Gates):
		return stages.Failed
	case gr.SkipGates || run.SkipGates:
		return stages.Skipped
	case g.Pause && gr.Ended != 0, !g.Pause && run.Started != 0:
		return stages.Completed
	case d.r.State == stages.Running:
		return stages.Pending
	default:
		return d.unfinished(gr, &stages.GroupOutline{})
	}
}

func (d *deriver) groupFailed(run *runstate.StageRun, g *stages.PlannedGroup, gr *runstate.GroupRun, out *stages.GroupOutline) bool {
	if isRejected(gr.Gates) || gr.TimedOut {
		return true
	}
	failed := run.State == stages.Failed && out.Failed > 0
	if g.MaxFailures < 0 {
		return failed
	}
	return out.Failed > g.MaxFailures || g.Strict && failed && out.Failed == g.MaxFailures
}

// unfinished returns the state of a group that has clusters left, or is held by a gate after it.
func (d *deriver) unfinished(gr *runstate.GroupRun, out *stages.GroupOutline) stages.State {
	switch {
	case out.InFlight > 0 && d.r.State == stages.Stopping:
		return stages.Stopping
	case d.r.State == stages.Aborted:
		return stages.Aborted
	case d.r.State != stages.Running:
		return stages.Stopped
	case isOpen(gr.Gates, stages.Approval), out.InFlight+out.Completed+out.Failed == 0:
		return stages.Pending
	default:
		return stages.Running
	}
}

// isOpen reports whether a pending gate has the type or stands before the clusters.
func isOpen(gates []runstate.Gate, typ stages.TaskType) bool {
	for i := range gates {
		if g := &gates[i]; g.State == stages.Pending && (g.Type == typ || g.When == approval.Before) {
			return true
		}
	}
	return false
}

func isRejected(gates []runstate.Gate) bool {
	for i := range gates {
		if g := &gates[i]; g.State == stages.Failed && (len(g.Decisions) > 0 || g.Type == stages.CheckTask) && g.Ended != 0 {
			return true
		}
	}
	return false
}

// gateOutlines returns the planned gates with their states, in the order of the plan.
func gateOutlines(planned []stages.PlannedGate, gates []runstate.Gate, skipped, skipWait bool) []stages.GateOutline {
	var out []stages.GateOutline
	for i := range planned {
		pg := &planned[i]
		o := stages.GateOutline{When: pg.When, Type: pg.Type, State: stages.NotStarted}
		g := runstate.GateOf(gates, pg)
		switch {
		case g != nil:
			o.State, o.Until, o.Ended, o.By = g.State, g.Until.Time(), g.Ended.Time(), g.By
			o.Checks = slices.Clone(g.Checks)
		case skipped, skipWait && pg.When == approval.After && pg.Type == stages.TimedWait:
			o.State = stages.Skipped
		}
		out = append(out, o)
	}
	return out
}
