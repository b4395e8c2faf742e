package step

import (
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// measured records measurements. It ignores a measurement whose number is not the next one of its
// check, so that each counts once.
func (c control) measured(all []check.Measured) {
	for i := range all {
		m := &all[i]
		st, run, ok := c.stage()
		if !ok || st.Name != m.Stage {
			continue
		}
		switch {
		case m.Cluster != "":
			c.measuredCluster(st, m)
		case c.r.State != stages.Running:
		case m.When != "":
			c.measuredGate(m)
		default:
			c.measuredStage(st, run, m)
		}
	}
}

// take records a measurement and returns its check. It returns nil if the check does not expect the
// measurement.
func (c control) take(planned []check.Check, checks []stages.CheckRun, m *check.Measured, endless bool) (*check.Check, *stages.CheckRun) {
	i := slices.IndexFunc(planned, func(pc check.Check) bool { return pc.Name == m.Name })
	if i < 0 || i >= len(checks) || checks[i].HasEnded() || m.Number != checks[i].Number+1 {
		return nil, nil
	}
	pc, run := &planned[i], &checks[i]
	at := c.now
	if !m.At.IsZero() {
		at = min(stages.At(m.At), c.now)
	}
	// A measurement that was requested before it was due belongs to checks that have been
	// restarted, or is older than the end of other tasks beside it.
	if !run.IsDue(at) {
		return nil, nil
	}
	before, was := run.Phase, run.Last
	result := pc.Judge(m.Answer)
	takeMeasurement(run, pc, result, at, c.now, endless)
	c.changed = true
	if run.Last == was && run.Phase == before {
		return pc, run
	}
	e := stages.Event{
		Type: stages.CheckMeasured, Group: m.Group, Check: run.Name, Result: string(run.Last), Value: run.Value, Query: m.Query,
		Attempt: m.Attempt, Count: run.Number, Message: run.Message,
	}
	if run.Phase != before {
		e.Type, e.Result = stages.CheckEnded, string(run.Phase)
	}
	if pos, ok := c.p.Position(m.Cluster); ok {
		c.emitCluster(pos, e)
	} else {
		c.emitStage(e)
	}
	return pc, run
}

// measuredGate records a measurement of a gate of the current stage or of one of its groups.
func (c control) measuredGate(m *check.Measured) {
	for gs, g := range gatesOf(c.draft).open {
		if g.Type != stages.CheckTask || gs.group != m.Group || string(g.When) != m.When || g.Attempt != m.Attempt {
			continue
		}
		pg := gs.plannedOf(g)
		pc, run := c.take(pg.Checks, g.Checks, m, false)
		if pc == nil {
			return
		}
		if run.Phase == check.Failed || run.Phase == check.Error {
			c.rejectGate(gs, g, run.Says())
		}
		return
	}
}

// expireChecks ends the run if checks have not become Successful before they expired. Checks that
// only wait for other tasks of their side do not expire.
func (c control) expireChecks() {
	for gs, g := range gatesOf(c.draft).open {
		if g.Type == stages.CheckTask && c.r.State == stages.Running && c.now >= g.Until && !allSuccessful(g.Checks) {
			c.rejectGate(gs, g, "checks "+where(g.When, c.p.Stages[c.r.form.Stage].Name, gs.group)+" have expired: "+stages.UnsuccessfulChecks(g.Checks))
			return
		}
	}
}

// measuredStage records a measurement of the current stage. Failures count in its budget.
func (c control) measuredStage(st *stages.PlannedStage, run *runstate.StageRun, m *check.Measured) {
	if pc, _ := c.take(st.Checks, run.Checks, m, true); pc != nil && (run.Done == 0 || blockingChecks(run) != "") {
		c.checkBudget()
	}
}

// measuredCluster records a measurement of a healthy cluster.
func (c control) measuredCluster(st *stages.PlannedStage, m *check.Measured) {
	pos, ok := c.p.Position(m.Cluster)
	if !ok {
		return
	}
	f := c.r.form.At(pos)
	if f == nil || f.Phase != stages.Measuring || f.Attempt != m.Attempt {
		return
	}
	checks := *f.Checks
	checks.Checks = slices.Clone(checks.Checks)
	pc, run := c.take(st.ClusterChecks, checks.Checks, m, false)
	if pc == nil {
		return
	}
	f.Checks = &checks
	f.Message = ""
	if run.Last != check.Successful {
		f.Message = cut(run.Says())
	}
	switch {
	case run.Phase == check.Failed, run.Phase == check.Error:
		c.failCluster(f, run.Says())
	case allSuccessful(checks.Checks):
		c.complete(f, false)
	}
}

// questions returns the measurements that are due.
func questions(d *draft) (out []stages.Action) {
	st, run, ok := d.stage()
	if !ok || d.r.State != stages.Running && d.r.State != stages.Stopping {
		return nil
	}
	ask := func(a stages.Action, planned []check.Check, checks []stages.CheckRun, where check.Where, since stages.Instant) {
		for i := range checks {
			if r := &checks[i]; r.IsDue(d.now) && !r.HasEnded() {
				q := check.Question{Where: where, Check: &planned[i], Window: (d.now - since).Duration()}
				q.Stage, q.Name, q.Number = st.Name, r.Name, r.Number+1
				a.Type, a.Measure = stages.Measure, &q
				out = append(out, a)
			}
		}
	}
	if len(st.ClusterChecks) > 0 {
		for i := range d.r.form.InFlight {
			if f := &d.r.form.InFlight[i]; f.Attempt != 0 && f.Phase == stages.Measuring {
				c := &d.p.Clusters[f.Pos]
				a := stages.Action{Pos: f.Pos, Cluster: c.Name, UID: c.UID, Attempt: f.Attempt}
				_, group := namesAt(d.p, f.Pos)
				ask(a, st.ClusterChecks, f.Checks.Checks, check.Where{Group: group, Cluster: c.Name, Attempt: f.Attempt}, f.Checks.Since)
			}
		}
	}
	if d.r.State != stages.Running {
		return out
	}
	if run.Started != 0 && (run.Done == 0 || blockingChecks(run) != "") {
		ask(stages.Action{}, st.Checks, run.Checks, check.Where{}, run.Started)
	}
	for gs, g := range gatesOf(d).open {
		if g.Type == stages.CheckTask {
			ask(stages.Action{Attempt: g.Attempt}, gs.plannedOf(g).Checks, g.Checks, check.Where{Group: gs.group, When: string(g.When), Attempt: g.Attempt}, g.Opened)
		}
	}
	return out
}

// nextMeasurement sets the alarm to the time of the next measurement or expiry of a check.
func nextMeasurement(d *draft, w *alarm) {
	_, run, ok := d.stage()
	if !ok {
		return
	}
	due := func(checks []stages.CheckRun) {
		for i := range checks {
			w.at(checks[i].Next)
		}
	}
	for i := range d.r.form.InFlight {
		if f := &d.r.form.InFlight[i]; f.Attempt != 0 && f.Phase == stages.Measuring {
			due(f.Checks.Checks)
			w.at(f.Checks.Until)
		}
	}
	if d.r.State != stages.Running {
		return
	}
	if run.Done == 0 || blockingChecks(run) != "" {
		due(run.Checks)
	}
	for _, g := range gatesOf(d).open {
		due(g.Checks)
	}
}
