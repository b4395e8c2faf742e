package stages

import (
	"math"
	"slices"

	"github.com/slipway-dev/slipway/approval"
)

// advance moves the run on by one transition and tells whether another may
// follow.
func (s *stepper) advance() bool {
	switch s.r.State {
	case NotStarted, Pending:
		return s.begin()
	case Running:
		return s.runStage()
	case Stopping:
		s.countEnded()
		s.endStopping()
	case Stopped:
		s.countEnded()
	default:
	}
	return false
}

// countEnded records when the last cluster of the stage ended while the run is
// stopped: what waits for that is not to begin with the resume.
func (s *stepper) countEnded() {
	st, run, ok := s.stage()
	if !ok || run.Started == 0 || run.Done != 0 {
		return
	}
	for i := range st.Groups {
		s.passSkipped(&st.Groups[i], &run.Groups[i])
	}
	if s.clustersEnded(st, run) {
		run.Done = s.now
		s.changed = true
	}
}

// begin starts the run, unless it is held or waits for another one.
func (s *stepper) begin() bool {
	if s.r.Hold {
		return false
	}
	if s.blocked != "" {
		if reason := waitsFor + s.blocked; s.r.Reason != reason {
			s.set(Pending, reason)
			s.emit(Event{Type: RunQueued, Message: s.blocked})
		}
		return false
	}
	s.set(Running, "")
	s.r.Started, s.r.Attempt = s.now, 1
	s.emit(Event{Type: RunStarted, Index: &s.p.Index, Digest: s.p.Digest})
	return true
}

// runStage does what the current stage allows.
func (s *stepper) runStage() bool {
	st, run, ok := s.stage()
	if !ok {
		s.finish()
		return false
	}
	if run.Reached == 0 {
		run.Reached, run.State = s.now, Pending
		run.Groups = make([]GroupRun, len(st.Groups))
		s.changed = true
	}
	if run.Started == 0 {
		if s.nobodyLeft(st) {
			return s.passOver(st, run)
		}
		if !s.gatesPassed(approval.Before) {
			return false
		}
		run.Started, run.State = s.now, Running
		s.emitStage(Event{Type: StageStarted, Count: st.size()})
	}
	s.fill(st, run)
	if !s.clustersEnded(st, run) {
		return false
	}
	return s.leaveStage(run)
}

// nobodyLeft tells that every cluster of the stage is skipped already.
func (s *stepper) nobodyLeft(st *PlannedStage) bool {
	left := st.size()
	if left == 0 {
		return true
	}
	first := st.Groups[0].First
	last := first + left - 1
	for _, e := range s.r.Exceptions {
		if n := min(e.Last, last) - max(e.First, first) + 1; n > 0 {
			left -= n
		}
	}
	return left == 0
}

// passOver leaves a stage in which nothing is to be done, without its gates.
func (s *stepper) passOver(st *PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		s.passSkipped(&st.Groups[i], &run.Groups[i])
	}
	s.closeGates()
	run.State, run.Done, run.Ended = Skipped, s.now, s.now
	s.emitStage(Event{Type: StageSkipped})
	s.nextStage()
	return true
}

// fill starts clusters while every cap allows, one from each group in turn.
func (s *stepper) fill(st *PlannedStage, run *StageRun) {
	room, used := s.room(st)
	for more := true; more; {
		more = false
		for i := range st.Groups {
			g, gr := &st.Groups[i], &run.Groups[i]
			s.passSkipped(g, gr)
			if room > 0 && used[i] < limit(g.MaxConcurrency) && s.startNext(g, gr) {
				used[i]++
				room--
				more = true
			}
		}
	}
}

// room returns how many clusters the stage may start, and how many of each
// group are in flight.
func (s *stepper) room(st *PlannedStage) (int, []int) {
	used := make([]int, len(st.Groups))
	room, g := limit(st.MaxConcurrency), 0
	for i := range s.r.Flights {
		f := &s.r.Flights[i]
		if f.Attempt == 0 {
			continue
		}
		room--
		if len(st.Groups) > 1 {
			_, g = s.p.StageOf(f.Pos)
		}
		used[g]++
	}
	return room, used
}

// limit reads a cap: 0 is none.
func limit(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// passSkipped moves the cursor of a group over clusters that are not to be
// started.
func (s *stepper) passSkipped(g *PlannedGroup, gr *GroupRun) {
	for gr.Next < g.Len {
		e := exceptionAt(s.r.Exceptions, g.First+gr.Next)
		if e == nil {
			return
		}
		n := min(e.Last-g.First, g.Len-1) + 1 - gr.Next
		gr.Next += n
		gr.Skipped += n
		s.changed = true
	}
}

// startNext starts a cluster of a group: one that is to be tried again, the one
// at the cursor, or one that could not be reached and is due. Those come last,
// so that however many cannot be reached, the others get their turn.
func (s *stepper) startNext(g *PlannedGroup, gr *GroupRun) bool {
	i := s.due(g, gr.Next >= g.Len)
	switch {
	case i >= 0:
		s.startAgain(i)
	case gr.Next < g.Len:
		gr.Next++
		s.launch(Flight{Pos: g.First + gr.Next - 1, Attempt: 1, Started: s.now})
	default:
		return false
	}
	return true
}

// startAgain starts the cluster at index i of Waiting. The time that it was
// Pending counts only in a removal, whose deadline begins with the first try.
func (s *stepper) startAgain(i int) {
	y := s.r.Waiting[i]
	s.unyield(i)
	f := Flight{
		Pos: y.Pos, Attempt: y.Attempt, Sent: y.Sent, Tries: y.Tries, Since: y.Since,
		Started: s.now - Instant(y.Spent), Message: y.Message,
	}
	if st, _, ok := s.stage(); ok && st.Remove {
		f.Started = y.Started
	}
	s.launch(f)
}

// due returns the index in Waiting of a cluster of g to be started now, or -1;
// of one that could not be reached only where unreached says so.
func (s *stepper) due(g *PlannedGroup, unreached bool) int {
	return slices.IndexFunc(s.r.Waiting, func(y Yielded) bool {
		return g.has(y.Pos) && y.NotYet <= s.now && (unreached || y.NotYet == 0)
	})
}

// launch puts a cluster into flight. Another try to reach it is no start.
func (s *stepper) launch(f Flight) {
	f.Phase = Applying
	s.take(f)
	if f.Tries > 0 {
		return
	}
	s.emitCluster(f.Pos, Event{Type: ClusterStarted, Attempt: f.Attempt})
}

func (s *stepper) clustersEnded(st *PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		if run.Groups[i].Next < st.Groups[i].Len {
			return false
		}
	}
	return len(s.r.Waiting) == 0 && len(s.r.Flights) == 0
}

// leaveStage goes on to the next stage once the after-stage gates have passed.
// A stage whose clusters were all skipped does not wait.
func (s *stepper) leaveStage(run *StageRun) bool {
	if run.Done == 0 {
		run.Done = s.now
		s.changed = true
	}
	completed, failed := run.counts()
	if completed+failed == 0 {
		s.closeGates()
		run.State, run.Ended = Skipped, s.now
		s.emitStage(Event{Type: StageSkipped})
		s.nextStage()
		return true
	}
	if !s.gatesPassed(approval.After) {
		return false
	}
	run.State, run.Ended = Completed, s.now
	s.emitStage(Event{Type: StageCompleted, Count: completed})
	s.nextStage()
	return true
}

func (s *stepper) nextStage() {
	s.r.Stage++
	s.ownStage()
	s.changed = true
}

func (s *stepper) finish() {
	total := 0
	for i := range s.r.Stages {
		if !s.p.Stages[i].Remove {
			completed, _ := s.r.Stages[i].counts()
			total += completed
		}
	}
	s.set(Completed, "")
	s.end(Event{Type: RunCompleted, Count: total})
}

// end records the end of the run, and of the stage that it was in.
func (s *stepper) end(e Event) {
	if _, st, ok := s.stage(); ok && st.Reached != 0 {
		if st.State = s.r.State; st.State == Superseded {
			st.State = Stopped
		}
	}
	s.r.Ended, s.r.StopAt, s.r.Ending = s.now, 0, ""
	s.emit(e)
}

// unendStage takes back what end said of the stage.
func (s *stepper) unendStage() {
	_, st, ok := s.stage()
	switch {
	case !ok || st.Reached == 0:
	case st.Started == 0:
		st.State = Pending
	default:
		st.State = Running
	}
}

// retries tells that a Start would try the failed clusters again.
func (s *stepper) retries() bool {
	switch s.r.State {
	case Failed:
		return true
	case Stopped, Stopping:
		return s.p.Strategy.Profile == Workflow
	default:
		return false
	}
}

// retryFailed lines the failed clusters of the current stage up again.
func (s *stepper) retryFailed() {
	st, run, ok := s.stage()
	if !ok {
		return
	}
	for _, e := range slices.Clone(s.r.Exceptions) {
		for pos := max(e.First, st.Groups[0].First); e.State == Failed && pos <= min(e.Last, st.end()-1); pos++ {
			s.unexcept(pos)
			_, g := s.groupOf(pos)
			g.Failed--
			// Which of them were changed is not kept, so each may have been.
			s.r.Waiting = append(s.r.Waiting, Yielded{Pos: pos, Attempt: e.Attempts + 1, Sent: true})
			s.reopen(run)
		}
	}
}

// reopen takes back that the clusters of the stage have ended. What was passed
// after it stays passed; what is still open begins again once they have ended.
func (s *stepper) reopen(run *StageRun) {
	run.Done = 0
	run.Gates = slices.DeleteFunc(run.Gates, func(g Gate) bool {
		return g.When == approval.After && g.Type == TimedWait && g.State == Pending
	})
	for i := range run.Gates {
		if g := &run.Gates[i]; g.When == approval.After && g.State == Pending {
			g.State = Failed
		}
	}
}

// endStopping ends a run that is Stopping, once nothing is in flight or it has
// been waited for long enough.
func (s *stepper) endStopping() {
	if s.inFlight() > 0 && (s.r.StopAt == 0 || s.now < s.r.StopAt) {
		return
	}
	reason := s.r.Reason
	switch ending := s.r.Ending; ending {
	case Failed:
		s.eachFlight(func(f *Flight) { s.leave(f, Failed, "still in flight when the run failed") })
		s.set(Failed, reason)
		if s.r.Final(s.p) {
			s.dropWaiting(reason)
			s.closeGates()
		}
		s.end(Event{Type: RunFailed, Message: reason})
	case Superseded:
		s.eachFlight(func(f *Flight) { s.leave(f, Skipped, reason) })
		s.dropWaiting(reason)
		s.closeGates()
		s.set(Superseded, reason)
		s.end(Event{Type: RunSuperseded, Message: reason})
	default:
		s.r.StopAt, s.r.Ending = 0, ""
		s.set(Stopped, reason)
		s.emit(Event{Type: RunStopped, Message: reason})
	}
}

// counts returns how many clusters of the stage completed and failed.
func (r *StageRun) counts() (completed, failed int) {
	for i := range r.Groups {
		completed += r.Groups[i].Completed
		failed += r.Groups[i].Failed
	}
	return completed, failed
}

// size is the number of the stage's clusters.
func (s *PlannedStage) size() (n int) {
	for i := range s.Groups {
		n += s.Groups[i].Len
	}
	return n
}

// stageIndex returns the index of the stage of that name, or -1.
func (p *Plan) stageIndex(name string) int {
	for i := range p.Stages {
		if p.Stages[i].Name == name {
			return i
		}
	}
	return -1
}
