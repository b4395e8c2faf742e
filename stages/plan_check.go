package stages

import (
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
)

// check returns the first thing that a stored plan has and NewPlan never
// makes. A digest alone does not protect: whoever can write a plan can write
// its digest.
func (p *Plan) check() error {
	if err := planProblems("strategy", p.Strategy.problems(nil)); err != nil {
		return err
	}
	switch {
	case len(planCheckPlacement(nil, p.Placement)) > 0:
		return fmt.Errorf("placement %q is not a DNS subdomain of at most %d characters", p.Placement, MaxPlacementName)
	case p.Index < 0:
		return fmt.Errorf("index %d is less than 0", p.Index)
	case !planIsID(p.Snapshot) || !planIsID(p.Decision):
		return fmt.Errorf("snapshot %q or decision %q is not a digest", p.Snapshot, p.Decision)
	}
	if err := p.checkRevisions(); err != nil {
		return err
	}
	if err := p.checkRollback(); err != nil {
		return err
	}
	if err := p.checkStages(); err != nil {
		return err
	}
	return p.checkNames()
}

func (p *Plan) checkRevisions() error {
	for i, digest := range p.Revisions {
		if !planIsID(digest) || i > 0 && p.Revisions[i-1] >= digest {
			return fmt.Errorf("revisions[%d]: %q is not a digest greater than the one before", i, digest)
		}
	}
	return nil
}

// checkStages checks that the stages divide the clusters up, in order.
func (p *Plan) checkStages() error {
	next, seen := 0, make(map[string]bool, len(p.Stages))
	for i := range p.Stages {
		st := &p.Stages[i]
		if !planIsName(st.Name) || seen[st.Name] || p.Rollback == nil && st.Remove != (st.Name == RemovalStageName) {
			return fmt.Errorf("stages[%d]: the name %q is not one a stage can have here", i, st.Name)
		}
		seen[st.Name] = true
		if st.Remove && i < len(p.Stages)-1 && p.Rollback == nil {
			return fmt.Errorf("stages[%d]: the removal stage is not the last", i)
		}
		if err := p.checkStage(st, &next); err != nil {
			return fmt.Errorf("stages[%d]: %w", i, err)
		}
	}
	if next != len(p.Clusters) {
		return fmt.Errorf("the stages have %d clusters, the plan has %d", next, len(p.Clusters))
	}
	return nil
}

func (p *Plan) checkStage(st *PlannedStage, next *int) error {
	if st.MaxConcurrency < 0 || st.MaxFailures < -1 || len(st.Groups) == 0 {
		return fmt.Errorf("maxConcurrency %d, maxFailures %d or %d groups is impossible", st.MaxConcurrency, st.MaxFailures, len(st.Groups))
	}
	for i, g := range st.Groups {
		if g.Name == "" && len(st.Groups) > 1 || g.Name != "" && !planIsName(g.Name) {
			return fmt.Errorf("groups[%d]: the name %q is impossible", i, g.Name)
		}
		if g.MaxConcurrency < 1 || g.MaxFailures < -1 {
			return fmt.Errorf("groups[%d]: maxConcurrency %d or maxFailures %d is impossible", i, g.MaxConcurrency, g.MaxFailures)
		}
		if g.First != *next || g.Len < 0 || g.Len > len(p.Clusters)-*next {
			return fmt.Errorf("groups[%d]: positions %d and on, %d of them, do not follow the group before", i, g.First, g.Len)
		}
		if err := p.checkClusters(st, g); err != nil {
			return err
		}
		if err := planCheckFlow(st, i); err != nil {
			return fmt.Errorf("groups[%d]: %w", i, err)
		}
		if err := planCheckGroup(st, &g); err != nil {
			return fmt.Errorf("groups[%d]: %w", i, err)
		}
		*next += g.Len
	}
	if st.Strict && st.MaxFailures < 1 && st.size() > 0 {
		return fmt.Errorf("a strict maxFailures of %d is impossible", st.MaxFailures)
	}
	if err := p.checkDomains(st); err != nil {
		return err
	}
	return planCheckGates(st.Gates)
}

// planCheckGroup checks what only groups with a name have.
func planCheckGroup(st *PlannedStage, g *PlannedGroup) error {
	if g.Name == "" && (len(g.Gates) > 0 || g.Strict) || st.Remove && (len(g.Gates) > 0 || g.Strict || st.Strict) {
		return errors.New("gates or a strict budget are impossible here")
	}
	if g.Strict && g.MaxFailures < 1 && g.Len > 0 {
		return fmt.Errorf("a strict maxFailures of %d is impossible", g.MaxFailures)
	}
	return planCheckGates(g.Gates)
}

func (p *Plan) checkClusters(st *PlannedStage, g PlannedGroup) error {
	for i, c := range p.Clusters[g.First : g.First+g.Len] {
		ok := c.Revision >= 0 && c.Revision < len(p.Revisions)
		if st.Remove {
			ok = c.Revision == -1
		}
		if !ok || c.UID != "" && !planIsID(c.UID) {
			return fmt.Errorf("cluster %d: revision %d or UID %q is impossible", g.First+i, c.Revision, c.UID)
		}
	}
	return nil
}

func planCheckGates(gates []PlannedGate) error {
	for i, g := range gates {
		task := Task{Type: g.Type, Wait: g.Wait, Schedule: g.Schedule}
		if g.Type == Approval {
			task.Approval = &g.Policy
		}
		if err := planProblems("gate", planCheckTask(nil, &task, g.When)); err != nil {
			return fmt.Errorf("gates[%d]: %w", i, err)
		}
		if g.When != approval.Before && g.When != approval.After {
			return fmt.Errorf("gates[%d]: there is no side %q of a stage or a group", i, g.When)
		}
	}
	return nil
}

func (p *Plan) checkNames() error {
	for i, pos := range p.byName {
		name := p.Clusters[pos].Name
		if !planIsName(name) || i > 0 && p.Clusters[p.byName[i-1]].Name == name {
			return fmt.Errorf("cluster %d: the name %q is not a DNS label or there twice", pos, name)
		}
	}
	return nil
}
