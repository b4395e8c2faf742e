package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
)

// columns is how wide lines are.
const columns = 80

// printer prints.
type printer struct {
	out, err io.Writer
	// table reports whether tables are wanted instead of JSON.
	table bool
}

// print prints a value as JSON, or the table of it.
func (p printer) print(v any, table func()) error {
	if p.table {
		table()
		return nil
	}
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// note prints a line of text.
func (p printer) note(format string, args ...any) {
	fmt.Fprintln(p.out, clip(printable(fmt.Sprintf(format, args...)), columns))
}

// printable replaces what a terminal might take for something else than text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}

// clip shortens a text to so many characters.
func clip(s string, most int) string {
	runes := []rune(strings.ReplaceAll(s, "\n", "; "))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}

// rows prints lines in columns.
func (p printer) rows(rows [][]string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i := range r {
			r[i] = clip(printable(cmp.Or(r[i], "-")), 46)
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
	for l := range strings.Lines(b.String()) {
		fmt.Fprintln(p.out, clip(strings.TrimRight(l, " \n"), columns))
	}
}

func (p printer) memberTable(list []memberView) {
	rows := [][]string{{"NAME", "GROUP", "REGION", "VERSION", "NODES", "OPERATION"}}
	for _, m := range list {
		group, nodes := "", ""
		if m.Group != nil {
			group = *m.Group
		}
		for _, pool := range m.Cluster.Pools {
			nodes = pool.Version + " " + strings.TrimPrefix(pool.Image, family+"-")
		}
		rows = append(rows, []string{m.Name, group, m.Cluster.Region, m.Cluster.Version, nodes, m.Cluster.Operation})
	}
	p.rows(rows)
}

func (p printer) strategyTable(list []strategyView) {
	rows := [][]string{{"NAME", "STAGE", "GROUPS", "WAIT"}}
	for _, s := range list {
		var form azure.Strategy
		_ = json.Unmarshal(s.Strategy, &form) // the program wrote it
		for _, st := range form.Stages {
			var groups []string
			for _, g := range st.Groups {
				groups = append(groups, g.Name)
			}
			rows = append(rows, []string{s.Name, st.Name, strings.Join(groups, " "), wait(st.AfterStageWait)})
		}
	}
	p.rows(rows)
}

func wait(seconds int) string {
	if seconds == 0 {
		return ""
	}
	return (time.Duration(seconds) * time.Second).String()
}

func (p printer) runsTable(list []azure.UpdateRun) {
	rows := [][]string{{"NAME", "STATE", "UPGRADE", "VERSION", "IMAGES", "FAILED"}}
	for _, u := range list {
		images := ""
		if u.Update.NodeImages != nil {
			images = u.Update.NodeImages.Type
		}
		rows = append(rows, []string{u.Name, u.Status.Status.State, u.Update.Upgrade.Type, u.Update.Upgrade.KubernetesVersion, images, fmt.Sprint(u.Status.FailureCount)})
	}
	p.rows(rows)
}

// runTable prints a run with its stages, groups and members.
func (p printer) runTable(u azure.UpdateRun) {
	rows := [][]string{{"STAGE", "GROUP", "MEMBER", "STATE", "WHY"}, {"", "", "", u.Status.Status.State, because(u.Status.Status)}}
	for _, st := range u.Status.Stages {
		rows = append(rows, []string{st.Name, "", "", st.Status.State, because(st.Status)})
		rows = append(rows, gateRows(st.Name, "", st.BeforeGates)...)
		for _, g := range st.Groups {
			rows = append(rows, []string{st.Name, g.Name, "", g.Status.State, because(g.Status)})
			rows = append(rows, gateRows(st.Name, g.Name, g.BeforeGates)...)
			for _, m := range g.Members {
				why := ""
				if m.Message != nil {
					why = *m.Message
				}
				rows = append(rows, []string{st.Name, g.Name, m.Name, m.Status.State, why})
			}
			rows = append(rows, gateRows(st.Name, g.Name, g.AfterGates)...)
		}
		rows = append(rows, gateRows(st.Name, "", st.AfterGates)...)
		if st.Wait != nil {
			rows = append(rows, []string{st.Name, "", "", st.Wait.Status.State, "wait of " + wait(st.Wait.Duration)})
		}
	}
	p.rows(rows)
}

func because(s azure.UpdateStatus) string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Message
}

func gateRows(stage, group string, gates []azure.GateStatus) (rows [][]string) {
	for _, g := range gates {
		name := g.Type
		if g.DisplayName != nil {
			name += " " + *g.DisplayName
		}
		rows = append(rows, []string{stage, group, "", g.Status.State, name})
	}
	return rows
}

func (p printer) gateTable(list []gateView) {
	rows := [][]string{{"GATE", "TYPE", "STATE", "STAGE", "GROUP", "TIMING"}}
	for _, g := range list {
		rows = append(rows, []string{g.Name, g.Type, g.State, g.Stage, g.Group, g.Timing})
	}
	p.rows(rows)
}

// event prints a line about what happened, if it is worth one.
func (p printer) event(e stages.Event) {
	text := told(e)
	if text == "" {
		return
	}
	where := e.Run
	if e.Stage != "" {
		where += " " + e.Stage
	}
	if e.Group != "" && e.Group != azure.OneByOneName {
		where += "/" + e.Group
	}
	if e.Cluster != "" {
		where += " " + e.Cluster
	}
	p.note("%s %s: %s", e.Time.UTC().Format(time.TimeOnly), where, text)
}

// told says in words what happened; nothing where that is of no interest.
func told(e stages.Event) string {
	why := ""
	if e.Message != "" {
		why = ": " + e.Message
	}
	switch e.Type {
	case stages.RunQueued, stages.RunStarted, stages.RunStopping, stages.RunStopped, stages.RunResumed, stages.RunRetried,
		stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
		return toldOfRun(e, why)
	case stages.StageStarted:
		return fmt.Sprintf("started, %s", members(e.Count))
	case stages.StageSkipped:
		return "skipped"
	case stages.StageCompleted:
		return fmt.Sprintf("completed, %s updated", members(e.Count))
	case stages.WaitStarted:
		return "waits until " + clock(e.Time, e.Until) + why
	case stages.WaitEnded:
		return "the wait is over" + why
	case stages.ApprovalRequested:
		return "gate " + e.Request + " waits for approval"
	case stages.ApprovalAccepted:
		return "gate " + e.Request + " is completed by " + e.By
	case stages.CommandRefused:
		return e.Command + " is refused" + why
	default:
		return toldOfMember(e, why)
	}
}

// clock returns a time of day, with the date where that is another one.
func clock(now, t time.Time) string {
	if now.UTC().Format(time.DateOnly) == t.UTC().Format(time.DateOnly) {
		return t.UTC().Format(time.TimeOnly)
	}
	return t.UTC().Format(time.DateTime)
}

func toldOfRun(e stages.Event, why string) string {
	switch e.Type {
	case stages.RunQueued:
		return "waits for " + e.Message
	case stages.RunStarted:
		return "started"
	case stages.RunStopping:
		return "stopping" + why
	case stages.RunStopped:
		return "stopped"
	case stages.RunResumed:
		return "started again"
	case stages.RunRetried:
		return "tries again " + members(e.Count)
	case stages.RunCompleted:
		return fmt.Sprintf("completed, %s updated", members(e.Count))
	case stages.RunFailed:
		return "failed" + why
	}
	return string(e.Type) + why
}

func toldOfMember(e stages.Event, why string) string {
	switch e.Type {
	case stages.ClusterStarted:
		return "started"
	case stages.ClusterCompleted:
		return "completed"
	case stages.ClusterFailed:
		return "failed" + why
	case stages.ClusterSkipped:
		if e.Cluster == "" {
			return members(e.Count) + " skipped" + why
		}
		return "skipped" + why
	case stages.ClusterPending:
		return "pending" + why
	case stages.ClusterUnhealthy:
		return "not healthy" + why
	case stages.ClusterRetrying:
		return "is tried again" + why
	default:
		return ""
	}
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
