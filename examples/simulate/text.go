package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// columns is how wide text is, mostNames how many names it lists of a kind.
const (
	columns   = 80
	mostNames = 20
)

// text shows a simulation to people.
type text struct {
	out io.Writer
	err error
	// back reports whether the run is being taken back.
	back bool
}

// timeline is where the columns of an event begin.
const (
	typeColumn  = 11
	whereColumn = typeColumn + 19
)

func (t *text) event(e simulate.Event) error {
	if e.Back != nil && !t.back {
		t.back = true
		t.plan(e.Back)
	}
	lead := fmt.Sprintf("%-*s%-*s", typeColumn, short(e.At)+" ", whereColumn-typeColumn, string(e.Type)+" ")
	where := joined("/", e.Stage, e.Group, e.Cluster)
	t.print(lead, whereColumn, joined("  ", where, details(e)))
	return t.err
}

// plan prints the plan of the run that takes the first one back.
func (t *text) plan(p *stages.Plan) {
	t.line("")
	t.print("", 0, simulate.BackName+" takes back what "+p.Rollback.Run+" brought, "+counted(len(p.Clusters), "cluster")+":")
	rows := make([][]string, 0, len(p.Clusters))
	for pos := range min(len(p.Clusters), mostNames) {
		stage, group := p.StageOf(pos)
		st, goes := &p.Stages[stage], "to nothing"
		if c := &p.Clusters[pos]; c.Revision >= 0 {
			goes = "to " + p.Revisions[c.Revision]
		}
		rows = append(rows, []string{"  " + joined("/", st.Name, st.Groups[group].Name), p.Clusters[pos].Name, goes})
	}
	t.table([]string{"  STAGE", "CLUSTER", "GOES"}, rows)
	if more := len(p.Clusters) - mostNames; more > 0 {
		t.line(fmt.Sprintf("  and %d more", more))
	}
	for _, k := range p.Rollback.Kept {
		t.print("  stays: ", 4, strings.Join(k.Clusters[:min(len(k.Clusters), mostNames)], " ")+", "+k.Reason)
	}
	t.line("")
}

// details are what else an event says.
func details(e simulate.Event) string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(e.Command != "", "%s", e.Command)
	add(e.Count > 0, "%s", counted(e.Count, "cluster"))
	add(e.Attempt > 1, "attempt %d", e.Attempt)
	add(e.Request != "", "%s", e.Request)
	add(e.By != "", "by %s", e.By)
	add(!e.Until.IsZero(), "until %s", short(e.At+e.Until.Sub(e.Time)))
	add(e.Unchanged, "unchanged")
	add(e.Message != "", "%s", e.Message)
	return strings.Join(out, ", ")
}

func (t *text) end(e *simulate.End) error {
	t.outcome(e, "The run", 0)
	switch {
	case e.Back == nil:
	case e.Back.Plan == nil:
		t.line("")
		t.print("", 0, "It is not taken back: "+e.Back.Refused)
	default:
		t.outcome(&e.Back.End, simulate.BackName, e.Back.Started)
	}
	return t.err
}

// outcome prints what a run came to.
func (t *text) outcome(e *simulate.End, run string, begun time.Duration) {
	t.line("")
	t.print("", 0, verdict(e, run))
	for i, w := range e.Waiting {
		if i == mostNames {
			t.line(fmt.Sprintf("  and for %d more", len(e.Waiting)-i))
			break
		}
		t.print("  waits for ", 4, joined(": ", joined(" ", strings.ToLower(string(w.Kind)), w.Name), w.Message))
	}
	t.line("")
	t.table([]string{"STAGE", "STATE", "FROM", "TO", "PEAK", "LIMIT"}, levels(e, begun))
	t.gates(e.Gates)
	t.others(e.Clusters)
}

// verdict says how a run ended.
func verdict(e *simulate.End, run string) string {
	by := map[stages.State]int{}
	for _, c := range e.Clusters {
		by[c.State]++
	}
	states := slices.SortedFunc(maps.Keys(by), func(a, b stages.State) int { return cmp.Or(by[b]-by[a], cmp.Compare(a, b)) })
	var counts []string
	for _, s := range states {
		counts = append(counts, fmt.Sprintf("%d %s", by[s], s))
	}
	how := fmt.Sprintf("%s is %s", run, e.State)
	switch e.Reason {
	case simulate.Stuck:
		how += fmt.Sprintf(" since %s, and nothing can happen any more", short(e.At))
	case simulate.Cut:
		how += fmt.Sprintf(" at %s, where the simulation ends", short(e.At))
	default:
		how += " at " + short(e.At)
	}
	if e.Message != "" {
		how += ": " + e.Message
	}
	if len(e.Clusters) == 0 {
		return how + ". The plan has no clusters."
	}
	return how + ". Of " + counted(len(e.Clusters), "cluster") + ": " + strings.Join(counts, ", ") + "."
}

// levels are the rows of stages and groups, and one of the run, which began at from.
func levels(e *simulate.End, from time.Duration) [][]string {
	rows := make([][]string, 0, len(e.Stages)+1)
	for _, st := range e.Stages {
		rows = append(rows, []string{st.Name, string(st.State), since(st.Started), since(st.Ended), strconv.Itoa(st.Peak), limit(st.Limit)})
		for _, g := range st.Groups {
			rows = append(rows, []string{"  " + g.Name, string(g.State), "", "", strconv.Itoa(g.Peak), limit(g.Limit)})
		}
	}
	return append(rows, []string{"the run", string(e.State), short(from), short(e.At), strconv.Itoa(e.Peak), ""})
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

// gates prints the gates that held the run.
func (t *text) gates(all []simulate.GateEnd) {
	if len(all) == 0 {
		return
	}
	t.line("")
	t.line("Gates:")
	for _, g := range all {
		words := fmt.Sprintf("%s %s %s, %s: %s for %s from %s", g.Type, strings.ToLower(string(g.When)),
			joined("/", g.Stage, g.Group), g.State, "held", short(g.Held), short(g.Opened))
		if g.By != "" {
			words += ", by " + g.By
		}
		if g.Decided {
			words += "; it decided"
		}
		t.print("  ", 4, words)
	}
}

// others prints the clusters that did not complete.
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
		t.line("")
	}
	for _, state := range order {
		names := by[state]
		words := strings.Join(names[:min(len(names), mostNames)], " ")
		if len(names) > mostNames {
			words += fmt.Sprintf(" and %d more", len(names)-mostNames)
		}
		t.print(string(state)+": ", 4, words)
	}
}

// table prints rows under a head, in columns.
func (t *text) table(head []string, rows [][]string) {
	rows = append([][]string{head}, rows...)
	widths := make([]int, len(head))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		t.print("", 4, strings.TrimRight(b.String(), " "))
	}
}

// print prints text on lines that fit, all but the first indented. It breaks
// between words, and a word that is longer than a line where the line ends.
func (t *text) print(lead string, indent int, words string) {
	row, fresh := clean(lead), true
	for word := range strings.SplitSeq(clean(words), " ") {
		switch n := utf8.RuneCountInString(row) + utf8.RuneCountInString(word); {
		case fresh:
		case n+1 <= columns:
			row += " "
		default:
			t.line(row)
			row = strings.Repeat(" ", indent)
		}
		row, fresh = row+word, false
		for utf8.RuneCountInString(row) > columns {
			runes := []rune(row)
			t.line(string(runes[:columns]))
			row = strings.Repeat(" ", indent) + string(runes[columns:])
		}
	}
	t.line(row)
}

func (t *text) line(words string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.out, strings.TrimRight(words, " ")+"\n")
	}
}

// short is a duration without the units that are 0 at its end: 1h rather than
// 1h0m0s.
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

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// clean writes out what a terminal would obey.
func clean(words string) string {
	var b strings.Builder
	for _, r := range words {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
