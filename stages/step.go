package stages

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// Bounds that a strategy does not set.
const (
	// stopGrace is how long clusters in flight may hold up a stop, where the
	// strategy has no progress deadline.
	stopGrace = 5 * time.Minute
	// drainGrace is how long an apply in flight may hold up a supersession.
	drainGrace = 30 * time.Second
	// removalDeadline is the default of Removal.Deadline.
	removalDeadline = 5 * time.Minute
	// maxMessage bounds the messages a run keeps, in bytes.
	maxMessage = 256
	// maxYielded is how many clusters may wait because they could not be
	// reached. Beyond that they keep their slots, so that an outage does not
	// put the whole fleet into the run's record.
	maxYielded = 256
	// maxYieldedMessage bounds the messages of clusters that wait, in bytes.
	maxYieldedMessage = 80
	// maxReasons is how many exceptions keep their reason.
	maxReasons = 256
	// maxSeen is how many command ids a run remembers.
	maxSeen = 64
)

// NewRun returns the run of a plan before its first step. The uid tells it from
// every other run, also from one of the same name, and is not empty. A held run
// does not start until a Start command.
func NewRun(p *Plan, name, uid string, starter approval.Identity, hold bool, now time.Time) Run {
	created := min(max(At(now), 0), runstate.LastNow)
	r := Run{
		Name: clean(name), UID: clean(uid), Placement: p.Placement, Plan: p.Digest, Starter: cleanIdentity(starter),
		State: NotStarted, Hold: hold, Created: created, Now: created,
		Stages: make([]StageRun, len(p.Stages)),
	}
	for i := range r.Stages {
		r.Stages[i].State = NotStarted
	}
	return r
}

// Step returns what the run r of the plan p becomes, what is to be done now,
// and what happened. It is level-triggered: an action is returned for as long
// as it is needed, so a driver that dies between saving and acting loses
// nothing, and stepping again is always safe. It does not change r or p, and
// may be called concurrently.
//
// A run that is not one of the plan, by [Check], is left alone: Ready has it as it
// was, with Err and nothing else, so no action, no event and no time to wake. A run of
// which something was lost on its way through a store is such a run.
//
// Its cost grows with the clusters in flight and the exceptions, not with the
// fleet.
func Step(p *Plan, r Run, in Input) Ready {
	if err := Check(p, &r); err != nil {
		return Ready{Run: r, Err: err}
	}
	return step(p, r, in)
}

// step is Step for a run that is one of the plan.
func step(p *Plan, r Run, in Input) Ready {
	s := newStepper(p, r, in)
	if in.Unwatched {
		s.eachFlight(s.doubt)
	}
	if in.NewCalendar {
		s.askAgain()
	}
	for _, c := range in.Commands {
		s.command(c)
	}
	for _, name := range in.Gone {
		s.gone(name)
	}
	for i := range in.Observations {
		s.observe(&in.Observations[i])
	}
	s.answers(in.Answers)
	s.clocks()
	for s.advance() {
	}
	return s.ready()
}

type stepper struct {
	p        *Plan
	r        Run
	now      Instant
	blocked  string
	calendar Calendar
	events   []Event
	changed  bool
	// domains counts the clusters in flight of each failure domain of the current
	// stage, where that was asked for.
	domains []int
	// slots is how many clusters may be in flight by the cap of the strategy.
	slots int
	// capEnds is when a window closes that the cap lets nobody start in.
	capEnds Instant
}

func newStepper(p *Plan, r Run, in Input) *stepper {
	// An instant of 0 is none, so a run's time is at least 1.
	s := &stepper{p: p, r: r, now: max(min(At(in.Now), runstate.LastNow), r.Now, 1), blocked: in.Blocked, calendar: in.Calendar, slots: in.Slots}
	s.r.Now = s.now
	s.r.Flights = slices.Clone(r.Flights)
	s.r.Waiting = slices.Clone(r.Waiting)
	s.r.Exceptions = slices.Clone(r.Exceptions)
	s.r.Seen = slices.Clone(r.Seen)
	s.r.Stages = slices.Clone(r.Stages)
	s.ownStage()
	return s
}

// ownStage copies what the current stage shares with the run that was passed
// in.
func (s *stepper) ownStage() {
	if s.r.Stage < len(s.r.Stages) {
		st := &s.r.Stages[s.r.Stage]
		st.Groups = slices.Clone(st.Groups)
		st.Gates = slices.Clone(st.Gates)
		for i := range st.Groups {
			st.Groups[i].Gates = slices.Clone(st.Groups[i].Gates)
			st.Groups[i].Passed = slices.Clone(st.Groups[i].Passed)
			st.Groups[i].Cells = slices.Clone(st.Groups[i].Cells)
		}
	}
}

// stage returns the current stage of the plan and of the run; false when all
// are done.
func (s *stepper) stage() (*PlannedStage, *StageRun, bool) {
	if s.r.Stage >= len(s.p.Stages) {
		return nil, nil, false
	}
	return &s.p.Stages[s.r.Stage], &s.r.Stages[s.r.Stage], true
}

// emit records an event of the run, and that the run changed.
func (s *stepper) emit(e Event) {
	e.Time = s.now.Time()
	e.Placement, e.Run = s.r.Placement, s.r.Name
	s.events = append(s.events, e)
	s.changed = true
}

// emitStage records an event of the current stage.
func (s *stepper) emitStage(e Event) {
	e.Stage = s.p.Stages[s.r.Stage].Name
	s.emit(e)
}

// emitCluster records an event of the cluster at pos.
func (s *stepper) emitCluster(pos int, e Event) {
	stage, group := s.p.StageOf(pos)
	e.Stage = s.p.Stages[stage].Name
	e.Group = s.p.Stages[stage].Groups[group].Name
	e.Cluster = s.p.Clusters[pos].Name
	s.emit(e)
}

// set moves the run to a state.
func (s *stepper) set(state State, reason string) {
	s.r.State, s.r.Reason = state, cut(reason)
	s.changed = true
}

func (s *stepper) ready() Ready {
	wants := s.wants()
	s.tidy()
	return Ready{
		Run: s.r, Wants: wants, Events: s.events, Changed: s.changed,
		Actions: s.actions(), Wake: s.wake().Time(),
	}
}

// tidy leaves lists nil that are empty, so that a run which was stored equals the
// one that came out of the step.
func (s *stepper) tidy() {
	r := &s.r
	r.Flights, r.Waiting, r.Exceptions, r.Seen = orNil(r.Flights), orNil(r.Waiting), orNil(r.Exceptions), orNil(r.Seen)
	s.tidyStage()
}

// tidyStage does so for the current stage.
func (s *stepper) tidyStage() {
	if _, run, ok := s.stage(); ok {
		run.Gates = orNil(run.Gates)
		for i := range run.Groups {
			g := &run.Groups[i]
			g.Gates, g.Passed = orNil(g.Gates), orNil(g.Passed)
		}
	}
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (s *stepper) actions() []Action {
	if s.r.State != Running && s.r.State != Stopping {
		return nil
	}
	out, n := make([]Action, len(s.r.Flights)), 0
	for i := range s.r.Flights {
		if f := &s.r.Flights[i]; f.Attempt != 0 && f.Phase != BackingOff {
			s.act(&out[n], f)
			n++
		}
	}
	return s.asks(out[:n])
}

// act fills in what is to be done for a cluster in flight.
func (s *stepper) act(a *Action, f *Flight) {
	c := &s.p.Clusters[f.Pos]
	a.Type, a.Pos, a.Cluster, a.UID, a.Attempt = Apply, f.Pos, c.Name, c.UID, f.Attempt
	a.Sent = f.Sent
	switch {
	case c.Revision < 0:
		a.Type = Remove
	default:
		a.Revision = s.p.Revisions[c.Revision]
		if f.Phase != Applying {
			a.Type = Observe
		}
	}
}

// wake returns the earliest moment at which time alone changes the run.
func (s *stepper) wake() Instant {
	if s.r.State != Running && s.r.State != Stopping {
		return 0
	}
	w := alarm{now: s.now}
	w.at(s.r.StopAt)
	deadline := s.deadline()
	for i := range s.r.Flights {
		if f := &s.r.Flights[i]; f.Attempt != 0 {
			w.at(f.Until)
			if deadline > 0 {
				w.at(f.Started.Add(deadline))
			}
		}
	}
	if s.r.State == Stopping {
		return w.first
	}
	for i := range s.r.Waiting {
		w.at(s.r.Waiting[i].NotYet)
	}
	if st, _, ok := s.stage(); ok {
		for i := 0; st.Remove && i < len(s.r.Waiting); i++ {
			w.at(s.r.Waiting[i].Started.Add(deadline))
		}
	}
	w.at(s.capEnds)
	s.wakeForGates(&w)
	s.wakeForTimeouts(&w)
	s.wakeForWindows(&w)
	return w.first
}

// wakeForGates adds when the open gates of the current stage end.
func (s *stepper) wakeForGates(w *alarm) {
	for h := range s.eachHeld {
		for i := range *h.gates {
			if g := &(*h.gates)[i]; g.State == Pending {
				w.at(g.Until)
			}
		}
	}
}

// alarm keeps the earliest moment after now.
type alarm struct{ now, first Instant }

func (a *alarm) at(t Instant) {
	if t > a.now && (a.first == 0 || t < a.first) {
		a.first = t
	}
}

// deadline is how long a cluster of the current stage may take; 0 for ever.
func (s *stepper) deadline() time.Duration {
	if st, _, ok := s.stage(); ok && st.Remove {
		if d := s.p.Strategy.Removal.Deadline; d > 0 {
			return d
		}
		return removalDeadline
	}
	return s.p.Strategy.ProgressDeadline
}

// cut bounds a message that the run keeps.
func cut(m string) string { return cutAt(m, maxMessage) }

func cutAt(m string, limit int) string {
	m = clean(m)
	if len(m) <= limit {
		return m
	}
	end := limit - len("…")
	for end > 0 && m[end]&0xC0 == 0x80 {
		end--
	}
	return m[:end] + "…"
}

// clean returns a text as it is after it was stored: JSON has no bytes that are
// not UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func cleanIdentity(i approval.Identity) approval.Identity {
	i.Name, i.Groups = clean(i.Name), orNil(slices.Clone(i.Groups))
	for j := range i.Groups {
		i.Groups[j] = clean(i.Groups[j])
	}
	return i
}
