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
