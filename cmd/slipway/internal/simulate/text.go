package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// mostNames is how many names text lists of a kind.
const mostNames = 20

// text shows a simulation to people, as tables and sentences. What it writes to keeps the first error.
type text struct {
	*cli.Options

	events *cli.List
	// back reports whether the run is being taken back.
	back bool
}

func newText(o *cli.Options) *text {
	return &text{Options: o, events: table("At", "Event", "Where", "Details")}
}

func table(columns ...string) *cli.List { return &cli.List{Columns: columns, Narrow: len(columns)} }

func (t *text) say(format string, args ...any) {
	_ = t.Said("%s", cli.Printable(fmt.Sprintf(format, args...)))
}

func (t *text) event(e simulate.Event) error {
	if e.Back != nil && !t.back {
		_ = t.Print(t.events)
		t.plan(e.Back)
		*t = text{Options: t.Options, events: newText(t.Options).events, back: true}
	}
	var details []string
	add := func(is bool, format string, args ...any) {
		if is {
			details = append(details, fmt.Sprintf(format, args...))
		}
	}
	add(e.Command != "", "%s", e.Command)
	add(e.Count > 0, "%s", clusters(e.Count))
	add(e.Attempt > 1, "attempt %d", e.Attempt)
	add(e.Request != "", "%s", e.Request)
	add(e.By != "", "by %s", e.By)
	add(!e.Until.IsZero(), "until %s", short(e.At+e.Until.Sub(e.Time)))
	add(e.Unchanged, "unchanged")
	add(e.Message != "", "%s", e.Message)
	t.events.Add(short(e.At), nil, e.Type, joined("/", e.Stage, e.Group, e.Cluster), strings.Join(details, ", "))
	return nil
}

// plan prints the plan of the run that takes the first one back.
func (t *text) plan(p *stages.Plan) {
	t.say("\n%s takes back what %s brought, %s:\n", simulate.BackName, p.Rollback.Run, clusters(len(p.Clusters)))
	goes := table("Cluster", "Stage", "Goes to")
	for pos := range min(len(p.Clusters), mostNames) {
		stage, group := p.StageOf(pos)
		st, to := &p.Stages[stage], "nothing"
		if r := p.Clusters[pos].Revision; r >= 0 {
			to = p.Revisions[r]
		}
		goes.Add(p.Clusters[pos].Name, nil, joined("/", st.Name, st.Groups[group].Name), to)
	}
	_ = t.Print(goes)
	if more := len(p.Clusters) - mostNames; more > 0 {
		t.say("and %d more", more)
	}
	for _, k := range p.Rollback.Kept {
		t.say("stays: %s, %s", names(k.Clusters), k.Reason)
	}
	t.say("")
}

func (t *text) end(e *simulate.End) error {
	_ = t.Print(t.events)
	t.outcome(e, "The run", 0)
	switch {
	case e.Back == nil:
	case e.Back.Plan == nil:
		t.say("\nIt is not taken back: %s", e.Back.Refused)
	default:
		t.outcome(&e.Back.End, simulate.BackName, e.Back.Started)
	}
	return nil
}

// outcome prints what a run came to.
func (t *text) outcome(e *simulate.End, run string, begun time.Duration) {
	by := map[stages.State][]string{}
	for _, c := range e.Clusters {
		by[c.State] = append(by[c.State], c.Name)
	}
	states := slices.SortedFunc(maps.Keys(by), func(a, b stages.State) int {
		return cmp.Or(len(by[b])-len(by[a]), cmp.Compare(a, b))
	})
	t.say("\n%s", verdict(e, run, by, states))
	for i, w := range e.Waiting {
		if i == mostNames {
			t.say("  and for %d more", len(e.Waiting)-i)
			break
		}
		t.say("  waits for %s", joined(": ", joined(" ", strings.ToLower(string(w.Kind)), w.Name), w.Message))
	}
	t.say("")
	levels := table("Stage", "State", "From", "To", "Peak", "Limit")
	for _, st := range e.Stages {
		levels.Add(st.Name, nil, st.State, since(st.Started), since(st.Ended), st.Peak, limit(st.Limit))
		for _, g := range st.Groups {
			levels.Add(st.Name+"/"+g.Name, nil, g.State, "", "", g.Peak, limit(g.Limit))
		}
	}
	levels.Add("the run", nil, e.State, short(begun), short(e.At), e.Peak, "")
	_ = t.Print(levels)
	if len(e.Gates) > 0 {
		gates := table("Gate", "Of", "State", "Opened", "Held", "By", "Decided")
		for _, g := range e.Gates {
			of := strings.ToLower(string(g.When)) + " " + joined("/", g.Stage, g.Group)
			gates.Add(string(g.Type), nil, of, g.State, short(g.Opened), short(g.Held), g.By, g.Decided)
		}
		t.say("")
		_ = t.Print(gates)
	}
	if len(by[stages.Completed]) < len(e.Clusters) {
		t.say("")
	}
	for _, state := range states {
		if state != stages.Completed {
			t.say("%s: %s", state, names(by[state]))
		}
	}
}

// verdict says how a run ended.
func verdict(e *simulate.End, run string, by map[stages.State][]string, states []stages.State) string {
	how := fmt.Sprintf("%s is %s at %s", run, e.State, short(e.At))
	switch e.Reason {
	case simulate.Stuck:
		how = fmt.Sprintf("%s is %s since %s, and nothing can happen any more", run, e.State, short(e.At))
	case simulate.Cut:
		how += ", where the simulation ends"
	}
	how = joined(": ", how, e.Message)
	if len(e.Clusters) == 0 {
		return how + ". The plan has no clusters."
	}
	var counts []string
	for _, s := range states {
		counts = append(counts, fmt.Sprintf("%d %s", len(by[s]), s))
	}
	return how + ". Of " + clusters(len(e.Clusters)) + ": " + strings.Join(counts, ", ") + "."
}

// names are the first of all.
func names(all []string) string {
	first := strings.Join(all[:min(len(all), mostNames)], " ")
	if more := len(all) - mostNames; more > 0 {
		first += fmt.Sprintf(" and %d more", more)
	}
	return first
}

func since(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return short(d)
}

func limit(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// short is a duration without the units that are 0 at its end: 1h rather than 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// joined joins what is not empty.
func joined(by string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), by)
}

func clusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprint(n, " clusters")
}
