package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// RunSummary is a short form of a run, for lists.
type RunSummary struct {
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Placement string `json:"placement"`
	// Strategy is the name of the run's strategy; empty if it has none.
	Strategy string       `json:"strategy,omitempty"`
	Owner    string       `json:"owner,omitempty"`
	Title    string       `json:"title,omitempty"`
	State    stages.State `json:"state,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	// Hold means that the run waits for a command to start it.
	Hold bool `json:"hold,omitempty"`
	// Stage is the name of the current stage of the run, empty once all are done.
	Stage string `json:"stage,omitempty"`
	// Index is the index of the newest snapshot that a cluster gets; -1 if none does, or if a hub
	// has not planned the run.
	Index int `json:"index"`
	// Clusters is the number of clusters in the plan; Completed, Failed and Skipped are the numbers of
	// clusters that have ended in these states.
	Clusters  int `json:"clusters"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	// Created, Started and Ended are the times of these steps; zero if a step has not happened.
	Created time.Time `json:"created,omitzero"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// RolledBackBy is the last run that was created to roll the run back; empty if there is none.
	RolledBackBy string `json:"rolledBackBy,omitempty"`
	// Holder is the engine that drives the run, "" for none.
	Holder string `json:"holder,omitempty"`
	// Problem says why the records of the run cannot be read; then only Name and Placement are known.
	Problem string `json:"problem,omitempty"`
}

// Runs returns the runs of all placements, ordered by the name of the placement and then by
// creation. It is made for lists: it reads only the first record of a plan and not the clusters, so
// a thousand runs take some tens of milliseconds. Therefore it does not verify a plan by its
// digest; [RunHandle.Status] does. A run that cannot be read is included with its Problem.
func (e *Engine) Runs(ctx context.Context) ([]RunSummary, error) {
	placements, err := e.Placements(ctx)
	if err != nil {
		return nil, err
	}
	return e.summaries(ctx, placements, func(err error) bool { return state.IsNotFound(err) })
}

// Runs returns the runs of the placement in the order of their creation, as [Engine.Runs] does for
// all placements. It omits runs that were deleted, or forgotten because of the placement's
// RunHistory. The error matches backend.ErrNotFound if there is no placement of that name.
func (h PlacementHandle) Runs(ctx context.Context) ([]RunSummary, error) {
	return h.e.summaries(ctx, []string{h.name}, func(error) bool { return false })
}

// summaries returns the runs of placements. It omits a placement whose error is ignored.
func (e *Engine) summaries(ctx context.Context, placements []string, ignored func(error) bool) ([]RunSummary, error) {
	records := map[string]backend.Record{}
	for rec, err := range e.store.List(ctx, record.RunKey("")) {
		if err != nil {
			return nil, err
		}
		records[strings.TrimPrefix(rec.Key, record.RunKey(""))] = rec
	}
	outlines := planOutlines{store: e.store, known: map[string]planOutline{}}
	var out []RunSummary
	for _, p := range placements {
		placed, _, err := e.state.Placement(ctx, p)
		if ignored(err) {
			continue // it was deleted in between
		}
		if err != nil {
			return nil, err
		}
		for i := range placed.Runs {
			name := placed.Runs[i].Name
			rec, there := records[name]
			if !there {
				continue // created or deleted in between
			}
			s, err := e.summaryOf(ctx, rec, outlines)
			if err != nil {
				s = RunSummary{Name: name, Placement: p, Problem: err.Error()}
			}
			s.RolledBackBy = placed.Runs[i].RolledBackBy
			out = append(out, s)
		}
	}
	return out, ctx.Err()
}

func (e *Engine) summaryOf(ctx context.Context, rec backend.Record, outlines planOutlines) (RunSummary, error) {
	var rr record.Run
	if err := record.Decode(rec, &rr); err != nil {
		return RunSummary{}, err
	}
	r := &rr.Run
	plan, err := outlines.get(ctx, r.Plan)
	if err != nil {
		return RunSummary{}, fmt.Errorf("run %s: its plan: %w", r.Name, err)
	}
	if len(rr.InFlight.Unsuccessful) > 0 { // so many that they are in pages, whose order needs all of the run
		whole, err := e.Run(r.Name).Status(ctx)
		if err != nil {
			return RunSummary{}, err
		}
		r = &whole.Run
	}
	s := RunSummary{
		Name: r.Name, UID: r.UID, Placement: r.Placement, Strategy: plan.Strategy.Name, Owner: rr.Owner, Title: rr.Title, State: r.State, Hold: r.Hold, Reason: r.Reason,
		Index: plan.Index, Created: r.Created.Time(), Started: r.Started.Time(), Ended: r.Ended.Time(), Holder: rr.Lease.Holder,
	}
	if r.Form(runstate.Key{}).Stage >= 0 && r.Form(runstate.Key{}).Stage < len(plan.Stages) {
		s.Stage = plan.Stages[r.Form(runstate.Key{}).Stage].Name
	}
	for _, st := range plan.Stages {
		for _, g := range st.Groups {
			s.Clusters += g.Len
		}
	}
	for i := range r.Form(runstate.Key{}).Stages {
		for _, g := range r.Form(runstate.Key{}).Stages[i].Groups {
			s.Completed += g.Completed
		}
	}
	for _, u := range r.Form(runstate.Key{}).Unsuccessful {
		if n := u.Last - u.First + 1; u.State == stages.Failed {
			s.Failed += n
		} else {
			s.Skipped += n
		}
	}
	return s, nil
}

// planOutline is the part of a plan that a summary uses.
type planOutline struct {
	Index    int
	Strategy struct{ Name string }
	Stages   []struct {
		Name   string
		Groups []struct{ Len int }
	}
}

// planOutlines reads the headers of plans, each once, because catch-up runs and repeated runs share
// a plan.
type planOutlines struct {
	store backend.Store
	known map[string]planOutline
}

func (o planOutlines) get(ctx context.Context, digest string) (planOutline, error) {
	if p, ok := o.known[digest]; ok {
		return p, nil
	}
	rec, err := o.store.Get(ctx, state.PlanKey(digest))
	if err != nil {
		return planOutline{}, err
	}
	var header struct{ Plan planOutline }
	if err := json.Unmarshal(rec.Value, &header); err != nil {
		return planOutline{}, record.Damaged(rec.Key, err)
	}
	o.known[digest] = header.Plan
	return header.Plan, nil
}
