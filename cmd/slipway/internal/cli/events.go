package cli

import (
	"cmp"

	"github.com/slipway-dev/slipway/stages"
)

// Events returns a list of events, one row for each, in the common form of all verbs.
func Events(all ...stages.Event) *List {
	l := &List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
	for _, ev := range all {
		l.Add(Cell(ev.Time), ev, ev.Type, ev.Run, ev.Stage, ev.Cluster, ev.By, ev.Message)
	}
	return l
}

// EventsOfRun returns a list of the events of one run, without a column for the run.
func EventsOfRun(all ...stages.Event) *List {
	l := &List{Kind: "event", Columns: []string{"Time", "Type", "Stage", "Cluster", "By", "Message"}}
	for _, ev := range all {
		l.Add(Cell(ev.Time), ev, ev.Type, ev.Stage, ev.Cluster, ev.By, ev.Message)
	}
	return l
}

// Awaited returns a list of the reasons for waiting of a run or a cluster.
func Awaited(all []stages.Awaited) *List {
	l := &List{Kind: "cause", Columns: []string{"Waits for", "Name", "Until", "Why"}, Narrow: 4}
	for _, w := range all {
		l.Add(string(w.Kind), w, w.Name, w.Until, w.Message)
	}
	return l
}

// planned is a cluster of a plan; without a revision it is cleaned.
type planned struct {
	Cluster  string `json:"cluster"`
	Stage    string `json:"stage"`
	Group    string `json:"group,omitempty"`
	Revision string `json:"revision,omitempty"`
	GoesTo   string `json:"goesTo,omitempty"`
}

// Planned returns a list of the clusters of a plan, in their order. If goesTo is not nil, it
// returns the target of the cluster at a position of the plan.
func Planned(p *stages.Plan, goesTo func(pos int) string) *List {
	l := &List{Kind: "cluster", Columns: []string{"Cluster", "Stage", "Group", "Gets"}, Narrow: 3}
	if goesTo != nil {
		l.Columns, l.Narrow = []string{"Cluster", "Stage", "Group", "Goes to", "Gets"}, 4
	}
	for pos, c := range p.Clusters {
		stage, group := p.StageOf(pos)
		one := planned{Cluster: c.Name, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name}
		if c.Revision >= 0 {
			one.Revision = p.Revisions[c.Revision]
		}
		cells := []any{one.Stage, one.Group}
		if goesTo != nil {
			one.GoesTo = goesTo(pos)
			cells = append(cells, one.GoesTo)
		}
		l.Add(c.Name, one, append(cells, cmp.Or(one.Revision, "nothing"))...)
	}
	return l
}
