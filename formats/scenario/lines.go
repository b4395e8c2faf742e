package scenario

import (
	"cmp"
	"iter"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// eventLine is an event. Its first five keys are always there.
type eventLine struct {
	At        string           `json:"at"`
	Type      stages.EventType `json:"type"`
	Stage     string           `json:"stage"`
	Group     string           `json:"group"`
	Cluster   string           `json:"cluster"`
	Attempt   int              `json:"attempt,omitempty"`
	Count     int              `json:"count,omitempty"`
	Request   string           `json:"request,omitempty"`
	Command   string           `json:"command,omitempty"`
	By        string           `json:"by,omitempty"`
	Unchanged bool             `json:"unchanged,omitempty"`
	Until     string           `json:"until,omitempty"`
	Message   string           `json:"message,omitempty"`
	// Run is the name of the rollback run, in its events.
	Run string `json:"run,omitempty"`
	// Plan is the plan of the rollback run, in a line of type Rollback before its first event.
	Plan []plannedLine         `json:"plan,omitempty"`
	Kept []stages.KeptClusters `json:"kept,omitempty"`
}

// plannedLine is a cluster of a plan; without a revision it is cleaned.
type plannedLine struct {
	Cluster  string `json:"cluster"`
	Stage    string `json:"stage"`
	Group    string `json:"group,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// Lines yields the result of a simulation as values, each encoded as one JSON object: the events,
// in their order, and the end. An event has these keys: at, the time since the start of the run;
// type, a [stages.EventType]; and stage, group and cluster, which may be "". The optional keys are
// attempt, count, request, command, by, unchanged, until, which is also a time since the start, and
// message. The last object has type End, the state of the run, and the states of its stages and
// clusters by name, and
//
//	reason    Ended; Stuck, if nothing can happen any more; Cut, at until
//	message   why the run is in its state
//	waiting   the reasons for waiting, if it has not ended
//	peak      the most clusters in flight: in the run, in each stage, and in each
//	          group, which is named stage/group
//	gates     the gates that were reached: how long they held the run, and the
//	          identity that decided
//	rollback  the same for the rollback run; its events follow an object of type
//	          Rollback with its plan, and their run is its name
//	refused   why a requested rollback was refused
func (s *Scenario) Lines(events []simulate.Event, end *simulate.End) iter.Seq[any] {
	return func(yield func(any) bool) {
		var back *stages.Plan
		for _, e := range events {
			l := eventLine{
				At: e.At.Duration.String(), Type: e.Type, Stage: e.Stage, Group: e.Group, Cluster: e.Cluster,
				Attempt: e.Attempt, Count: e.Count, Request: e.Request, Command: e.Command, By: e.By,
				Unchanged: e.Unchanged, Message: e.Message,
			}
			if !e.Until.IsZero() {
				l.Until = (e.At.Duration + e.Until.Sub(e.Time)).String()
			}
			if e.Back != nil {
				l.Run = simulate.BackName
			}
			if e.Back != back {
				back = e.Back
				plan := eventLine{At: l.At, Type: "Rollback", Run: l.Run, Count: len(back.Clusters), Plan: planned(back), Kept: back.Rollback.Kept}
				if !yield(plan) {
					return
				}
			}
			if !yield(l) {
				return
			}
		}
		yield(s.endOf(end))
	}
}

// planned returns the clusters of a plan in their order.
func planned(p *stages.Plan) (all []plannedLine) {
	for pos, c := range p.Clusters {
		stage, group := p.StageOf(pos)
		l := plannedLine{Cluster: c.Name, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name}
		if c.Revision >= 0 {
			l.Revision = p.Revisions[c.Revision]
		}
		all = append(all, l)
	}
	return all
}

// endOf returns the last line.
func (s *Scenario) endOf(end *simulate.End) endLine {
	start := cmp.Or(s.Environment.Start, simulate.DefaultStart())
	l := outcomeOf(end, "End", start)
	if end.Back != nil {
		l.Refused = end.Back.Refused
	}
	if end.Back != nil && end.Back.Plan != nil {
		rollback := outcomeOf(&end.Back.End, "Rollback", start)
		l.At, l.Rollback = rollback.At, &rollback
	}
	return l
}

// endLine is the last line.
type endLine struct {
	// At is when everything has ended, including a rollback after the run's own end.
	At       string                  `json:"at"`
	Type     string                  `json:"type"`
	State    stages.State            `json:"state"`
	Stages   map[string]stages.State `json:"stages"`
	Clusters map[string]stages.State `json:"clusters"`
	Reason   simulate.Reason         `json:"reason"`
	Message  string                  `json:"message,omitempty"`
	Waiting  []waitLine              `json:"waiting,omitempty"`
	Peak     peakLine                `json:"peak"`
	Gates    []gateLine              `json:"gates,omitempty"`
	// Rollback is the end of the rollback run.
	Rollback *endLine `json:"rollback,omitempty"`
	// Refused is the reason why a requested rollback was refused.
	Refused string `json:"refused,omitempty"`
}

// peakLine has the greatest numbers of clusters in flight.
type peakLine struct {
	Run    int            `json:"run"`
	Stages map[string]int `json:"stages"`
	Groups map[string]int `json:"groups,omitempty"`
}

// waitLine is a reason for waiting, with the time since the start.
type waitLine struct {
	stages.Awaited
	Until string `json:"until,omitempty"`
}

// gateLine is a gate that was reached, with its times as text.
type gateLine struct {
	simulate.GateEnd
	Opened string `json:"opened"`
	Held   string `json:"held"`
}

// outcomeOf returns the end of a run.
func outcomeOf(e *simulate.End, kind string, start time.Time) endLine {
	l := endLine{
		At: e.At.Duration.String(), Type: kind, State: e.State, Reason: e.Reason, Message: e.Message,
		Stages: map[string]stages.State{}, Clusters: map[string]stages.State{},
		Peak: peakLine{Run: e.Peak, Stages: map[string]int{}, Groups: map[string]int{}},
	}
	for _, st := range e.Stages {
		l.Stages[st.Name], l.Peak.Stages[st.Name] = st.State, st.Peak
		for _, g := range st.Groups {
			l.Peak.Groups[st.Name+"/"+g.Name] = g.Peak
		}
	}
	for _, c := range e.Clusters {
		l.Clusters[c.Name] = c.State
	}
	for _, a := range e.Waiting {
		w := waitLine{Awaited: a}
		if !a.Until.IsZero() {
			w.Until = a.Until.Sub(start).String()
		}
		l.Waiting = append(l.Waiting, w)
	}
	for _, g := range e.Gates {
		l.Gates = append(l.Gates, gateLine{g, g.Opened.Duration.String(), g.Held.Duration.String()})
	}
	return l
}
