package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// view shows what happens. Its methods are called by one goroutine.
type view interface {
	// note shows something that the program does or says itself.
	note(text string) error
	// plan shows what a run is going to do.
	plan(run string, p *stages.Plan) error
	// again shows a run that an earlier process has created.
	again(s fleet.Status) error
	event(e stages.Event) error
	member(m Member) error
	// close leaves what is to stay.
	close() error
}

// picture is a view that needs every event, also those that an earlier process
// has shown. They may come before their run is shown.
type picture interface {
	view
	whole()
}

// newView returns how things are shown and where questions are asked.
func newView(output string, std stdio) (view, prompter) {
	_, echoes := terminalOf(std.in)
	prompt := plainPrompt{std.err, echoes}
	switch output {
	case "json":
		return jsonLines{std.out}, prompt
	case "auto":
		if term, ok := terminalOf(std.out); ok {
			s := newScreen(std.out, term.size, echoes, newPalette(os.Getenv))
			return s, s
		}
	}
	return textLines{std.out}, prompt
}

// jsonLines prints events and members as they are, and nothing else.
type jsonLines struct{ out io.Writer }

func (l jsonLines) note(string) error               { return nil }
func (l jsonLines) plan(string, *stages.Plan) error { return nil }
func (l jsonLines) again(fleet.Status) error        { return nil }
func (l jsonLines) event(e stages.Event) error      { return l.print(e) }
func (l jsonLines) member(m Member) error           { return l.print(m) }
func (l jsonLines) close() error                    { return nil }

func (l jsonLines) print(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = l.out.Write(append(b, '\n'))
	}
	return err
}

// textLines prints a line for each event.
type textLines struct{ out io.Writer }

func (l textLines) note(text string) error {
	_, err := fmt.Fprintln(l.out, "#", text)
	return err
}

func (l textLines) plan(run string, p *stages.Plan) error {
	for _, line := range planLines(p) {
		if err := l.note("plan of " + run + ", " + line); err != nil {
			return err
		}
	}
	return nil
}

func (l textLines) again(s fleet.Status) error { return l.note(standing(s)) }

func (l textLines) event(e stages.Event) error {
	return l.print(e.Time, string(e.Type), cmp.Or(e.Run, e.Placement), e.Stage, e.Group, e.Cluster, details(e))
}

func (l textLines) member(m Member) error {
	return l.print(m.Time, m.Type, m.Run, "", "", m.Cluster, dataOf(m))
}

func (l textLines) close() error { return nil }

func (l textLines) print(at time.Time, kind, run, stage, group, cluster, rest string) error {
	where := strings.Join(slices.DeleteFunc([]string{run, stage, group, cluster}, func(s string) bool { return s == "" }), "/")
	line := fmt.Sprintf("%s %-17s %s", clock(at), kind, where)
	if rest != "" {
		line += "  " + rest
	}
	_, err := fmt.Fprintln(l.out, line)
	return err
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

// details are the fields of an event that its line does not begin with.
func details(e stages.Event) string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if e.Index != nil {
		add(true, "index=%d", *e.Index)
	}
	add(e.Digest != "", "digest=%.12s", e.Digest)
	add(e.Count != 0, "count=%d", e.Count)
	add(e.Attempt > 1, "attempt=%d", e.Attempt)
	add(e.Epoch != 0, "epoch=%d", e.Epoch)
	add(e.Request != "", "request=%s", e.Request)
	add(e.Command != "", "command=%s", e.Command)
	add(e.By != "", "by=%s", e.By)
	add(e.Unchanged, "unchanged")
	add(!e.Until.IsZero(), "for=%s", short(e.Until.Sub(e.Time)))
	add(e.Message != "", "message=%q", e.Message)
	return strings.Join(out, " ")
}

// dataOf returns what a member holds as key=value.
func dataOf(m Member) string {
	if m.Data == nil {
		return "(no ConfigMap)"
	}
	var out []string
	for k, v := range m.Data {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// planLines describe a plan, a line for each stage.
func planLines(p *stages.Plan) []string {
	var out []string
	for i := range p.Stages {
		st := &p.Stages[i]
		steps := append(gateTexts(st, approval.Before), strings.Join(namesOf(p, st), ", "))
		steps = append(steps, gateTexts(st, approval.After)...)
		out = append(out, "stage "+st.Name+": "+strings.Join(steps, ", then "))
	}
	for _, w := range p.Warnings {
		out = append(out, "warning: "+w)
	}
	return out
}

// namesOf returns the clusters of a stage in their order.
func namesOf(p *stages.Plan, st *stages.PlannedStage) []string {
	var out []string
	for _, g := range st.Groups {
		for _, c := range p.Clusters[g.First : g.First+g.Len] {
			out = append(out, c.Name)
		}
	}
	return out
}

// gateTexts describe the gates on one side of a stage.
func gateTexts(st *stages.PlannedStage, when approval.When) []string {
	var out []string
	for _, g := range st.Gates {
		switch {
		case g.When != when:
		case g.Type == stages.TimedWait:
			out = append(out, "a wait of "+short(g.Wait))
		default:
			out = append(out, "an approval")
		}
	}
	return out
}
