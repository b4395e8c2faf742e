package stages

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages/runstate"
)

// command carries out c, once.
func (s *stepper) command(c Command) {
	c.ID, c.Name, c.Message, c.By = clean(c.ID), clean(c.Name), clean(c.Message), cleanIdentity(c.By)
	if slices.Contains(s.r.Seen, c.ID) {
		return
	}
	s.remember(c.ID)
	if why := s.obey(c); why != "" {
		s.emit(Event{Type: CommandRefused, Command: string(c.Verb), By: c.By.Name, Message: why})
	}
}

func (s *stepper) remember(id string) {
	s.r.Seen = append(s.r.Seen, id)
	if n := len(s.r.Seen) - maxSeen; n > 0 {
		s.r.Seen = slices.Delete(s.r.Seen, 0, n)
	}
	s.changed = true
}

// obey carries out c and returns why it does not, or "".
func (s *stepper) obey(c Command) string {
	if why := s.refusal(&c); why != "" {
		return why
	}
	switch c.Verb {
	case Start:
		s.start(c)
	case Stop:
		s.stop(c)
	case Abort:
		s.abort(c)
	case Skip:
		s.skip(c)
	case Decide:
		return s.decide(c)
	case Supersede:
		s.supersede(c)
	case Retry:
		s.retry(c)
	case BypassWindows:
		return s.bypass(c)
	case CompleteGate:
		s.completeGate(c)
	case TakeBack:
		s.takeBack(c)
	default:
	}
	return ""
}

func (s *stepper) start(c Command) {
	switch s.r.State {
	case NotStarted, Pending:
		s.r.Hold = false
		s.changed = true
	case Stopped, Stopping:
		s.resume(c)
	case Failed:
		s.r.Attempt++
		s.r.Ended = 0
		s.resume(c)
	default:
	}
}

// resume lets a stopped, stopping or failed run go on with what is
// unprocessed.
func (s *stepper) resume(c Command) {
	retry := c.Verb == Start && s.retries()
	s.r.Ending, s.r.StopAt, s.r.Hold = "", 0, false
	s.goOn()
	if s.r.Started == 0 {
		s.set(NotStarted, "")
		return
	}
	parked := s.r.State == Stopped
	s.eachFlight(func(f *Flight) {
		f.Started = s.now
		if parked {
			s.doubt(f)
		}
	})
	for i := range s.r.Waiting {
		s.r.Waiting[i].Started, s.r.Waiting[i].Spent = s.now, 0
	}
	s.unendStage()
	s.set(Running, s.r.Closing.Why())
	s.emit(Event{Type: RunResumed, By: c.By.Name, Attempt: s.r.Attempt})
	if retry {
		s.lineUp(OnlyFailed)
	}
}

func (s *stepper) stop(c Command) {
	switch s.r.State {
	case Pending:
		s.r.Hold = true
		s.set(Stopped, reasonBy("stopped", c))
		s.emit(Event{Type: RunStopped, Message: s.r.Reason})
	case Running:
		s.r.StopAt = s.now.Add(s.grace())
		s.wind(Stopped, reasonBy("stopped", c), c.By.Name)
	default:
	}
}

func (s *stepper) grace() time.Duration {
	if d := s.deadline(); d > 0 {
		return d
	}
	return stopGrace
}

// wind lets what is in flight finish and starts nothing more.
func (s *stepper) wind(ending State, reason, by string) {
	parked := s.r.State != Running && s.r.State != Stopping
	s.halt()
	s.r.Ending = ending
	s.set(Stopping, reason)
	s.emit(Event{Type: RunStopping, By: by, Message: s.r.Reason})
	s.eachFlight(func(f *Flight) {
		if parked || f.Phase == BackingOff {
			s.ground(f)
		}
	})
}

// ground takes a cluster that is between attempts out of flight.
func (s *stepper) ground(f *Flight) {
	switch {
	case f.Drain, s.r.Ending == Stopped, s.r.Ending == Superseded:
		f.Attempt++
		s.reached(f)
		s.yield(f, 0, true)
	default:
		s.leave(f, Failed, "not tried again, because the run ends: "+f.Message)
	}
}

func (s *stepper) abort(c Command) {
	s.forgetUndo()
	s.set(Aborted, reasonBy("aborted", c))
	s.eachFlight(func(f *Flight) {
		s.leave(f, Failed, "the run was aborted while the cluster was in flight")
	})
	s.dropWaiting("the run was aborted")
	if s.closes(Aborted, s.r.Reason) {
		return
	}
	s.closeGates()
	s.end(Event{Type: RunAborted, By: c.By.Name, Message: s.r.Reason})
}

// supersede makes way for another run: an apply in flight may end, everything
// else is given up at once. A run that has ended, or makes way already, is asked
// for what is so.
func (s *stepper) supersede(c Command) {
	if s.r.Ending == Superseded || s.r.Final(s.p) {
		return
	}
	s.forgetUndo()
	reason := "superseded by run " + c.Message
	s.r.StopAt = s.now.Add(drainGrace)
	s.wind(Superseded, reason, c.By.Name)
	s.eachFlight(func(f *Flight) {
		if f.Phase != Applying {
			s.leave(f, Skipped, reason+" before the cluster was proven healthy")
		}
	})
	s.dropWaiting(reason)
}

// hasLeft is why a cluster is skipped that has left the inventory.
const hasLeft = "Removed: the cluster has left the inventory"

// gone takes in that a cluster has left the inventory.
func (s *stepper) gone(name string) {
	pos, ok := s.p.Position(name)
	if !ok || s.r.IsEnded() {
		return
	}
	e := Exception{First: pos, Last: pos, State: Skipped, Gone: true, Reason: hasLeft}
	if f := s.flight(pos); f != nil {
		s.free(f)
		s.record(e)
	} else if i := s.yielded(pos); i >= 0 {
		s.unyield(i)
		s.record(e)
	} else if s.unpass(pos) {
		s.record(e)
	} else if s.ahead(pos) {
		s.passBy(e)
	} else if x := runstate.ExceptionAt(s.r.Exceptions, pos); x != nil && !x.Gone {
		e = x.Spanning(pos, pos)
		e.Gone = true
		s.unexcept(pos)
		s.r.Exceptions = mergeExceptions(append(s.r.Exceptions, e))
	}
}

func reasonBy(what string, c Command) string {
	if c.By.Name != "" {
		what += " by " + c.By.Name
	}
	if c.Message != "" {
		what += ": " + c.Message
	}
	return what
}
