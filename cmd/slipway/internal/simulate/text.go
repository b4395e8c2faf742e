package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// mostNames is how many names text lists of a kind.
const mostNames = 20

// text shows a simulation to people.
type text struct {
	cli.Lines

	// back reports whether the run is being taken back.
	back bool
}

func (t *text) event(e simulate.Event) error {
	if e.Back != nil && !t.back {
		t.back = true
		t.plan(e.Back)
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
	what := joined("  ", joined("/", e.Stage, e.Group, e.Cluster), strings.Join(details, ", "))
	t.Printf("%-10s %-18s %s", short(e.At), e.Type, what)
	return t.Err
}

// plan prints the plan of the run that takes the first one back.
func (t *text) plan(p *stages.Plan) {
	t.Printf("")
	t.Printf("%s takes back what %s brought, %s:", simulate.BackName, p.Rollback.Run, clusters(len(p.Clusters)))
	rows := [][]string{{"  STAGE", "CLUSTER", "GOES"}}
	for pos := range min(len(p.Clusters), mostNames) {
		stage, group := p.StageOf(pos)
		st, goes := &p.Stages[stage], "to nothing"
		if c := &p.Clusters[pos]; c.Revision >= 0 {
			goes = "to " + p.Revisions[c.Revision]
		}
		rows = append(rows, []string{"  " + joined("/", st.Name, st.Groups[group].Name), p.Clusters[pos].Name, goes})
	}
	t.table(rows)
	if more := len(p.Clusters) - mostNames; more > 0 {
		t.Printf("  and %d more", more)
	}
	for _, k := range p.Rollback.Kept {
		t.Printf("  stays: %s, %s", names(k.Clusters), k.Reason)
	}
	t.Printf("")
}

func (t *text) end(e *simulate.End) error {
	t.outcome(e, "The run", 0)
	switch {
	case e.Back == nil:
	case e.Back.Plan == nil:
		t.Printf("")
		t.Printf("It is not taken back: %s", e.Back.Refused)
	default:
		t.outcome(&e.Back.End, simulate.BackName, e.Back.Started)
	}
	return t.Err
}

// outcome prints what a run came to.
func (t *text) outcome(e *simulate.End, run string, begun time.Duration) {
	t.Printf("")
	t.Printf("%s", verdict(e, run))
	for i, w := range e.Waiting {
		if i == mostNames {
			t.Printf("  and for %d more", len(e.Waiting)-i)
			break
		}
		t.Printf("  waits for %s", joined(": ", joined(" ", strings.ToLower(string(w.Kind)), w.Name), w.Message))
	}
	t.Printf("")
	rows := [][]string{{"STAGE", "STATE", "FROM", "TO", "PEAK", "LIMIT"}}
	for _, st := range e.Stages {
		rows = append(rows, []string{st.Name, string(st.State), since(st.Started), since(st.Ended), strconv.Itoa(st.Peak), limit(st.Limit)})
		for _, g := range st.Groups {
			rows = append(rows, []string{"  " + g.Name, string(g.State), "", "", strconv.Itoa(g.Peak), limit(g.Limit)})
		}
	}
	t.table(append(rows, []string{"the run", string(e.State), short(begun), short(e.At), strconv.Itoa(e.Peak), ""}))
	if len(e.Gates) > 0 {
		t.Printf("")
		t.Printf("Gates:")
	}
	for _, g := range e.Gates {
		by, decided := "", ""
		if g.By != "" {
			by = ", by " + g.By
		}
		if g.Decided {
			decided = "; it decided"
		}
		t.Printf("  %s %s %s, %s: held for %s from %s%s%s", g.Type, strings.ToLower(string(g.When)),
			joined("/", g.Stage, g.Group), g.State, short(g.Held), short(g.Opened), by, decided)
	}
	t.others(e.Clusters)
}

// verdict says how a run ended.
func verdict(e *simulate.End, run string) string {
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
	by := map[stages.State]int{}
	for _, c := range e.Clusters {
		by[c.State]++
	}
	var counts []string
	for _, s := range slices.SortedFunc(maps.Keys(by), func(a, b stages.State) int { return cmp.Or(by[b]-by[a], cmp.Compare(a, b)) }) {
		counts = append(counts, fmt.Sprintf("%d %s", by[s], s))
	}
	return how + ". Of " + clusters(len(e.Clusters)) + ": " + strings.Join(counts, ", ") + "."
}

// others prints the clusters that did not complete, by their states.
func (t *text) others(all []simulate.ClusterEnd) {
	by, order := map[stages.State][]string{}, []stages.State(nil)
	for _, c := range all {
		if c.State == stages.Completed {
			continue
		}
		if by[c.State] == nil {
			order = append(order, c.State)
		}
		by[c.State] = append(by[c.State], c.Name)
	}
	if len(order) > 0 {
		t.Printf("")
	}
	for _, state := range order {
		t.Printf("%s: %s", state, names(by[state]))
	}
}

// names are the first of all.
func names(all []string) string {
	first := strings.Join(all[:min(len(all), mostNames)], " ")
	if more := len(all) - mostNames; more > 0 {
		first += fmt.Sprintf(" and %d more", more)
	}
	return first
}

// table prints rows in columns.
func (t *text) table(rows [][]string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = cli.Printable(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	for line := range strings.Lines(b.String()) {
		t.Printf("%s", strings.TrimSuffix(line, "\n"))
	}
}

func since(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return short(d)
}

func limit(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
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
	return strconv.Itoa(n) + " clusters"
}
