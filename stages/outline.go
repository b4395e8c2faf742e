package stages

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// Outline is the state of a run for people.
type Outline struct {
	Run    State          `json:"run"`
	Stages []StageOutline `json:"stages"`
}

// StageOutline is the state of a stage for people.
type StageOutline struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Started is when its first cluster could start, Ended when it ended.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Groups has at least one element; the one of a stage without groups has no
	// name.
	Groups []GroupOutline `json:"groups"`
	Gates  []GateOutline  `json:"gates,omitempty"`
	// Checks are the states of the checks that are measured while the stage is in progress.
	Checks []CheckRun `json:"checks,omitempty"`
}

// GroupOutline is the state of a group.
type GroupOutline struct {
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
	// Clusters is the number of clusters. The clusters counted in no field below have not
	// started or wait to be started.
	Clusters  int           `json:"clusters"`
	InFlight  int           `json:"inFlight,omitempty"`
	Completed int           `json:"completed,omitempty"`
	Failed    int           `json:"failed,omitempty"`
	Skipped   int           `json:"skipped,omitempty"`
	Gates     []GateOutline `json:"gates,omitempty"`
}

// GateOutline is the state of a task of a stage or a group: NotStarted before the run has
// reached it, then Pending, Completed, Skipped or, if it was rejected, Failed.
type GateOutline struct {
	When  approval.When `json:"when"`
	Type  TaskType      `json:"type"`
	State State         `json:"state"`
	// Until is when it ends by itself, or its request expires.
	Until time.Time `json:"until,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// By is the identity that ended a ScheduledStart before its time.
	By string `json:"by,omitempty"`
	// Checks are the states of the checks of a CheckTask.
	Checks []CheckRun `json:"checks,omitempty"`
}

// Derive returns the state of the run, its stages, groups and gates. It changes nothing, and its cost grows
// with the stages and groups, the clusters in flight and the exceptions, not with the fleet.
//
// In profile ClusterUpdate the states follow from those below, in this order:
//
//   - A group is Skipped when an operator skipped it or its stage and nothing of
//     it is in flight, or when all its clusters are Skipped. It is Failed when
//     more clusters have failed than its budget allows, or, where it has no
//     budget of its own, when some have failed and the stage has, and when a
//     request of it was rejected. It is Pending while a gate of its own holds it,
//     and while none of its clusters is in flight or has ended in another way
//     than being skipped. Otherwise it is Running until all clusters have ended
//     and the gates after it have passed, and then Completed. A group that a stop
//     or the failure of its stage left unfinished is Stopping while clusters of
//     it are in flight, then Stopped.
//   - A stage is the same over its groups: Skipped by an operator or when all
//     groups are, Pending while it has not started and while a gate other than
//     the wait after it holds it, or while every group is Pending, not started or
//     Skipped.
//   - The run is Pending when its current stage is, and Skipped when all stages
//     are.
//
// In the other profiles the run and the stages have the states of their
// records; groups are as above.
//
// Of a run that is not one of the plan, by [Check], it returns the state alone.
func Derive(p *Plan, r *Run) Outline {
	if Check(p, r) != nil {
		return Outline{Run: r.State}
	}
	return derive(p, r)
}

func derive(p *Plan, r *Run) Outline {
	d := newDeriver(p, r)
	out := Outline{Run: r.State, Stages: make([]StageOutline, len(p.Stages))}
	skipped := 0
	for i := range p.Stages {
		out.Stages[i] = d.stage(i)
		if out.Stages[i].State == Skipped {
			skipped++
		}
	}
	if p.Strategy.Profile != ClusterUpdate {
		return out
	}
	switch {
	case r.State == Completed && skipped == len(p.Stages):
		out.Run = Skipped
	case r.State == Running && r.Stage < len(p.Stages) && out.Stages[r.Stage].State == Pending:
		out.Run = Pending
	}
	return out
}

// StateOf returns the state of the run for people, as [Derive] does.
func StateOf(p *Plan, r *Run) State { return derive(p, r).Run }

// deriver derives the states of the stages of a run.
type deriver struct {
	p *Plan
	r *Run
	// flying has the clusters in flight of each group of the current stage.
	flying []int
	// next is the first unsuccessful range that is not before the group at hand: stages
	// and groups are gone through in order.
	next int
}

func newDeriver(p *Plan, r *Run) *deriver {
	d := &deriver{p: p, r: r}
	if r.Stage < len(p.Stages) {
		d.flying = make([]int, len(p.Stages[r.Stage].Groups))
	}
	for i := range r.InFlight {
		if f := &r.InFlight[i]; f.Attempt != 0 {
			if stage, group := p.StageOf(f.Pos); stage == r.Stage {
				d.flying[group]++
			}
		}
	}
	return d
}

func (d *deriver) stage(i int) StageOutline {
	st, run := &d.p.Stages[i], &d.r.Stages[i]
	out := StageOutline{
		Name: st.Name, State: run.State, Started: run.Started.Time(), Ended: run.Ended.Time(),
		Groups: make([]GroupOutline, len(st.Groups)), Checks: slices.Clone(run.Checks),
	}
	for j := range st.Groups {
		out.Groups[j] = d.group(i, j)
	}
	if d.p.Strategy.Profile == ClusterUpdate {
		out.State = d.stageState(i, out.Groups)
	}
	out.Gates = gateOutlines(st.Gates, run.Gates, out.State == Skipped, run.SkipWait)
	return out
}

// stageState is the state of a stage over its groups.
func (d *deriver) stageState(i int, groups []GroupOutline) State {
	run := &d.r.Stages[i]
	of := countStates(groups)
	switch {
	case run.Reached == 0:
		if size := d.p.Stages[i].Size(); size > 0 && of[Skipped] == len(groups) {
			return Skipped
		}
		return NotStarted
	case run.Ended != 0:
		if of[Skipped] == len(groups) {
			return Skipped
		}
		return run.State
	case d.r.State != Running:
		return d.held(run.State)
	case run.Started == 0 || isOpen(run.Gates, Approval), of[Pending] > 0 && of[Pending]+of[NotStarted]+of[Skipped] == len(groups):
		return Pending
	default:
		return Running
	}
}

func countStates(groups []GroupOutline) map[State]int {
	of := map[State]int{}
	for i := range groups {
		of[groups[i].State]++
	}
	return of
}

// held is the state of a stage that a run which is not Running is in.
func (d *deriver) held(own State) State {
	switch d.r.State {
	case Stopping, Stopped:
		return d.r.State
	default:
		return own
	}
}

func (d *deriver) group(stage, group int) GroupOutline {
	st, run := &d.p.Stages[stage], &d.r.Stages[stage]
	g, gr := &st.Groups[group], &GroupRun{}
	if len(run.Groups) > 0 {
		gr = &run.Groups[group]
	}
	out := GroupOutline{Name: g.Name, Clusters: g.Len, Completed: gr.Completed}
	if stage == d.r.Stage {
		out.InFlight = d.flying[group]
	}
	d.unsuccessful(g, &out)
	out.State = d.groupState(stage, g, gr, &out)
	out.Gates = gateOutlines(g.Gates, gr.Gates, out.State == Skipped, false)
	return out
}

// unsuccessful counts the clusters of a group that have failed or are skipped.
func (d *deriver) unsuccessful(g *PlannedGroup, out *GroupOutline) {
	es, last := d.r.Unsuccessful, g.First+g.Len-1
	for d.next < len(es) && es[d.next].Last < g.First {
		d.next++
	}
	for i := d.next; i < len(es) && es[i].First <= last; i++ {
		n := min(es[i].Last, last) - max(es[i].First, g.First) + 1
		if es[i].State == Failed {
			out.Failed += n
		} else {
			out.Skipped += n
		}
	}
}

func (d *deriver) groupState(stage int, g *PlannedGroup, gr *GroupRun, out *GroupOutline) State {
	run := &d.r.Stages[stage]
	left := out.Clusters - out.Completed - out.Failed - out.Skipped
	switch {
	case d.p.Stages[stage].Pause || g.Pause:
		return d.pauseState(g, run, gr)
	case run.Reached == 0 && out.Clusters == 0:
		return NotStarted
	case out.Skipped == out.Clusters, (gr.SkipGates || run.SkipGates) && left == 0:
		return Skipped
	case run.Started == 0:
		return NotStarted
	case d.groupFailed(run, g, gr, out):
		return Failed
	case left == 0 && (len(g.Gates) == 0 || gr.Ended != 0):
		return Completed
	default:
		return d.unfinished(gr, out)
	}
}

// pauseState is the state of a group without clusters that holds the run.
func (d *deriver) pauseState(g *PlannedGroup, run *StageRun, gr *GroupRun) State {
	switch {
	case run.Reached == 0, len(g.After) > 0 && gr.Reached == 0 && !gr.SkipGates && !run.SkipGates:
		return NotStarted
	case run.TimedOut || gr.TimedOut || isRejected(gr.Gates) || isRejected(run.Gates):
		return Failed
	case gr.SkipGates || run.SkipGates:
		return Skipped
	case g.Pause && gr.Ended != 0, !g.Pause && run.Started != 0:
		return Completed
	case d.r.State == Running:
		return Pending
	default:
		return d.unfinished(gr, &GroupOutline{})
	}
}

func (d *deriver) groupFailed(run *StageRun, g *PlannedGroup, gr *GroupRun, out *GroupOutline) bool {
	if isRejected(gr.Gates) || gr.TimedOut {
		return true
	}
	failed := run.State == Failed && out.Failed > 0
	if g.MaxFailures < 0 {
		return failed
	}
	return out.Failed > g.MaxFailures || g.Strict && failed && out.Failed == g.MaxFailures
}

// unfinished returns the state of a group that has clusters left or that a gate after it holds.
func (d *deriver) unfinished(gr *GroupRun, out *GroupOutline) State {
	switch {
	case out.InFlight > 0 && d.r.State == Stopping:
		return Stopping
	case d.r.State == Aborted:
		return Aborted
	case d.r.State != Running:
		return Stopped
	case isOpen(gr.Gates, Approval), out.InFlight+out.Completed+out.Failed == 0:
		return Pending
	default:
		return Running
	}
}

// isOpen reports whether a gate holds the run that is of the type or stands before.
func isOpen(gates []Gate, typ TaskType) bool {
	for i := range gates {
		if g := &gates[i]; g.State == Pending && (g.Type == typ || g.When == approval.Before) {
			return true
		}
	}
	return false
}

func isRejected(gates []Gate) bool {
	for i := range gates {
		if g := &gates[i]; g.State == Failed && (len(g.Decisions) > 0 || g.Type == CheckTask) && g.Ended != 0 {
			return true
		}
	}
	return false
}

// gateOutlines are the planned gates with their states, in the order of the plan.
func gateOutlines(planned []PlannedGate, gates []Gate, skipped, skipWait bool) []GateOutline {
	var out []GateOutline
	for i := range planned {
		pg := &planned[i]
		o := GateOutline{When: pg.When, Type: pg.Type, State: NotStarted}
		g := GateOf(gates, pg)
		switch {
		case g != nil:
			o.State, o.Until, o.Ended, o.By = g.State, g.Until.Time(), g.Ended.Time(), g.By
			o.Checks = slices.Clone(g.Checks)
		case skipped, skipWait && pg.When == approval.After && pg.Type == TimedWait:
			o.State = Skipped
		}
		out = append(out, o)
	}
	return out
}
