package simulate

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// jsonLines shows a simulation as one object a line.
type jsonLines struct {
	lines *json.Encoder
	start time.Time
	// back reports whether the run is being taken back.
	back bool
}

func newJSONLines(out io.Writer, start time.Time) *jsonLines {
	j := &jsonLines{lines: json.NewEncoder(out), start: start}
	if start.IsZero() {
		j.start = simulate.DefaultStart()
	}
	j.lines.SetEscapeHTML(false)
	return j
}

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
	// Run is that which takes the first one back, in its events.
	Run string `json:"run,omitempty"`
	// Plan is what that run does, in a line of type Rollback before its first event.
	Plan []plannedCluster      `json:"plan,omitempty"`
	Kept []stages.KeptClusters `json:"kept,omitempty"`
}

// plannedCluster is where a cluster goes; without Revision it is cleaned.
type plannedCluster struct {
	Stage    string `json:"stage"`
	Group    string `json:"group,omitempty"`
	Cluster  string `json:"cluster"`
	Revision string `json:"revision,omitempty"`
}

// planOf returns where the clusters of a plan go, in its order.
func planOf(p *stages.Plan) (out []plannedCluster) {
	for pos, c := range p.Clusters {
		stage, group := p.StageOf(pos)
		goes := plannedCluster{Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name, Cluster: c.Name}
		if c.Revision >= 0 {
			goes.Revision = p.Revisions[c.Revision]
		}
		out = append(out, goes)
	}
	return out
}

// event writes an event; before the first one of the run that takes the first one back, also the plan of that.
func (j *jsonLines) event(e simulate.Event) error {
	l := eventLine{
		At: e.At.String(), Type: e.Type, Stage: e.Stage, Group: e.Group, Cluster: e.Cluster,
		Attempt: e.Attempt, Count: e.Count, Request: e.Request, Command: e.Command, By: e.By,
		Unchanged: e.Unchanged, Message: e.Message,
	}
	if !e.Until.IsZero() {
		l.Until = (e.At + e.Until.Sub(e.Time)).String()
	}
	if e.Back != nil {
		l.Run = simulate.BackName
	}
	if e.Back != nil && !j.back {
		j.back = true
		plan := eventLine{At: l.At, Type: "Rollback", Run: l.Run, Count: len(e.Back.Clusters), Plan: planOf(e.Back), Kept: e.Back.Rollback.Kept}
		if err := j.lines.Encode(plan); err != nil {
			return err
		}
	}
	return j.lines.Encode(l)
}

// endLine is the last line.
type endLine struct {
	// At is when all has ended, also where the run is taken back after its own end.
	At       string          `json:"at"`
	Type     string          `json:"type"`
	State    stages.State    `json:"state"`
	Stages   ordered         `json:"stages"`
	Clusters ordered         `json:"clusters"`
	Reason   simulate.Reason `json:"reason"`
	Message  string          `json:"message,omitempty"`
	Waiting  []waitLine      `json:"waiting,omitempty"`
	// Peak is how many clusters were in flight at most.
	Peak struct {
		Run    int     `json:"run"`
		Stages ordered `json:"stages"`
		Groups ordered `json:"groups,omitempty"`
	} `json:"peak"`
	Gates []gateLine `json:"gates,omitempty"`
	// Rollback is what the run came to that takes this one back.
	Rollback *endLine `json:"rollback,omitempty"`
	// Refused is why the run is not taken back, where that was asked for.
	Refused string `json:"refused,omitempty"`
}

// waitLine is what a run waits for, with the time since the start.
type waitLine struct {
	stages.Awaited
	Until   string `json:"until,omitempty"`
	Message string `json:"message,omitempty"`
}

// gateLine is a gate that was reached, with its times as text.
type gateLine struct {
	simulate.GateEnd
	Opened  string `json:"opened"`
	Held    string `json:"held"`
	By      string `json:"by,omitempty"`
	Decided bool   `json:"decided,omitempty"`
}

func (j *jsonLines) end(e *simulate.End) error {
	l := j.outcome(e, "End")
	if e.Back != nil {
		l.Refused = e.Back.Refused
	}
	if e.Back != nil && e.Back.Plan != nil {
		back := j.outcome(&e.Back.End, "Rollback")
		l.At, l.Rollback = back.At, &back
	}
	return j.lines.Encode(l)
}

// outcome is what a run came to.
func (j *jsonLines) outcome(e *simulate.End, kind string) endLine {
	l := endLine{At: e.At.String(), Type: kind, State: e.State, Reason: e.Reason, Message: e.Message}
	l.Peak.Run = e.Peak
	for _, st := range e.Stages {
		l.Stages.add(st.Name, st.State)
		l.Peak.Stages.add(st.Name, st.Peak)
		for _, g := range st.Groups {
			l.Peak.Groups.add(st.Name+"/"+g.Name, g.Peak)
		}
	}
	for _, c := range e.Clusters {
		l.Clusters.add(c.Name, c.State)
	}
	for _, a := range e.Waiting {
		w := waitLine{Awaited: a, Message: a.Message}
		if !a.Until.IsZero() {
			w.Until = a.Until.Sub(j.start).String()
		}
		l.Waiting = append(l.Waiting, w)
	}
	for _, g := range e.Gates {
		l.Gates = append(l.Gates, gateLine{g, g.Opened.String(), g.Held.String(), g.By, g.Decided})
	}
	return l
}

// ordered is an object whose keys keep their order: its members as they are written.
type ordered []string

func (o *ordered) add(key string, v any) {
	text, _ := json.Marshal(map[string]any{key: v}) // a state or a number
	*o = append(*o, string(text[1:len(text)-1]))
}

// MarshalJSON writes the members in their order.
func (o ordered) MarshalJSON() ([]byte, error) { return []byte("{" + strings.Join(o, ",") + "}"), nil }
