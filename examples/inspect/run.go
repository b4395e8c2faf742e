package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// runDetail is one run with all that is known of it.
type runDetail struct {
	runInfo

	Stages []stageInfo `json:"stages"`
	// ClustersInFlight are the clusters that are being updated, Unsuccessful those that failed or were
	// skipped.
	ClustersInFlight []inFlightInfo     `json:"clustersInFlight,omitempty"`
	Unsuccessful     []unsuccessfulInfo `json:"unsuccessful,omitempty"`
	Waiting          []stages.Awaited   `json:"waiting,omitempty"`
	Requests         []approval.Request `json:"requests,omitempty"`
	// Approvals are the decisions that the run keeps. Those of a request that
	// expired are in the events only.
	Approvals []approval.Decision `json:"approvals,omitempty"`
}

type stageInfo struct {
	Stage    string       `json:"stage"`
	State    stages.State `json:"state"`
	Clusters int          `json:"clusters"`
	Done     int          `json:"done"`
	Failed   int          `json:"failed"`
	Skipped  int          `json:"skipped"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	Gates    []gateInfo   `json:"gates,omitempty"`
}

type gateInfo struct {
	When  approval.When   `json:"when"`
	Type  stages.TaskType `json:"type"`
	State stages.State    `json:"state"`
	// Opened is when the run came to the gate, Until when a wait ends or a
	// request expires.
	Opened  time.Time `json:"opened,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Attempt int       `json:"attempt,omitempty"`
}

type inFlightInfo struct {
	Cluster string    `json:"cluster"`
	Attempt int       `json:"attempt"`
	Phase   string    `json:"phase"`
	Started time.Time `json:"started,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"`
}

type unsuccessfulInfo struct {
	// First and Last are the first and the last cluster, in the plan's order,
	// of which this is true.
	First    string       `json:"first"`
	Last     string       `json:"last"`
	Clusters int          `json:"clusters"`
	State    stages.State `json:"state"`
	Attempts int          `json:"attempts,omitempty"`
	Gone     bool         `json:"gone,omitempty"`
	Reason   string       `json:"reason,omitempty"`
}

// showRun shows one run.
func showRun(ctx context.Context, v *view) error {
	s, err := v.status(ctx, v.arg)
	if err != nil {
		return err
	}
	leases, err := v.leases(ctx)
	if err != nil {
		return err
	}
	d := detailOf(s, leases[v.arg])
	if d.Requests, err = v.engine.Requests(ctx, v.arg); err != nil {
		return err
	}
	if v.json {
		v.object(d)
		return nil
	}
	d.print(&v.page)
	return nil
}

// status returns a run, or says which there are.
func (v *view) status(ctx context.Context, name string) (fleet.Status, error) {
	s, err := v.engine.Status(ctx, name)
	if !isMissing(err) {
		return s, err
	}
	names, _, nerr := v.runNames(ctx)
	if nerr != nil {
		return s, nerr
	}
	return s, missing("run", name, names)
}

func detailOf(s fleet.Status, l fleet.Lease) runDetail {
	p, r := s.Plan, &s.Run
	d := runDetail{runInfo: infoOf(s, l), Waiting: stages.Waiting(p, r)}
	for i := range p.Stages {
		st := stageInfo{Stage: p.Stages[i].Name, State: stages.NotStarted}
		for _, g := range p.Stages[i].Groups {
			st.Clusters += g.Len
		}
		if i < len(r.Stages) {
			st.take(&r.Stages[i])
			d.Approvals = append(d.Approvals, decisionsOf(&r.Stages[i])...)
		}
		d.Stages = append(d.Stages, st)
	}
	for _, f := range r.InFlight {
		if f.Attempt > 0 {
			d.ClustersInFlight = append(d.ClustersInFlight, inFlightInfo{p.Clusters[f.Pos].Name, f.Attempt, phaseName(f.Phase), f.Started.Time(), f.Until.Time(), f.Message})
		}
	}
	for _, x := range r.Unsuccessful {
		d.Unsuccessful = append(d.Unsuccessful, unsuccessfulInfo{
			p.Clusters[x.First].Name, p.Clusters[x.Last].Name, x.Last - x.First + 1, x.State, x.Attempts, x.Gone, x.Reason,
		})
	}
	return d
}

// take takes over what a stage has come to.
func (st *stageInfo) take(r *stages.StageRun) {
	st.State, st.Started, st.Ended = r.State, r.Started.Time(), r.Ended.Time()
	for _, g := range r.Groups {
		st.Done, st.Failed, st.Skipped = st.Done+g.Completed, st.Failed+g.Failed, st.Skipped+g.Skipped
	}
	for _, g := range r.Gates {
		st.Gates = append(st.Gates, gateInfo{g.When, g.Type, g.State, g.Opened.Time(), g.Until.Time(), g.Ended.Time(), g.Attempt})
	}
}

func decisionsOf(r *stages.StageRun) (all []approval.Decision) {
	for _, g := range r.Gates {
		all = append(all, g.Decisions...)
	}
	return all
}

func phaseName(p stages.ClusterPhase) string {
	switch p {
	case stages.Applying:
		return "Applying"
	case stages.Settling:
		return "Settling"
	case stages.Soaking:
		return "Soaking"
	case stages.BackingOff:
		return "BackingOff"
	}
	return "Phase" + fmt.Sprint(uint8(p))
}

func (d *runDetail) print(p *page) {
	p.field("run", d.Run)
	p.field("uid", d.UID)
	p.field("placement", fmt.Sprintf("%s, snapshot %d", d.Placement, d.Index))
	p.field("plan", d.Plan)
	p.field("state", joined(": ", string(d.State), d.Reason))
	p.field("progress", joined(", ", d.progress()+" clusters", inFlight(d.InFlight)))
	p.field("engine", joined(", ", orNone(d.Holder), d.lease()))
	p.field("created", joined(" by ", moment(d.Created), d.Starter))
	p.field("started", moment(d.Started))
	p.field("ended", moment(d.Ended))
	p.head("Stages")
	var rows []row
	for _, st := range d.Stages {
		rows = append(rows, st.row())
	}
	p.table([]string{"STAGE", "STATE", "DONE", "STARTED", "ENDED"}, rows)
	d.printClusters(p)
	d.printWaiting(p)
	d.printApprovals(p)
}

func inFlight(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d in flight", n)
}

func (st stageInfo) row() row {
	done := runInfo{Done: st.Done, Clusters: st.Clusters, Failed: st.Failed, Skipped: st.Skipped}.progress()
	out := row{cells: []string{st.Stage, string(st.State), done, moment(st.Started), moment(st.Ended)}}
	for _, g := range st.Gates {
		out.remarks = append(out.remarks, g.text())
	}
	return out
}

func (g gateInfo) text() string {
	text := fmt.Sprintf("%s it: %s %s", strings.ToLower(string(g.When)), g.Type, g.State)
	switch {
	case !g.Ended.IsZero():
		text += fmt.Sprintf(", %s to %s", moment(g.Opened), moment(g.Ended))
	case !g.Opened.IsZero():
		text += ", since " + moment(g.Opened)
	}
	if g.Ended.IsZero() && !g.Until.IsZero() {
		text += ", until " + moment(g.Until)
	}
	if g.Attempt > 1 {
		text += fmt.Sprintf(", request %d", g.Attempt)
	}
	return text
}

func (d *runDetail) printClusters(p *page) {
	if len(d.ClustersInFlight) > 0 {
		p.head("In flight")
	}
	for _, f := range d.ClustersInFlight {
		text := fmt.Sprintf("  %s: %s, attempt %d, since %s", f.Cluster, f.Phase, f.Attempt, moment(f.Started))
		if !f.Until.IsZero() {
			text += ", until " + moment(f.Until)
		}
		p.para(2, joined(": ", text, f.Message))
	}
	if len(d.Unsuccessful) > 0 {
		p.head("Failed or skipped")
	}
	for _, x := range d.Unsuccessful {
		p.para(2, x.text())
	}
}

func (x unsuccessfulInfo) text() string {
	text := "  " + x.First
	if x.Clusters > 1 {
		text += fmt.Sprintf(" to %s, %d clusters", x.Last, x.Clusters)
	}
	text += ": " + string(x.State)
	if x.Attempts > 0 {
		text += " after " + count(x.Attempts, "attempt")
	}
	if x.Gone {
		text += ", gone"
	}
	return joined(": ", text, x.Reason)
}

func (d *runDetail) printWaiting(p *page) {
	if len(d.Waiting) > 0 {
		p.head("Waits for")
	}
	for _, a := range d.Waiting {
		text := joined(" ", "  "+string(a.Kind), a.Name)
		if !a.Until.IsZero() {
			text += ", until " + moment(a.Until)
		}
		p.para(2, joined(": ", text, a.Message))
	}
	if len(d.Requests) > 0 {
		p.head("Open requests")
	}
	for _, r := range d.Requests {
		p.para(2, fmt.Sprintf("  %s, asked %s, for plan %s: needs %s", r.Name, moment(r.Opened), shorten(r.Binding.Plan), lacking(r)))
	}
}

// lacking says which approvals a request still needs.
func lacking(r approval.Request) string {
	var parts []string
	for _, q := range approval.Missing(r) {
		text := count(q.Count, "approval")
		if q.Group != "" {
			text += " of group " + q.Group
		}
		parts = append(parts, text)
	}
	if r.Policy.ForbidStarter {
		parts = append(parts, "not of "+orNone(r.Starter.Name)+", who started it")
	}
	return strings.Join(parts, ", ")
}

func (d *runDetail) printApprovals(p *page) {
	if len(d.Approvals) > 0 {
		p.head("Approvals")
	}
	for _, a := range d.Approvals {
		text := fmt.Sprintf("  %s %s by %s", moment(a.At), a.Verdict, a.By.Name)
		if len(a.By.Groups) > 0 {
			text += " (" + strings.Join(a.By.Groups, ", ") + ")"
		}
		text += fmt.Sprintf(", %s stage %s, for plan %s", strings.ToLower(string(a.Binding.When)), a.Binding.Stage, shorten(a.Binding.Plan))
		if a.Comment != "" {
			text += fmt.Sprintf(": %q", a.Comment)
		}
		p.para(2, text)
	}
}
