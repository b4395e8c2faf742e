package step

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// since prints a moment as the time since a script began.
func since(t time.Time) string { return t.Sub(scriptEpoch).String() }

func eventsText(events []stages.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(eventText(&events[i]) + "\n")
	}
	return b.String()
}

func eventText(e *stages.Event) string {
	out := since(e.Time) + " " + string(e.Type)
	for _, word := range []string{e.Stage, e.Group, e.Cluster, e.Request, e.Command} {
		if word != "" {
			out += " " + word
		}
	}
	if e.Attempt != 0 {
		out += fmt.Sprintf(" #%d", e.Attempt)
	}
	if e.Count != 0 {
		out += fmt.Sprintf(" count=%d", e.Count)
	}
	if e.Unchanged {
		out += " unchanged"
	}
	if !e.Until.IsZero() {
		out += " until=" + since(e.Until)
	}
	if e.By != "" {
		out += " by=" + e.By
	}
	if e.Check != "" {
		out += fmt.Sprintf(" %s=%s %s", e.Check, e.Result, e.Value)
	}
	if e.Message != "" {
		out += fmt.Sprintf(" %q", e.Message)
	}
	return out
}

// readyText prints the result of a step: the state, the actions, and the time to wake.
func (s *scriptRun) readyText() string {
	out := string(s.r.State)
	if s.r.Reason != "" {
		out += fmt.Sprintf(" %q", s.r.Reason)
	}
	out += ":"
	for _, a := range s.last.Actions {
		what := a.Cluster
		if a.Request != nil {
			what = a.Request.Name
		}
		if q := a.Measure; q != nil {
			what = strings.TrimSuffix(q.Name+"/"+q.Cluster, "/")
			a.Attempt = q.Number
		}
		out += fmt.Sprintf(" %s %s#%d", strings.ToLower(string(a.Type)), what, a.Attempt)
	}
	if !s.last.Wake.IsZero() {
		out += " wake " + since(s.last.Wake)
	}
	return strings.TrimSuffix(out, ":") + "\n"
}

func awaitedText(awaited []stages.Awaited) string {
	var b strings.Builder
	for _, a := range awaited {
		b.WriteString(awaitedLine(a) + "\n")
	}
	return b.String()
}

func awaitedLine(a stages.Awaited) string {
	out := fmt.Sprintf("waits for %s %s", a.Kind, a.Name)
	if !a.Until.IsZero() {
		out += " until=" + since(a.Until)
	}
	if a.Message != "" {
		out += fmt.Sprintf(" %q", a.Message)
	}
	return out
}

func (w *scriptEnv) explain(cluster string) string {
	e, err := Explain(w.cur.plan, &w.cur.r, cluster)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	out := fmt.Sprintf("%s %s", e.Cluster, e.State)
	if e.Attempt != 0 {
		out += fmt.Sprintf(" #%d", e.Attempt)
	}
	return out + ": " + e.Reason + "\n" + awaitedText(e.Waiting)
}

// state prints every stage with its clusters and the counters of its groups.
func (w *scriptEnv) state() string {
	p, r := w.cur.plan, &w.cur.r
	states := maps.Collect(r.States(p))
	var b strings.Builder
	for i := range p.Stages {
		fmt.Fprintf(&b, "%s %s:", p.Stages[i].Name, r.form.Stages[i].State)
		for _, g := range p.Stages[i].Groups {
			for pos := g.First; pos < g.First+g.Len; pos++ {
				fmt.Fprintf(&b, " %s=%s", p.Clusters[pos].Name, states[pos])
			}
		}
		b.WriteString("\n")
		for _, g := range r.form.Stages[i].Gates {
			fmt.Fprintf(&b, "  %s %s %s\n", g.When, g.Type, g.State)
		}
		for j, g := range r.form.Stages[i].Groups {
			for _, gate := range g.Gates {
				fmt.Fprintf(&b, "  %s: %s %s %s\n", p.Stages[i].Groups[j].Name, gate.When, gate.Type, gate.State)
			}
		}
	}
	return b.String()
}

// outlineText prints the outline of a run.
func outlineText(o stages.Outline) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", o.Run)
	for _, st := range o.Stages {
		fmt.Fprintf(&b, "  %s %s%s\n", st.Name, st.State, gatesText(st.Gates))
		for _, g := range st.Groups {
			if g.Name != "" {
				fmt.Fprintf(&b, "    %s %s%s\n", g.Name, g.State, gatesText(g.Gates))
			}
		}
	}
	return b.String()
}

func gatesText(gates []stages.GateOutline) string {
	out := ""
	for _, g := range gates {
		out += fmt.Sprintf(" %s:%s=%s", g.When, g.Type, g.State)
		if g.By != "" {
			out += " by " + g.By
		}
	}
	return out
}
