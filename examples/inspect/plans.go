package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// planInfo is a plan as the list shows it.
type planInfo struct {
	Digest    string `json:"digest"`
	Placement string `json:"placement,omitempty"`
	Index     int    `json:"index"`
	Stages    int    `json:"stages"`
	Clusters  int    `json:"clusters"`
	Bytes     int    `json:"bytes"`
	// Runs carry the plan out.
	Runs []string `json:"runs,omitempty"`
	// Error is why the plan cannot be read.
	Error string `json:"error,omitempty"`
}

// planDetail is one plan with its clusters, in words of its own.
type planDetail struct {
	*planFields

	Runs     []string         `json:"runs,omitempty"`
	Clusters []plannedCluster `json:"clusters"`
}

// planFields has the fields of a plan, without its JSON, which is for reading it
// back.
type planFields stages.Plan

type plannedCluster struct {
	Cluster string `json:"cluster"`
	UID     string `json:"uid,omitempty"`
	Stage   string `json:"stage"`
	Group   string `json:"group,omitempty"`
	// Revision is the digest of what the cluster gets, empty if it is cleaned.
	Revision string `json:"revision,omitempty"`
}

// storedPlan is a plan by its records.
type storedPlan struct {
	digest       string
	pages, bytes int
}

// storedPlans returns the plans, ascending by digest. Their keys are documented
// in package fleet.
func (v *view) storedPlans(ctx context.Context) (all []storedPlan, err error) {
	records, err := v.stored(ctx, "plan/")
	for _, rec := range records {
		digest, _, isPage := strings.Cut(strings.TrimPrefix(rec.Key, "plan/"), "/")
		if len(all) == 0 || all[len(all)-1].digest != digest {
			all = append(all, storedPlan{digest: digest})
		}
		last := &all[len(all)-1]
		last.bytes += rec.Bytes
		if isPage {
			last.pages++
		}
	}
	return all, err
}

// readPlan returns a plan, verified against its digest.
func (v *view) readPlan(ctx context.Context, sp storedPlan) (*stages.Plan, error) {
	key := "plan/" + sp.digest
	header, err := v.store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	pages := make([][]byte, sp.pages)
	for i := range pages {
		rec, err := v.store.Get(ctx, key+"/"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		pages[i] = rec.Value
	}
	p, err := stages.DecodePlan(header.Value, pages)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", sp.digest, err)
	}
	if p.Digest != sp.digest {
		return nil, fmt.Errorf("plan %s is damaged: the record holds another one, %s", sp.digest, p.Digest)
	}
	return p, nil
}

// runsOf returns the names of the runs that carry a plan out.
func runsOf(runs []runInfo, digest string) (names []string) {
	for _, r := range runs {
		if r.Plan == digest {
			names = append(names, r.Run)
		}
	}
	return names
}

// listPlans shows the plans, also those that no run has.
func listPlans(ctx context.Context, v *view) error {
	runs, err := v.runs(ctx)
	if err != nil {
		return err
	}
	plans, err := v.storedPlans(ctx)
	if err != nil {
		return err
	}
	var all []planInfo
	for _, sp := range plans {
		info := planInfo{Digest: sp.digest, Bytes: sp.bytes, Runs: runsOf(runs, sp.digest)}
		p, err := v.readPlan(ctx, sp)
		switch {
		case v.run != "" && info.Runs == nil || err == nil && v.placement != "" && v.placement != p.Placement:
			continue
		case err != nil:
			info.Error = v.failed(err)
		default:
			info.Placement, info.Index, info.Stages, info.Clusters = p.Placement, p.Index, len(p.Stages), p.Len()
		}
		all = append(all, info)
	}
	list(v, "no plans", all, []string{"PLAN", "PLACEMENT", "SNAPSHOT", "STAGES", "CLUSTERS", "RUNS"}, planInfo.row)
	return nil
}

func (p planInfo) row() row {
	runs := orNone(strings.Join(p.Runs, " "))
	if p.Error != "" {
		return row{[]string{shorten(p.Digest), "unreadable", "-", "-", "-", runs}, remarksOf(p.Error)}
	}
	return row{cells: []string{shorten(p.Digest), p.Placement, strconv.Itoa(p.Index), strconv.Itoa(p.Stages), strconv.Itoa(p.Clusters), runs}}
}

// showPlan shows one plan, that of a run or of a digest.
func showPlan(ctx context.Context, v *view) error {
	p, err := v.planOf(ctx, v.arg)
	if err != nil {
		return err
	}
	runs, err := v.runs(ctx)
	if err != nil {
		return err
	}
	d := planDetail{planFields: (*planFields)(p), Runs: runsOf(runs, p.Digest)}
	for pos, c := range p.Clusters {
		stage, group := p.StageOf(pos)
		st := &p.Stages[stage]
		pc := plannedCluster{Cluster: c.Name, UID: c.UID, Stage: st.Name, Group: st.Groups[group].Name}
		if c.Revision >= 0 {
			pc.Revision = p.Revisions[c.Revision]
		}
		d.Clusters = append(d.Clusters, pc)
	}
	if v.json {
		v.object(d)
		return nil
	}
	d.print(&v.page)
	return nil
}

// planOf returns the plan that a word names: the name of a run, a digest, or
// the beginning of one.
func (v *view) planOf(ctx context.Context, word string) (*stages.Plan, error) {
	if s, err := v.engine.Status(ctx, word); !isMissing(err) {
		return s.Plan, err
	}
	all, err := v.storedPlans(ctx)
	if err != nil {
		return nil, err
	}
	known, _, err := v.runNames(ctx)
	if err != nil {
		return nil, err
	}
	var found []storedPlan
	for _, sp := range all {
		known = append(known, shorten(sp.digest))
		if word != "" && strings.HasPrefix(sp.digest, word) {
			found = append(found, sp)
		}
	}
	switch len(found) {
	case 0:
		return nil, missing("run or plan", word, known)
	case 1:
		return v.readPlan(ctx, found[0])
	}
	return nil, fmt.Errorf("%d plans begin with %s: more of the digest is needed", len(found), word)
}

// isMissing reports whether what was named is not there; what it needs may be.
func isMissing(err error) bool {
	_, ok := errors.AsType[*fleet.NotFoundError](err)
	return ok && errors.Is(err, backend.ErrNotFound)
}

func (d planDetail) print(p *page) {
	p.field("plan", d.Digest)
	p.field("placement", fmt.Sprintf("%s, snapshot %d", d.Placement, d.Index))
	p.field("snapshot", d.Snapshot)
	p.field("selection", d.Selection)
	p.field("strategy", d.Strategy.Name)
	p.field("runs", strings.Join(d.Runs, ", "))
	for _, w := range d.Warnings {
		p.field("warning", w)
	}
	for i := range d.Stages {
		d.printStage(p, &d.Stages[i])
	}
}

func (d planDetail) printStage(p *page, st *stages.PlannedStage) {
	what := "Stage " + st.Name
	if st.Remove {
		what += ", which cleans clusters"
	}
	p.head("%s: %s", what, joined(", ", atOnce(st.MaxConcurrency), mayFail(st.MaxFailures)))
	d.printGates(p, st, approval.Before)
	for _, g := range st.Groups {
		var names []string
		for _, c := range d.planFields.Clusters[g.First : g.First+g.Len] {
			names = append(names, c.Name)
		}
		lead := count(g.Len, "cluster")
		if g.Name != "" {
			lead = "group " + g.Name + ", " + lead
		}
		p.para(2, fmt.Sprintf("  %s, %s: %s", lead, joined(", ", atOnce(g.MaxConcurrency), mayFail(g.MaxFailures)), strings.Join(names, " ")))
	}
	d.printGates(p, st, approval.After)
}

func atOnce(n int) string {
	if n == 0 {
		return "any number at once"
	}
	return strconv.Itoa(n) + " at once"
}

func mayFail(n int) string {
	if n < 0 {
		return "any number may fail"
	}
	return strconv.Itoa(n) + " may fail"
}

func (d planDetail) printGates(p *page, st *stages.PlannedStage, when approval.When) {
	for _, g := range slices.DeleteFunc(slices.Clone(st.Gates), func(g stages.PlannedGate) bool { return g.When != when }) {
		text := "approval by " + approvers(g.Policy)
		if g.Type == stages.TimedWait {
			text = "wait of " + g.Wait.String()
		}
		p.para(2, fmt.Sprintf("  %s it: %s", strings.ToLower(string(when)), text))
	}
}

func approvers(policy approval.Policy) string {
	var parts []string
	for _, q := range policy.Quorums {
		who := strconv.Itoa(q.Count)
		if q.Group != "" {
			who += " of " + q.Group
		}
		parts = append(parts, who)
	}
	if len(parts) == 0 {
		parts = append(parts, "anybody")
	}
	if policy.ForbidStarter {
		parts = append(parts, "not by who started the run")
	}
	if policy.Expires > 0 {
		parts = append(parts, "within "+policy.Expires.String())
	}
	return strings.Join(parts, ", ")
}
