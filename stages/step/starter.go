package step

import (
	"math"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// starter starts clusters of the current stage within every cap: of the stage, its groups, its
// failure domains and its strict budget, and the cap that runs share.
type starter struct {
	*draft
	calendar stages.Calendar
	// slots is the number of clusters that may be in flight by the cap of the strategy.
	slots int
	// capEnds is the end of the first window in which only the cap keeps a cluster from starting.
	capEnds stages.Instant
}

// fill starts clusters while every cap allows, one from each group in turn. It keeps a slot for
// each unproven cluster of a group that is still to come.
func (s *starter) fill(st *stages.PlannedStage, run *runstate.StageRun) {
	room, own := s.room(st, run)
	room = min(room, s.spare())
	if blockingChecks(run) != "" {
		room = 0
	}
	for more := true; more; {
		more = false
		for i := range st.Groups {
			g, gr := &st.Groups[i], &run.Groups[i]
			c := newCursor(s.draft, g, gr)
			c.passSkipped()
			if own[i] <= c.unproven() {
				c.end = g.First + g.Unproven
			}
			if room > 0 && own[i] > 0 && gr.Admits(g, run) && s.startNext(c) {
				own[i]--
				room--
				more = true
			}
		}
	}
}

// room returns the number of clusters that the stage may start, and the number for each of its
// groups. With a strict budget, the clusters in flight count as failures.
func (s *starter) room(st *stages.PlannedStage, run *runstate.StageRun) (int, []int) {
	admitted := func(most, budget, failed int, strict bool) int {
		if strict {
			return min(limit(most), budget-failed)
		}
		return limit(most)
	}
	_, failed := run.Counts()
	failed += checkFailures(st, run)
	room, own := admitted(st.MaxConcurrency, st.MaxFailures, failed, st.Strict), make([]int, len(st.Groups))
	for i := range st.Groups {
		g := &st.Groups[i]
		own[i] = admitted(g.MaxConcurrency, g.MaxFailures, run.Groups[i].Failed, g.Strict)
	}
	group := 0
	for i := range s.r.form.InFlight {
		f := &s.r.form.InFlight[i]
		if f.Attempt == 0 {
			continue
		}
		room--
		if len(st.Groups) > 1 {
			_, group = s.p.StageOf(f.Pos)
		}
		own[group]--
	}
	return room, own
}

// keptFrom returns the number of slots that the group of the cluster at pos keeps for its unproven
// clusters; 0 if the cluster may start nevertheless.
func (s *starter) keptFrom(pos int) int {
	st, run, ok := s.stage()
	stage, group := s.p.StageOf(pos)
	if !ok || stage != s.r.form.Stage {
		return 0
	}
	g := &st.Groups[group]
	c := newCursor(s.draft, g, &run.Groups[group])
	_, own := s.room(st, run)
	if n := c.unproven(); pos >= g.First+g.Unproven && own[group] > 0 && own[group] <= n {
		return n
	}
	return 0
}

// startNext starts a cluster of a group: a retry that is due, the next new cluster, or an unreached
// cluster that is due. Unreached clusters come last, so that they never keep the others from their
// turn; but after UnreachableDeadline a cluster has its last try first.
func (s *starter) startNext(c cursor) bool {
	if s.reachLimit() > 0 {
		if i := s.due(c, s.isOverdue); i >= 0 {
			s.startAgain(i)
			return true
		}
	}
	if i := s.due(c, func(y *runstate.Retrying) bool { return y.Tries == 0 }); i >= 0 {
		s.startAgain(i)
		return true
	}
	if pos := s.pick(c); pos >= 0 {
		s.launch(runstate.InFlight{Pos: pos, Attempt: 1, Started: s.now})
		return true
	}
	if i := s.due(c, isUnreached); i >= 0 {
		s.startAgain(i)
		return true
	}
	return false
}

func isUnreached(y *runstate.Retrying) bool { return y.Tries > 0 }

// isOverdue reports whether a cluster in Waiting was not reached within UnreachableDeadline.
func (s *starter) isOverdue(y *runstate.Retrying) bool {
	return isUnreached(y) && s.now >= y.Since.Add(s.reachLimit())
}

// due returns the index in Waiting of a cluster before the end of c that must be started now and
// that matches which, or -1.
func (s *starter) due(c cursor, which func(*runstate.Retrying) bool) int {
	load := s.load()
	for i := range s.r.form.Waiting {
		if y := &s.r.form.Waiting[i]; which(y) && c.has(y.Pos) && load.full(s.p.Clusters[y.Pos].Cell) == nil && s.mayStart(y) {
			return i
		}
	}
	return -1
}

// dueUnreached returns the index in Waiting of a cluster, in the group of pos, that could not be
// reached, is due, and may have the slot of pos; or -1.
func (s *starter) dueUnreached(pos int) int {
	if _, run, ok := s.stage(); s.spare() < 0 || !ok || blockingChecks(run) != "" {
		return -1
	}
	g, gr := s.groupOf(pos)
	c := newCursor(s.draft, g, gr)
	if end := c.g.First + c.g.Unproven; pos < end {
		c.end = end
	}
	load, cell := s.load(), s.p.Clusters[pos].Cell
	load.count(cell, -1)
	defer load.count(cell, 1)
	return s.due(c, isUnreached)
}

// startAgain starts the cluster at index i of Waiting. The time that it was Pending counts only in
// a removal, whose deadline begins with the first attempt.
func (s *starter) startAgain(i int) {
	y := s.r.form.Waiting[i]
	s.dropRetry(i)
	f := runstate.InFlight{
		Pos: y.Pos, Attempt: y.Attempt, Sent: y.Sent, Tries: y.Tries,
		Started: s.now - stages.Instant(y.Spent), Message: y.Message,
	}
	if y.Tries > 0 {
		f.Since = y.Since
	}
	if st, _, ok := s.stage(); ok && st.Remove {
		f.Started = y.Started
	}
	s.launch(f)
}

// launch puts a cluster into flight. A repeated attempt to reach it emits no start event.
func (s *starter) launch(f runstate.InFlight) {
	f.Enter(stages.Applying)
	s.take(f)
	if f.Tries == 0 {
		s.emitCluster(f.Pos, stages.Event{Type: stages.ClusterStarted, Attempt: f.Attempt})
	}
}

// spare returns the number of clusters that may still start under the cap of the strategy.
func (s *starter) spare() int {
	if s.p.Strategy.Cap == "" {
		return math.MaxInt
	}
	return s.slots - s.r.form.Flying()
}

// wants returns the number of clusters that would be in flight without the cap. It records whether
// the cap holds clusters back. If only windows do, it records which.
func (s *starter) wants() int {
	if s.p.Strategy.Cap == "" {
		return 0
	}
	have := s.r.form.Flying()
	n := have
	if free := s.uncapped(); free != nil {
		s.capEnds = s.nextClosing(free.r.form.InFlight)
		if n = free.r.form.Flying(); n == have {
			s.r, s.events, s.changed = free.r, append(s.events, free.events...), s.changed || free.changed
		}
	}
	if s.r.form.Capped != (n > have) {
		s.r.form.Capped = n > have
		s.changed = true
	}
	return n
}

// uncapped returns the run that would result without the cap, or nil if the cap is not exhausted or
// the stage starts nothing now.
func (s *starter) uncapped() *draft {
	_, run, ok := s.stage()
	if s.spare() > 0 || s.r.State != stages.Running || !ok || run.Started == 0 || run.Done != 0 {
		return nil
	}
	free := starter{draft: newDraft(s.p, s.r, s.now.Time()), calendar: s.calendar, slots: math.MaxInt}
	st, run, _ := free.stage()
	free.fill(st, run)
	return free.draft
}

// nextClosing returns the first time at which a window closes, or is checked again, of the clusters
// that only the cap keeps from starting. From then on they wait for their window. inFlight are the
// clusters in flight without the cap.
func (s *starter) nextClosing(inFlight []runstate.InFlight) stages.Instant {
	first := alarm{now: s.now}
	for i := range inFlight {
		before := i < len(s.r.form.InFlight) && s.r.form.InFlight[i].Attempt != 0
		switch {
		case before || inFlight[i].Attempt == 0 || s.calendar == nil:
		case s.r.isBypassed():
			first.at(s.r.form.Bypass.Until)
		default:
			w := s.window(inFlight[i].Pos)
			first.at(w.Changes(s.now))
		}
	}
	return first.first
}
