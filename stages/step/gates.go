package step

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// gates are the gates of the current stage or of one of its groups, as planned and with their state
// in the run.
type gates struct {
	d *draft
	// group is the group's name, empty for the whole stage.
	group   string
	planned []stages.PlannedGate
	list    *[]runstate.Gate
	// reached is when the gates before the clusters open, and ended when the gates after them open.
	reached, ended stages.Instant
	// skip reports whether the gates do not hold the run, and skipWait whether the wait after the
	// clusters does not.
	skip, skipWait bool
	// pause reports whether the stage or the group is a Pause. A command can end the wait of a
	// Pause early.
	pause bool
}

func stageGates(d *draft, st *stages.PlannedStage, run *runstate.StageRun) gates {
	return gates{
		d: d, planned: st.Gates, list: &run.Gates, reached: run.Reached, ended: run.Done,
		skip: run.SkipGates, skipWait: run.SkipWait, pause: st.Pause,
	}
}

func groupGates(d *draft, run *runstate.StageRun, g *stages.PlannedGroup, gr *runstate.GroupRun) gates {
	return gates{
		d: d, group: g.Name, planned: g.Gates, list: &gr.Gates, reached: gr.Reached, ended: gr.Done,
		skip: run.SkipGates || gr.SkipGates, pause: g.Pause,
	}
}

// allGates are the gates of the current stage and of its groups.
type allGates struct{ d *draft }

func gatesOf(d *draft) allGates { return allGates{d} }

// each yields the gates of the current stage, then the gates of each of its groups that has some.
func (a allGates) each(yield func(gates) bool) {
	st, run, ok := a.d.stage()
	if !ok || !yield(stageGates(a.d, st, run)) {
		return
	}
	for i := range run.Groups {
		if len(st.Groups[i].Gates) > 0 && !yield(groupGates(a.d, run, &st.Groups[i], &run.Groups[i])) {
			return
		}
	}
}

// open yields every open gate.
func (a allGates) open(yield func(gates, *runstate.Gate) bool) {
	for gs := range a.each {
		for i := range *gs.list {
			if g := &(*gs.list)[i]; g.State == stages.Pending && !yield(gs, g) {
				return
			}
		}
	}
}

// close skips the open gates.
func (a allGates) close() {
	for gs, g := range a.open {
		gs.end(g, stages.Skipped)
	}
}

// requests returns the approval requests of the open gates, unless the run takes no more decisions.
func (a allGates) requests() []approval.Request {
	if a.d.r.IsEnded() || a.d.r.isEnding() {
		return nil
	}
	var out []approval.Request
	for gs, g := range a.open {
		if g.Type == stages.Approval {
			out = append(out, gs.request(g))
		}
	}
	return out
}

// pass opens the gates on one side and reports whether all have passed.
func (gs *gates) pass(when approval.When) bool {
	if gs.skip {
		return true
	}
	passed := true
	// checks are last: they must hold when everything else has ended
	for _, last := range []bool{false, true} {
		for i := range gs.planned {
			if pg := &gs.planned[i]; pg.When == when && (pg.Type == stages.CheckTask) == last && !gs.passes(pg, gs.open(pg)) {
				passed = false
			}
		}
	}
	return passed
}

// open returns the planned gate's run, opening it when it is reached.
func (gs *gates) open(pg *stages.PlannedGate) *runstate.Gate {
	if g := runstate.GateOf(*gs.list, pg); g != nil {
		return g
	}
	opened := gs.reached
	if pg.When == approval.After {
		opened = gs.ended
	}
	*gs.list = append(*gs.list, runstate.Gate{When: pg.When, Type: pg.Type, State: stages.Pending, Opened: opened})
	g := &(*gs.list)[len(*gs.list)-1]
	gs.d.changed = true
	switch {
	case pg.Type == stages.Approval:
		gs.ask(pg, g)
	case pg.Type == stages.CheckTask:
		gs.measure(pg, g)
	case pg.Type == stages.ScheduledStart:
		g.Until = stages.At(pg.Schedule.Next(opened.Time()))
		gs.emit(stages.Event{Type: stages.WaitStarted, Until: g.Until.Time(), Message: stages.ScheduledStartMessage})
	case pg.When == approval.After && gs.skipWait:
		gs.end(g, stages.Skipped)
	default:
		g.Until = opened.Add(pg.Wait.Duration)
		gs.emit(stages.Event{Type: stages.WaitStarted, Until: g.Until.Time()})
	}
	return g
}

// ask opens an approval request, as the next attempt of the gate.
func (gs *gates) ask(pg *stages.PlannedGate, g *runstate.Gate) {
	g.Attempt++
	g.State, g.Decisions, g.Until, g.Ended, g.Answered = stages.Pending, nil, 0, 0, nil
	if g.Attempt > 1 {
		g.Opened = gs.d.now
	}
	if valid := pg.Policy.Expires.Duration; valid > 0 {
		g.Until = g.Opened.Add(valid)
	}
	gs.emit(stages.Event{
		Type: stages.ApprovalRequested, Request: gs.request(g).Name, Attempt: g.Attempt,
		Digest: gs.d.p.Digest, Until: g.Until.Time(),
	})
}

// passes reports whether a gate lets the run through now.
func (gs *gates) passes(pg *stages.PlannedGate, g *runstate.Gate) bool {
	switch {
	case g.State == stages.Failed && g.Type == stages.CheckTask:
		gs.measure(pg, g)
		return false
	case g.State == stages.Failed: // rejected, and then the run was started again
		gs.ask(pg, g)
		return false
	case g.State != stages.Pending:
		return true
	case g.Type == stages.CheckTask:
		if !gs.checked(g) {
			return false
		}
		gs.end(g, stages.Completed)
		return true
	case g.Type == stages.TimedWait && gs.skipWait && g.When == approval.After:
		gs.end(g, stages.Skipped)
		return true
	case g.Until == 0 || gs.d.now < g.Until:
		return false
	case g.Type == stages.Approval:
		gs.emit(stages.Event{Type: stages.ApprovalExpired, Request: gs.request(g).Name, Attempt: g.Attempt, Digest: gs.d.p.Digest})
		gs.ask(pg, g)
		return false
	}
	gs.end(g, stages.Completed)
	gs.emit(g.EndEvent(""))
	return true
}

// plannedOf returns the planned gate of an open gate.
func (gs *gates) plannedOf(g *runstate.Gate) *stages.PlannedGate {
	for i := range gs.planned {
		if pg := &gs.planned[i]; pg.When == g.When && pg.Type == g.Type {
			return pg
		}
	}
	return nil
}

// measure begins the checks of a gate, as its next attempt.
func (gs *gates) measure(pg *stages.PlannedGate, g *runstate.Gate) {
	g.Attempt++
	g.State, g.Ended = stages.Pending, 0
	if g.Attempt > 1 {
		g.Opened = gs.d.now
	}
	g.Checks, g.Until = newCheckRuns(pg.Checks, g.Opened), checkExpiry(pg.Checks, g.Opened)
	gs.d.changed = true
}

// checked reports whether the checks of a gate let the run pass. Each must be Successful, and its
// last measurement must have been requested after all other tasks of that side ended. If only such
// a measurement is missing, it becomes due at once.
func (gs *gates) checked(g *runstate.Gate) bool {
	var others stages.Instant
	for i := range gs.planned {
		if pg := &gs.planned[i]; pg.When == g.When && pg.Type != stages.CheckTask {
			o := runstate.GateOf(*gs.list, pg)
			if o == nil || o.State == stages.Pending || o.State == stages.Failed {
				return false
			}
			others = max(others, o.Ended)
		}
	}
	passed := true
	for i := range g.Checks {
		r := &g.Checks[i]
		if r.Phase != check.Successful {
			passed = false
			continue
		}
		if r.At < others || r.Last != check.Successful {
			passed = false
			if r.At < others && (r.Next == 0 || r.Next > gs.d.now) {
				r.Next = others
				gs.d.changed = true
			}
		}
	}
	return passed
}

// where names the side of a stage or a group.
func where(when approval.When, stage, group string) string {
	out := "before "
	if when == approval.After {
		out = "after "
	}
	if group != "" {
		return out + "group " + group + " of stage " + stage
	}
	return out + "stage " + stage
}

// end closes a gate.
func (gs *gates) end(g *runstate.Gate, state stages.State) {
	g.State, g.Ended = state, gs.d.now
	gs.d.changed = true
}

// skipOpen closes the gates that are open.
func (gs *gates) skipOpen() {
	for i := range *gs.list {
		if g := &(*gs.list)[i]; g.State == stages.Pending {
			gs.end(g, stages.Skipped)
		}
	}
}

// emit records an event of the stage or the group.
func (gs *gates) emit(e stages.Event) {
	e.Group = gs.group
	gs.d.emitStage(e)
}

// request returns the approval request of a gate.
func (gs *gates) request(g *runstate.Gate) approval.Request {
	p, r := gs.d.p, &gs.d.r
	stage := p.Stages[r.form.Stage].Name
	req := approval.Request{
		Name: p.Strategy.Requests.RequestName(r.Name, stage, gs.group, g.When),
		Run:  r.Name, Placement: r.Placement, Snapshot: p.Index, Starter: r.Starter,
		Binding: approval.Binding{
			RunUID: r.UID, Stage: stage, Group: gs.group, When: g.When, Attempt: g.Attempt, Plan: p.Digest,
		},
		Opened: g.Opened.Time(), Decisions: g.Decisions,
	}
	for i := range gs.planned {
		if pg := &gs.planned[i]; pg.When == g.When && pg.Type == stages.Approval {
			req.Policy = pg.Policy
		}
	}
	for i := range *gs.list {
		if w := &(*gs.list)[i]; w.When == g.When && w.Type != stages.Approval && w.Type != stages.CheckTask && w.State == stages.Pending && w.Until > stages.At(req.NotBefore) {
			req.NotBefore = w.Until.Time()
		}
	}
	return req
}

// reopen resets the gates after clusters that are retried. Passed gates stay passed; open ones
// begin again once the clusters have ended, with a new request or a new wait.
func reopen(list []runstate.Gate) []runstate.Gate {
	out := list[:0]
	for _, g := range list {
		// The measurements were about the clusters before the retry.
		if g.When == approval.After && (g.State == stages.Pending || g.State == stages.Completed && g.Type == stages.CheckTask) {
			switch g.Type {
			case stages.Approval:
				g.State = stages.Failed
			case stages.TimedWait:
				continue
			case stages.CheckTask:
				g.State, g.Ended = stages.Failed, 0
			default:
			}
		}
		out = append(out, g)
	}
	clear(list[len(out):])
	return out
}

// unskip resets the gates of a group that were skipped with its clusters, so that a cluster that is
// started again waits at them. Approval requests are made again.
func unskip(list []runstate.Gate) {
	for i := range list {
		switch g := &list[i]; {
		case g.State != stages.Skipped:
		case g.Type == stages.Approval || g.Type == stages.CheckTask:
			g.State, g.Ended = stages.Failed, 0
		default:
			g.State, g.Ended = stages.Pending, 0
		}
	}
}
