package step

import (
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// maxSingleEvents is the number of clusters of a group that get an event each when the same thing
// happens to them at once.
const maxSingleEvents = 8

// skipping skips the unfinished parts of a run, for a reason.
type skipping struct {
	d      *draft
	reason string
}

// cluster skips a cluster that has not ended.
func (s skipping) cluster(pos int) {
	d := s.d
	if f := d.r.form.At(pos); f != nil {
		f.Drain = true
		d.changed = true
		// it would only expire
		if f.Phase == stages.BackingOff || f.Phase == stages.Measuring && isInconclusive(f.Checks.Checks) {
			d.leave(f, stages.Skipped, s.reason)
		}
		return
	}
	e := skipped(pos, s.reason)
	switch i := d.retrying(pos); {
	case i >= 0:
		e = skippedRetry(&d.r.form.Waiting[i], s.reason)
		d.dropRetry(i)
	case d.undefer(pos):
	case retryable(d.p, &d.r, pos):
		failed := runstate.UnsuccessfulAt(d.r.form.Unsuccessful, pos)
		e.Attempts, e.Sent, e.Gone = failed.Attempts, !failed.Unreached, failed.Gone
		d.removeUnsuccessful(pos)
		_, g := d.groupOf(pos)
		g.Failed--
	case d.ahead(pos):
		d.skipAhead(e)
		return
	default:
		return
	}
	d.recordSkipped(e)
}

// group skips the unfinished clusters of a group, and its gates.
func (s skipping) group(stage, group int) {
	d := s.d
	g := &d.p.Stages[stage].Groups[group]
	s.members(g.First, g.Len)
	run := &d.r.form.Stages[stage]
	if stage != d.r.form.Stage || len(run.Groups) == 0 || run.Groups[group].Ended != 0 {
		return
	}
	gr := &run.Groups[group]
	gr.SkipGates = true
	gs := groupGates(d, run, g, gr)
	gs.skipOpen()
	d.changed = true
}

// stage skips the unfinished clusters of a stage, and its gates.
func (s skipping) stage(i int) {
	for _, g := range s.d.p.Stages[i].Groups {
		s.members(g.First, g.Len)
	}
	if i == s.d.r.form.Stage {
		gatesOf(s.d).close()
	}
	s.d.r.form.Stages[i].SkipGates = true
	s.d.changed = true
}

// members skips the clusters of a group that have not ended, or have failed and might be retried.
func (s skipping) members(first, n int) {
	if n == 0 {
		return
	}
	d := s.d
	stage, group := d.p.StageOf(first)
	run := &d.r.form.Stages[stage]
	if stage > d.r.form.Stage || stage == d.r.form.Stage && (len(run.Groups) == 0 || run.Groups[group].Next == 0) {
		d.skipAhead(skipped(first, s.reason).Spanning(first, first+n-1))
		return
	}
	if stage == d.r.form.Stage {
		s.unstarted(&d.p.Stages[stage].Groups[group], &run.Groups[group])
	}
	for pos := first; pos < first+n; pos++ {
		s.cluster(pos)
	}
}

// unstarted skips the clusters of a group that have not started. Many of them share one event.
func (s skipping) unstarted(g *stages.PlannedGroup, gr *runstate.GroupRun) {
	d, n := s.d, g.Len-gr.Next
	for _, r := range gr.Deferred {
		n += r.Last - r.First + 1
	}
	if n <= maxSingleEvents {
		return
	}
	deferred, e := gr.Deferred, skipped(g.First, s.reason)
	gr.Deferred, n = nil, 0
	eachRun(g.First, g.First+g.Len-1, d.beyond, func(first, last int) { n += d.addUnsuccessful(e.Spanning(first, last)) })
	for _, r := range deferred {
		k := d.addUnsuccessful(e.Spanning(r.First, r.Last))
		gr.Skipped += k
		n += k
	}
	if n > 0 {
		d.emitStage(stages.Event{Type: stages.ClusterSkipped, Group: g.Name, Count: n, Message: cut(s.reason)})
	}
}

// gone records that a cluster has left the inventory.
func (s skipping) gone(name string) {
	d := s.d
	pos, ok := d.p.Position(name)
	if !ok || d.r.IsEnded() {
		return
	}
	e := skipped(pos, s.reason)
	e.Gone = true
	f, i := d.r.form.At(pos), d.retrying(pos)
	switch {
	case f != nil:
		d.free(f)
		d.recordSkipped(e)
	case i >= 0:
		d.dropRetry(i)
		d.recordSkipped(e)
	case d.undefer(pos):
		d.recordSkipped(e)
	case d.ahead(pos):
		d.skipAhead(e)
	default:
		if x := runstate.UnsuccessfulAt(d.r.form.Unsuccessful, pos); x != nil && !x.Gone {
			e = x.Spanning(pos, pos)
			e.Gone = true
			d.removeUnsuccessful(pos)
			d.r.form.Unsuccessful = mergeUnsuccessful(append(d.r.form.Unsuccessful, e))
		}
	}
}

// retryable reports whether the cluster at pos has failed and the run may retry it, so that it may
// be skipped instead.
func retryable(p *stages.Plan, r *Run, pos int) bool {
	e := runstate.UnsuccessfulAt(r.form.Unsuccessful, pos)
	stage, _ := p.StageOf(pos)
	again := r.form.Closing == nil && (p.Strategy.Profile == stages.ClusterUpdate || p.Strategy.Suspends())
	return e != nil && e.State == stages.Failed && again && stage == r.form.Stage
}

// eachRun calls do with every sequence of neighbours from first to last that all match.
func eachRun(first, last int, match func(int) bool, do func(first, last int)) {
	begin := -1
	for pos := first; pos <= last+1; pos++ {
		in := pos <= last && match(pos)
		if in && begin < 0 {
			begin = pos
		}
		if !in && begin >= 0 {
			do(begin, pos-1)
			begin = -1
		}
	}
}
