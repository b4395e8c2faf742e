package step

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// maxMessage limits the messages that a run keeps, in bytes.
const maxMessage = 256

// draft is the run that a step makes: a copy of the input run, with the events that led to it. It
// keeps the account of clusters consistent. It decides nothing: the deciding types hold a
// draft and change the run through it.
type draft struct {
	p   *stages.Plan
	r   Run
	now stages.Instant
	// events are the events of this step, and changed reports whether the run must be saved.
	events  []stages.Event
	changed bool
	// domains is the load of the current stage, nil until first used.
	domains *domainLoad
}

// newDraft copies the parts of a run that a step may change: its lists, and its current stage.
func newDraft(p *stages.Plan, r Run, now time.Time) *draft {
	// An instant of 0 is none, so a run's time is at least 1.
	d := &draft{p: p, r: r, now: max(min(stages.At(now), stages.LastNow), r.Now, 1)}
	d.r.Now = d.now
	d.r.form.InFlight = slices.Clone(r.form.InFlight)
	d.r.form.Waiting = slices.Clone(r.form.Waiting)
	d.r.form.Unsuccessful = slices.Clone(r.form.Unsuccessful)
	d.r.form.Seen = slices.Clone(r.form.Seen)
	d.r.form.Stages = slices.Clone(r.form.Stages)
	d.copyStage()
	return d
}

// reading returns a draft for queries: it shares everything with the run and must not be changed.
func reading(p *stages.Plan, r *Run) *draft { return &draft{p: p, r: *r, now: r.Now} }

// copyStage copies the parts of the current stage that are shared with the input run.
func (d *draft) copyStage() {
	if d.r.form.Stage >= len(d.r.form.Stages) {
		return
	}
	st := &d.r.form.Stages[d.r.form.Stage]
	st.Groups = slices.Clone(st.Groups)
	st.Gates = slices.Clone(st.Gates)
	st.Checks = slices.Clone(st.Checks)
	cloneChecks(st.Gates)
	for i := range st.Groups {
		g := &st.Groups[i]
		g.Gates, g.Deferred, g.Cells = slices.Clone(g.Gates), slices.Clone(g.Deferred), slices.Clone(g.Cells)
		cloneChecks(g.Gates)
	}
}

// cloneChecks copies the checks of gates.
func cloneChecks(gates []runstate.Gate) {
	for i := range gates {
		gates[i].Checks = slices.Clone(gates[i].Checks)
	}
}

// stage returns the current stage of the plan and of the run; false when all
// are done.
func (d *draft) stage() (*stages.PlannedStage, *runstate.StageRun, bool) {
	if d.r.form.Stage >= len(d.p.Stages) {
		return nil, nil, false
	}
	return &d.p.Stages[d.r.form.Stage], &d.r.form.Stages[d.r.form.Stage], true
}

// groupOf returns the planned group of the current stage that contains pos, and its state in the
// run; nil if pos is not in the current stage.
func (d *draft) groupOf(pos int) (*stages.PlannedGroup, *runstate.GroupRun) {
	st, run, _ := d.stage()
	i, found := slices.BinarySearchFunc(st.Groups, pos, func(g stages.PlannedGroup, pos int) int {
		switch {
		case pos < g.First:
			return 1
		case pos >= g.First+g.Len:
			return -1
		default:
			return 0
		}
	})
	if !found {
		return nil, nil
	}
	return &st.Groups[i], &run.Groups[i]
}

// nextStage leaves the current stage for the one after it.
func (d *draft) nextStage() {
	d.tidyStage()
	d.r.form.Stage++
	d.domains = nil
	d.copyStage()
	d.changed = true
}

// set moves the run to a state.
func (d *draft) set(state stages.State, reason string) {
	d.r.State, d.r.Reason, d.r.Ahead = state, cut(reason), ""
	d.changed = true
}

// eventsUsual is the usual number of events of a step: a cluster is applied, healthy and done, and
// the next one begins.
const eventsUsual = 4

// emit records an event of the run, and that the run changed.
func (d *draft) emit(e stages.Event) {
	e.Time = d.now.Time()
	e.Placement, e.Run = d.r.Placement, d.r.Name
	if d.events == nil {
		d.events = make([]stages.Event, 0, eventsUsual)
	}
	d.events = append(d.events, e)
	d.changed = true
}

// emitStage records an event of the current stage.
func (d *draft) emitStage(e stages.Event) {
	e.Stage = d.p.Stages[d.r.form.Stage].Name
	d.emit(e)
}

// emitCluster records an event of the cluster at pos.
func (d *draft) emitCluster(pos int, e stages.Event) {
	e.Stage, e.Group = namesAt(d.p, pos)
	e.Cluster = d.p.Clusters[pos].Name
	d.emit(e)
}

// namesAt returns the names of the stage and the group of pos.
func namesAt(p *stages.Plan, pos int) (stage, group string) {
	i, j := p.StageOf(pos)
	return p.Stages[i].Name, p.Stages[i].Groups[j].Name
}

// tidy sets empty lists to nil, so that a decoded run equals the result of the step.
func (d *draft) tidy() {
	r := &d.r
	r.form.InFlight, r.form.Waiting, r.form.Unsuccessful, r.form.Seen = orNil(r.form.InFlight), orNil(r.form.Waiting), orNil(r.form.Unsuccessful), orNil(r.form.Seen)
	d.tidyStage()
}

// tidyStage does the same for the current stage.
func (d *draft) tidyStage() {
	if _, run, ok := d.stage(); ok {
		run.Gates = orNil(run.Gates)
		for i := range run.Groups {
			g := &run.Groups[i]
			g.Gates, g.Deferred = orNil(g.Gates), orNil(g.Deferred)
		}
	}
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// cut shortens a message that the run keeps.
func cut(m string) string { return values.Cut(m, maxMessage) }
