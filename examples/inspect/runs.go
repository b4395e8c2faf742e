package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// runInfo is a run as the lists show it.
type runInfo struct {
	Run       string       `json:"run"`
	UID       string       `json:"uid,omitempty"`
	Placement string       `json:"placement,omitempty"`
	Index     int          `json:"index"`
	Plan      string       `json:"plan,omitempty"`
	State     stages.State `json:"state,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	// Stage is the one that the run is in, "" when all are done.
	Stage string `json:"stage,omitempty"`
	// Clusters are those of the plan, Done those that are completed.
	Clusters int `json:"clusters"`
	Done     int `json:"done"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
	InFlight int `json:"inFlight"`
	// Holder is the engine that drives the run; Until and Overdue are those of
	// its lease.
	Holder  string    `json:"holder,omitempty"`
	Epoch   int64     `json:"epoch"`
	Until   time.Time `json:"until,omitzero"`
	Overdue bool      `json:"overdue,omitempty"`
	Starter string    `json:"starter,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Error is why the run cannot be read.
	Error string `json:"error,omitempty"`
}

// runs returns the runs that are asked for.
func (v *view) runs(ctx context.Context) ([]runInfo, error) {
	if _, err := v.placements(ctx); err != nil {
		return nil, err
	}
	names, of, err := v.runNames(ctx)
	if err != nil {
		return nil, err
	}
	if v.run != "" && !slices.Contains(names, v.run) {
		return nil, missing("run", v.run, names)
	}
	leases, err := v.leases(ctx)
	if err != nil {
		return nil, err
	}
	var out []runInfo
	for _, name := range names {
		if v.run != "" && v.run != name {
			continue
		}
		info, err := v.runInfo(ctx, name, of[name], leases[name])
		if err != nil {
			return nil, err
		}
		if v.placement == "" || v.placement == info.Placement {
			out = append(out, info)
		}
	}
	return out, nil
}

func (v *view) leases(ctx context.Context) (map[string]fleet.Lease, error) {
	all, err := v.engine.Leases(ctx)
	byRun := map[string]fleet.Lease{}
	for _, l := range all {
		byRun[l.Run] = l
	}
	return byRun, err
}

// runInfo returns a run. What is wrong with what is stored of it is part of
// that; the error is the store's.
func (v *view) runInfo(ctx context.Context, name, placement string, l fleet.Lease) (runInfo, error) {
	s, err := v.engine.Status(ctx, name)
	switch {
	case err == nil:
		return infoOf(s, l), nil
	case isLasting(err):
		return runInfo{Run: name, Placement: placement, Error: err.Error()}, nil
	}
	return runInfo{}, err
}

// isLasting reports whether an error is about what is stored, not about reading it.
func isLasting(err error) bool {
	_, newer := errors.AsType[*stages.FormatError](err)
	return newer || errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound)
}

func infoOf(s fleet.Status, l fleet.Lease) runInfo {
	r := &s.Run
	info := runInfo{
		Run: r.Name, UID: r.UID, Placement: r.Placement, Index: s.Plan.Index, Plan: r.Plan,
		State: r.State, Reason: r.Reason, Clusters: s.Plan.Len(),
		Holder: s.Holder, Epoch: s.Epoch, Until: l.Until, Overdue: l.Overdue,
		Starter: r.Starter.Name, Created: r.Created.Time(), Started: r.Started.Time(), Ended: r.Ended.Time(),
	}
	if r.Stage < len(s.Plan.Stages) {
		info.Stage = s.Plan.Stages[r.Stage].Name
	}
	for _, state := range stages.States(s.Plan, r) {
		switch state {
		case stages.Completed:
			info.Done++
		case stages.Failed:
			info.Failed++
		case stages.Skipped:
			info.Skipped++
		}
	}
	for _, f := range r.InFlight {
		if f.Attempt > 0 {
			info.InFlight++
		}
	}
	return info
}

// listRuns shows the runs.
func listRuns(ctx context.Context, v *view) error {
	all, err := v.runs(ctx)
	v.showRuns(all)
	return err
}

func (v *view) showRuns(all []runInfo) {
	for _, r := range all {
		v.countBad(r.Error)
	}
	list(v, "no runs", all, []string{"RUN", "PLACEMENT", "STATE", "STAGE", "DONE", "ENGINE"}, runInfo.row)
}

// countBad counts what is shown with an error.
func (v *view) countBad(problem string) {
	if problem != "" {
		v.bad++
	}
}

func (r runInfo) row() row {
	if r.Error != "" {
		return row{[]string{r.Run, orNone(r.Placement), "unreadable", "-", "-", "-"}, remarksOf(r.Error)}
	}
	out := row{cells: []string{r.Run, r.Placement, string(r.State), orNone(r.Stage), r.progress(), orNone(r.Holder)}}
	if r.Reason != "" {
		out.remarks = append(out.remarks, r.Reason)
	}
	if text := r.lease(); text != "" {
		out.remarks = append(out.remarks, text)
	}
	return out
}

func (r runInfo) progress() string {
	text := fmt.Sprintf("%d/%d", r.Done, r.Clusters)
	if r.Failed > 0 {
		text += " " + strconv.Itoa(r.Failed) + " failed"
	}
	if r.Skipped > 0 {
		text += " " + strconv.Itoa(r.Skipped) + " skipped"
	}
	return text
}

// lease says what is known of the lease of a run that is driven.
func (r runInfo) lease() string {
	if r.Holder == "" {
		return ""
	}
	text := fmt.Sprintf("epoch %d", r.Epoch)
	if !r.Until.IsZero() {
		text += ", lease until " + moment(r.Until)
	}
	if r.Overdue {
		text += ", which is over"
	}
	return text
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
