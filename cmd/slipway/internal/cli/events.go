package cli

import "github.com/slipway-dev/slipway/stages"

// NewEvents returns a list for events, one row for each, in the form that all verbs show them in.
func NewEvents() *List {
	return &List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
}

// AddEvent adds an event to a list of [NewEvents].
func (l *List) AddEvent(ev stages.Event) {
	l.Add(Cell(ev.Time), ev, ev.Type, ev.Run, ev.Stage, ev.Cluster, ev.By, ev.Message)
}

// NewAwaited returns a list of what a run or a cluster waits for.
func NewAwaited(all []stages.Awaited) *List {
	l := &List{Kind: "cause", Columns: []string{"Waits for", "Name", "Until", "Why"}, Narrow: 4}
	for _, w := range all {
		l.Add(string(w.Kind), w, w.Name, w.Until, w.Message)
	}
	return l
}
