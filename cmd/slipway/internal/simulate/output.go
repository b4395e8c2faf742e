package simulate

import (
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
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
	// Run is that which takes the first one back, in its events.
	Run string `json:"run,omitempty"`
	// Plan is what that run does, in a line of type Rollback before its first event.
	Plan []any                 `json:"plan,omitempty"`
	Kept []stages.KeptClusters `json:"kept,omitempty"`
}

// printLines shows a simulation as one object a line.
func printLines(o *cli.Options, start time.Time, events []simulate.Event, end *simulate.End) error {
	var back *stages.Plan
	for _, e := range events {
		l := eventLine{
			At: e.At.String(), Type: e.Type, Stage: e.Stage, Group: e.Group, Cluster: e.Cluster,
			Attempt: e.Attempt, Count: e.Count, Request: e.Request, Command: e.Command, By: e.By,
			Unchanged: e.Unchanged, Message: e.Message,
		}
		if !e.Until.IsZero() {
			l.Until = (e.At + e.Until.Sub(e.Time)).String()
		}
		if e.Back != nil {
			l.Run = e.Run
		}
		if e.Back != back {
			back = e.Back
			plan := eventLine{At: l.At, Type: "Rollback", Run: l.Run, Count: len(back.Clusters)}
			plan.Plan, plan.Kept = cli.Planned(back).Values(), back.Rollback.Kept
			if err := o.PrintLine(plan, ""); err != nil {
				return err
			}
		}
		if err := o.PrintLine(l, ""); err != nil {
			return err
		}
	}
	l := outcomeOf(end, "End", start)
	if end.Back != nil {
		l.Refused = end.Back.Refused
	}
	if end.Back != nil && end.Back.Plan != nil {
		rollback := outcomeOf(&end.Back.End, "Rollback", start)
		l.At, l.Rollback = rollback.At, &rollback
	}
	return o.PrintLine(l, "")
}

// endLine is the last line.
type endLine struct {
	// At is when all has ended, also where the run is taken back after its own end.
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
	// Rollback is what the run came to that takes this one back.
	Rollback *endLine `json:"rollback,omitempty"`
	// Refused is why the run is not taken back, where that was asked for.
	Refused string `json:"refused,omitempty"`
}

// peakLine is how many clusters were in flight at most.
type peakLine struct {
	Run    int            `json:"run"`
	Stages map[string]int `json:"stages"`
	Groups map[string]int `json:"groups,omitempty"`
}

// waitLine is what a run waits for, with the time since the start.
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

// outcomeOf is what a run came to.
func outcomeOf(e *simulate.End, kind string, start time.Time) endLine {
	l := endLine{
		At: e.At.String(), Type: kind, State: e.State, Reason: e.Reason, Message: e.Message,
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
		l.Gates = append(l.Gates, gateLine{g, g.Opened.String(), g.Held.String()})
	}
	return l
}

// printText shows a simulation to people: its events, then what each run came to. The output keeps its first error.
func printText(o *cli.Options, events []simulate.Event, end *simulate.End) {
	var shown []stages.Event
	for _, e := range events {
		shown = append(shown, e.Event)
	}
	_ = o.Print(cli.Events(shown...))
	printOutcome(o, "The run", end)
	switch back := end.Back; {
	case back == nil:
	case back.Plan == nil:
		_ = o.Said("\nIt is not taken back: %s", back.Refused)
	default:
		goes := cli.Planned(back.Plan)
		goes.Narrow = 0
		_ = o.Section(fmt.Sprintf("%s takes back what %s brought", simulate.BackName, back.Plan.Rollback.Run), goes)
		for _, k := range back.Plan.Rollback.Kept {
			_ = o.Said("clusters that stay as they are: %d, %s", k.Count, k.Reason)
		}
		printOutcome(o, simulate.BackName, &back.End)
	}
}

// printOutcome says what a run came to.
func printOutcome(o *cli.Options, run string, e *simulate.End) {
	how := fmt.Sprintf("%s is %s at %s", run, e.State, e.At)
	how += map[simulate.Reason]string{
		simulate.Stuck: ", and nothing can happen any more", simulate.Cut: ", where the simulation ends",
	}[e.Reason]
	if e.Message != "" {
		how += ": " + e.Message
	}
	others := &cli.List{Columns: []string{"Cluster", "Stage", "Group", "State"}}
	for _, c := range e.Clusters {
		if c.State != stages.Completed {
			others.Add(c.Name, nil, c.Stage, c.Group, c.State)
		}
	}
	_ = o.Said("\n%s. Clusters: %d, Completed: %d, in flight at most: %d.", how, len(e.Clusters), len(e.Clusters)-others.Len(), e.Peak)
	_ = o.Section("Waits for", cli.Awaited(e.Waiting))
	_ = o.Section("Clusters that are not Completed", others)
	levels := &cli.List{Columns: []string{"Stage", "Group", "State", "From", "To", "Peak", "Limit"}}
	for _, st := range e.Stages {
		levels.Add(st.Name, nil, "", st.State, since(st.Started), since(st.Ended), st.Peak, limit(st.Limit))
		for _, g := range st.Groups {
			levels.Add(st.Name, nil, g.Name, g.State, "", "", g.Peak, limit(g.Limit))
		}
	}
	_ = o.Section("Stages", levels)
	gates := &cli.List{Columns: []string{"Stage", "Group", "Gate", "State", "Opened", "Held", "By", "Decided"}}
	for _, g := range e.Gates {
		gates.Add(g.Stage, nil, g.Group, fmt.Sprint(g.When, " ", g.Type), g.State, g.Opened, g.Held, g.By, g.Decided)
	}
	_ = o.Section("Gates", gates)
}

// since is when something happened, empty where it did not.
func since(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return d.String()
}

func limit(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
