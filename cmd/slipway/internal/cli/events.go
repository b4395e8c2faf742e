package cli

import "github.com/slipway-dev/slipway/stages"

// Events returns a list of events, one row for each, in the form that all verbs show them in.
func Events(all ...stages.Event) *List {
	l := &List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
	for _, ev := range all {
		l.Add(Cell(ev.Time), ev, ev.Type, ev.Run, ev.Stage, ev.Cluster, ev.By, ev.Message)
	}
	return l
}

// Awaited returns a list of what a run or a cluster waits for.
func Awaited(all []stages.Awaited) *List {
	l := &List{Kind: "cause", Columns: []string{"Waits for", "Name", "Until", "Why"}, Narrow: 4}
	for _, w := range all {
		l.Add(string(w.Kind), w, w.Name, w.Until, w.Message)
	}
	return l
}
