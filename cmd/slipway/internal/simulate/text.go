package simulate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// printText shows a simulation to people: its events, then the result of each run. The output
// keeps its first error.
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
		_ = o.Said("\nIt is not rolled back: %s", back.Refused)
	default:
		goes := cli.Planned(back.Plan, nil)
		goes.Narrow = 0
		_ = o.Section(fmt.Sprintf("%s rolls back %s", simulate.BackName, back.Plan.Rollback.Run), goes)
		for _, k := range back.Plan.Rollback.Kept {
			_ = o.Said("clusters that keep their revision: %d, %s", k.Count, k.Reason)
		}
		printOutcome(o, simulate.BackName, &back.End)
	}
}

// printOutcome shows the result of a run.
func printOutcome(o *cli.Options, run string, e *simulate.End) {
	how := fmt.Sprintf("%s would be %s at %s", run, e.State, e.At.Duration)
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
		gates.Add(g.Stage, nil, g.Group, fmt.Sprint(g.When, " ", g.Type), g.State, g.Opened.Duration, g.Held.Duration, g.By, g.Decided)
	}
	_ = o.Section("Gates", gates)
}

// since formats the time of an event, empty if it did not happen.
func since(d *metav1.Duration) string {
	if d == nil {
		return ""
	}
	return d.Duration.String()
}

func limit(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
