package simulate

import (
	"bytes"
	"encoding/json"
	"io"
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
	Plan []goesLine            `json:"plan,omitempty"`
	Kept []stages.KeptClusters `json:"kept,omitempty"`
}

// goesLine is where a cluster goes; without Revision it is cleaned.
type goesLine struct {
	Stage    string `json:"stage"`
	Group    string `json:"group,omitempty"`
	Cluster  string `json:"cluster"`
	Revision string `json:"revision,omitempty"`
}

// plan writes the plan of the run that takes the first one back.
func (j *jsonLines) plan(e simulate.Event) error {
	p := e.Back
	l := eventLine{At: e.At.String(), Type: "Rollback", Run: simulate.BackName, Count: len(p.Clusters), Kept: p.Rollback.Kept}
	for pos := range p.Clusters {
		stage, group := p.StageOf(pos)
		goes := goesLine{Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name, Cluster: p.Clusters[pos].Name}
		if r := p.Clusters[pos].Revision; r >= 0 {
			goes.Revision = p.Revisions[r]
		}
		l.Plan = append(l.Plan, goes)
	}
	return j.lines.Encode(l)
}

func (j *jsonLines) event(e simulate.Event) error {
	if e.Back != nil && !j.back {
		j.back = true
		if err := j.plan(e); err != nil {
			return err
		}
	}
	l := eventLine{
		At: e.At.String(), Type: e.Type, Stage: e.Stage, Group: e.Group, Cluster: e.Cluster,
		Attempt: e.Attempt, Count: e.Count, Request: e.Request, Command: e.Command, By: e.By,
		Unchanged: e.Unchanged, Message: e.Message,
	}
	if e.Back != nil {
		l.Run = simulate.BackName
	}
	if !e.Until.IsZero() {
		l.Until = (e.At + e.Until.Sub(e.Time)).String()
	}
	return j.lines.Encode(l)
}

// endLine is the last line.
type endLine struct {
	// At is when all has ended, also where the run is taken back after its own end.
	At       string          `json:"at"`
	Type     string          `json:"type"`
	State    stages.State    `json:"state"`
	Stages   pairs           `json:"stages"`
	Clusters pairs           `json:"clusters"`
	Reason   simulate.Reason `json:"reason"`
	Message  string          `json:"message,omitempty"`
	Waiting  []waitLine      `json:"waiting,omitempty"`
	Peak     peakLine        `json:"peak"`
	Gates    []gateLine      `json:"gates,omitempty"`
	// Rollback is what the run came to that takes this one back.
	Rollback *endLine `json:"rollback,omitempty"`
	// Refused is why the run is not taken back, where that was asked for.
	Refused string `json:"refused,omitempty"`
}

// waitLine is something that the run waits for.
type waitLine struct {
	Kind    stages.Await `json:"kind"`
	Name    string       `json:"name,omitempty"`
	Until   string       `json:"until,omitempty"`
	Message string       `json:"message,omitempty"`
}

// peakLine is how many clusters were in flight at most.
type peakLine struct {
	Run    int   `json:"run"`
	Stages pairs `json:"stages"`
	Groups pairs `json:"groups,omitempty"`
}

// gateLine is a gate that was reached.
type gateLine struct {
	Stage   string          `json:"stage"`
	Group   string          `json:"group,omitempty"`
	When    string          `json:"when"`
	Type    stages.TaskType `json:"type"`
	State   stages.State    `json:"state"`
	Opened  string          `json:"opened"`
	Held    string          `json:"held"`
	By      string          `json:"by,omitempty"`
	Decided bool            `json:"decided,omitempty"`
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
		l.Stages = append(l.Stages, pair{st.Name, st.State})
		l.Peak.Stages = append(l.Peak.Stages, pair{st.Name, st.Peak})
		for _, g := range st.Groups {
			l.Peak.Groups = append(l.Peak.Groups, pair{st.Name + "/" + g.Name, g.Peak})
		}
	}
	for _, c := range e.Clusters {
		l.Clusters = append(l.Clusters, pair{c.Name, c.State})
	}
	for _, a := range e.Waiting {
		w := waitLine{Kind: a.Kind, Name: a.Name, Message: a.Message}
		if !a.Until.IsZero() {
			w.Until = a.Until.Sub(j.start).String()
		}
		l.Waiting = append(l.Waiting, w)
	}
	for _, g := range e.Gates {
		l.Gates = append(l.Gates, gateLine{
			Stage: g.Stage, Group: g.Group, When: string(g.When), Type: g.Type, State: g.State,
			Opened: g.Opened.String(), Held: g.Held.String(), By: g.By, Decided: g.Decided,
		})
	}
	return l
}

// pairs is an object whose keys keep their order.
type pairs []pair

type pair struct {
	key   string
	value any
}

// MarshalJSON writes the pairs in their order.
func (p pairs) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, part := range []any{x.key, x.value} {
			if j > 0 {
				b.WriteByte(':')
			}
			text, err := json.Marshal(part)
			if err != nil {
				return nil, err
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
