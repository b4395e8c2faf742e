package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// mark is how something on the board stands.
type mark int

const (
	ahead mark = iota
	busy
	asked
	done
	skipped
	failed
)

// board is the picture of one run: made of its plan, kept up to date by its
// events.
type board struct {
	run, placed    string
	state, message string
	started, ended time.Time
	stages         []boardStage
}

type boardStage struct {
	name     string
	clusters []boardCluster
	gates    []boardGate
}

type boardCluster struct {
	name, holds string
	mark        mark
	since       time.Time
	// trouble says why the cluster does not get on, until when it waits.
	trouble string
	until   time.Time
}

type boardGate struct {
	when  approval.When
	wait  time.Duration // 0 for an approval
	mark  mark
	text  string
	since time.Time
	until time.Time
}

func newBoard(run string, p *stages.Plan) *board {
	b := &board{run: run, state: "planned", placed: fmt.Sprintf("snapshot %d to %d clusters", p.Index, p.Len())}
	for i := range p.Stages {
		st := &p.Stages[i]
		s := boardStage{name: st.Name}
		for _, name := range namesOf(p, st) {
			s.clusters = append(s.clusters, boardCluster{name: name})
		}
		for _, g := range st.Gates {
			s.gates = append(s.gates, boardGate{when: g.When, wait: g.Wait})
		}
		b.stages = append(b.stages, s)
	}
	return b
}

// apply brings the board up to date; events of other runs change nothing.
func (b *board) apply(e stages.Event) {
	switch {
	case e.Run != b.run:
	case e.Cluster != "":
		if c := b.cluster(e.Cluster); c != nil {
			c.apply(e)
		}
	case e.Stage != "":
		b.applyGate(e)
	default:
		b.applyRun(e)
	}
}

func (b *board) applyRun(e stages.Event) {
	switch e.Type {
	case stages.RunCreated, stages.RunTaken, stages.CommandRefused:
		return
	case stages.RunStarted:
		b.started = e.Time
		b.state = "running"
	case stages.RunResumed:
		b.state = "running"
	case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
		b.ended = e.Time
		fallthrough
	default:
		b.state = strings.ToLower(strings.TrimPrefix(string(e.Type), "Run"))
	}
	b.message = e.Message
}

func (b *board) applyGate(e stages.Event) {
	for i := range b.stages {
		if b.stages[i].name == e.Stage {
			b.stages[i].applyGate(e)
		}
	}
}

func (s *boardStage) applyGate(e stages.Event) {
	g := s.open(strings.HasPrefix(string(e.Type), "Wait"))
	if g == nil {
		return
	}
	switch e.Type {
	case stages.WaitStarted:
		g.mark, g.since, g.until = busy, e.Time, e.Until
	case stages.WaitEnded:
		g.mark = done
	case stages.ApprovalRequested:
		g.mark, g.since, g.until, g.text = asked, e.Time, e.Until, e.Request
	case stages.ApprovalAccepted:
		g.mark, g.text = done, "approved by "+e.By
	case stages.ApprovalRejected:
		g.mark, g.text = failed, "rejected by "+e.By
	}
}

// open returns the first gate of a kind that is not over, nil if there is none.
func (s *boardStage) open(wait bool) *boardGate {
	for i := range s.gates {
		if g := &s.gates[i]; g.wait > 0 == wait && g.mark < done {
			return g
		}
	}
	return nil
}

func (b *board) cluster(name string) *boardCluster {
	for i := range b.stages {
		for j := range b.stages[i].clusters {
			if c := &b.stages[i].clusters[j]; c.name == name {
				return c
			}
		}
	}
	return nil
}

func (c *boardCluster) apply(e stages.Event) {
	c.trouble, c.until = e.Message, e.Until
	switch e.Type {
	case stages.ClusterCompleted, stages.ClusterRemoved:
		c.mark = done
	case stages.ClusterFailed:
		c.mark = failed
	case stages.ClusterSkipped:
		c.mark = skipped
	case stages.ClusterPending:
		c.mark = ahead
	default:
		if c.mark != busy {
			c.mark, c.since = busy, e.Time
		}
	}
}

// hold notes what the cluster holds after the run.
func (b *board) hold(m Member) {
	if c := b.cluster(m.Cluster); c != nil {
		c.holds = dataOf(m)
	}
}

// lines draws the board as it is at now.
func (b *board) lines(now time.Time, width int) []line {
	out := []line{nil, b.title(now)}
	if b.message != "" {
		out = append(out, line{{plain, "  " + b.message}})
	}
	column := 0
	for i := range b.stages {
		column = max(column, min(len(b.stages[i].name), 20))
	}
	for i := range b.stages {
		out = append(out, b.stages[i].lines(now, column, width)...)
	}
	return out
}

func (b *board) title(now time.Time) line {
	l := line{{bold, b.run}, {plain, "  " + b.placed + "  " + b.state}}
	switch {
	case b.started.IsZero():
	case b.ended.IsZero():
		l = append(l, span{plain, " for " + seconds(now.Sub(b.started))})
	default:
		l = append(l, span{plain, " in " + seconds(b.ended.Sub(b.started))})
	}
	return l
}

// lines draws a stage: its name, then its gates and clusters beside it.
func (s *boardStage) lines(now time.Time, column, width int) []line {
	var body []line
	for i := range s.gates {
		if g := &s.gates[i]; g.when == approval.Before {
			body = append(body, g.line(now))
		}
	}
	body = append(body, s.clusterLines(now, width-column-4)...)
	for i := range s.gates {
		if g := &s.gates[i]; g.when == approval.After {
			body = append(body, g.line(now))
		}
	}
	for i := range body {
		name := ""
		if i == 0 {
			name = s.name
		}
		body[i] = append(line{{plain, fmt.Sprintf("  %-*.*s  ", column, column, name)}}, body[i]...)
	}
	return body
}

// clusterLines sets the clusters side by side as far as there is room, and
// those in trouble once more with the reason.
func (s *boardStage) clusterLines(now time.Time, width int) []line {
	var out []line
	room := 0
	for i := range s.clusters {
		cell := s.clusters[i].cell(now)
		if room -= cell.width() + 2; room < 0 {
			out, room = append(out, nil), width-cell.width()-2
		}
		last := &out[len(out)-1]
		*last = append(append(*last, cell...), span{plain, "  "})
	}
	for i := range s.clusters {
		if c := &s.clusters[i]; c.trouble != "" {
			out = append(out, c.troubleLine(now))
		}
	}
	return out
}

func (c *boardCluster) cell(now time.Time) line {
	l := line{c.mark.span(), {plain, " " + c.name}}
	switch {
	case c.holds != "":
		l = append(l, span{faint, " " + c.holds})
	case c.mark == busy:
		l = append(l, span{faint, " " + seconds(now.Sub(c.since))})
	}
	return l
}

func (c *boardCluster) troubleLine(now time.Time) line {
	text := c.name + ": " + c.trouble
	if left := c.until.Sub(now); left > 0 {
		text += ", again in " + seconds(left)
	}
	return line{{plain, "  " + text}}
}

func (g *boardGate) line(now time.Time) line {
	text := g.text
	switch {
	case g.wait == 0 && g.mark == ahead:
		text = "approval"
	case g.wait == 0 && g.mark == asked:
		text = "approval " + g.text + ", waiting for " + seconds(now.Sub(g.since))
	case g.wait > 0 && g.mark == busy:
		text = fmt.Sprintf("wait of %s, %s left", short(g.wait), seconds(max(0, g.until.Sub(now))))
	case g.wait > 0 && g.mark == done:
		text = "waited " + short(g.wait)
	case g.wait > 0:
		text = "wait of " + short(g.wait)
	}
	return line{g.mark.span(), {plain, " " + text}}
}

// seconds writes a duration the way a clock that is redrawn shows it.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	}
	return d.Round(time.Second).String()
}

// short writes a duration the way a person does: 1m, not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// memberTable says what every member held after each run.
func memberTable(members []Member) []line {
	var runs, clusters []string
	cells := map[[2]string]string{}
	for _, m := range members {
		runs, clusters = addNew(runs, m.Run), addNew(clusters, m.Cluster)
		cells[[2]string{m.Run, m.Cluster}] = dataOf(m)
	}
	rows := [][]string{append([]string{"member"}, runs...)}
	for _, c := range clusters {
		row := []string{c}
		for _, r := range runs {
			row = append(row, cells[[2]string{r, c}])
		}
		rows = append(rows, row)
	}
	return tabulate(rows)
}

func addNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// tabulate sets rows in columns; the first row is the head.
func tabulate(rows [][]string) []line {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out []line
	for n, row := range rows {
		style := plain
		if n == 0 {
			style = bold
		}
		var l line
		for i, cell := range row {
			l = append(l, span{style, fmt.Sprintf("%-*s  ", widths[i], cell)})
		}
		out = append(out, l)
	}
	return out
}
