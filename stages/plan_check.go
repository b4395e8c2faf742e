package stages

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// check returns the first thing that a stored plan has and the planner never
// makes. A digest alone does not protect: a writer of a plan can write
// its digest.
func (p *Plan) check() error {
	if err := values.ProblemsOf("strategy", p.Strategy.Problems(nil)); err != nil {
		return err
	}
	switch {
	case len(values.CheckPlacement(nil, p.Placement, MaxPlacementName)) > 0:
		return fmt.Errorf("placement %q is not a DNS subdomain of at most %d characters", p.Placement, MaxPlacementName)
	case p.Index < 0:
		return fmt.Errorf("index %d is less than 0", p.Index)
	case !values.IsID(p.Snapshot) || !values.IsID(p.Selection):
		return fmt.Errorf("snapshot %q or selection %q is not a digest", p.Snapshot, p.Selection)
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
	if err := p.checkNames(); err != nil {
		return err
	}
	return p.checkLeft()
}

// checkLeft checks the clusters that have left. The positions of the others are known.
func (p *Plan) checkLeft() error {
	if len(p.Left) > MaxLeft {
		return fmt.Errorf("left has %d clusters, more than %d", len(p.Left), MaxLeft)
	}
	for i, name := range p.Left {
		if _, planned := p.Position(name); planned || !values.IsName(name) || i > 0 && p.Left[i-1] >= name {
			return fmt.Errorf("left[%d]: %q is not a cluster that has left, greater than the one before", i, name)
		}
	}
	return nil
}

func (p *Plan) checkRevisions() error {
	for i, digest := range p.Revisions {
		if !values.IsID(digest) || i > 0 && p.Revisions[i-1] >= digest {
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
		if !values.IsName(st.Name) || seen[st.Name] || p.Rollback == nil && st.Remove != (st.Name == RemovalStageName) {
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
		if g.Name == "" && len(st.Groups) > 1 || g.Name != "" && !values.IsName(g.Name) {
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
		if err := checkFlow(st, i); err != nil {
			return fmt.Errorf("groups[%d]: %w", i, err)
		}
		if err := checkGroup(st, &g); err != nil {
			return fmt.Errorf("groups[%d]: %w", i, err)
		}
		*next += g.Len
	}
	if st.Strict && st.MaxFailures < 1 && st.Size() > 0 {
		return fmt.Errorf("a strict maxFailures of %d is impossible", st.MaxFailures)
	}
	if err := p.checkDomains(st); err != nil {
		return err
	}
	if err := st.checkMeasured(); err != nil {
		return err
	}
	return checkGates(st.Gates)
}

// checkMeasured checks the checks that are measured while the stage runs, and the checks of its
// clusters.
func (s *PlannedStage) checkMeasured() error {
	if s.Remove && len(s.Checks)+len(s.ClusterChecks) > 0 {
		return errors.New("checks are impossible where clusters are cleaned")
	}
	return values.ProblemsOf("stage", append(
		check.Problems(field.NewPath("checks"), s.Checks, check.OfStage),
		check.Problems(field.NewPath("clusterChecks"), s.ClusterChecks, check.OfClusters)...,
	))
}

// checkGroup checks the gates and the budget of a group. Gates, a strict budget and new clusters
// need a group with a name, and a removal stage has no gates and no strict budget.
func checkGroup(st *PlannedStage, g *PlannedGroup) error {
	if g.Name == "" && (len(g.Gates) > 0 || g.Strict || g.New) || st.Remove && (len(g.Gates) > 0 || g.Strict || st.Strict) {
		return errors.New("gates, a strict budget or new clusters are impossible here")
	}
	if g.Unproven < 0 || g.Unproven > g.Len || g.New && g.Unproven > 0 {
		return fmt.Errorf("%d unproven clusters of %d are impossible", g.Unproven, g.Len)
	}
	if g.Strict && g.MaxFailures < 1 && g.Len > 0 {
		return fmt.Errorf("a strict maxFailures of %d is impossible", g.MaxFailures)
	}
	return checkGates(g.Gates)
}

func (p *Plan) checkClusters(st *PlannedStage, g PlannedGroup) error {
	for i, c := range p.Clusters[g.First : g.First+g.Len] {
		ok := c.Revision >= 0 && c.Revision < len(p.Revisions)
		if st.Remove {
			ok = c.Revision == -1
		}
		if !ok || c.UID != "" && !values.IsID(c.UID) {
			return fmt.Errorf("cluster %d: revision %d or UID %q is impossible", g.First+i, c.Revision, c.UID)
		}
	}
	return nil
}

func checkGates(gates []PlannedGate) error {
	for i, g := range gates {
		task := Task{Type: g.Type, Wait: g.Wait, Schedule: g.Schedule, Checks: g.Checks}
		if g.Type == Approval {
			task.Approval = &g.Policy
		}
		if err := values.ProblemsOf("gate", checkTask(nil, &task, g.When)); err != nil {
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
		if !values.IsName(name) || i > 0 && p.Clusters[p.byName[i-1]].Name == name {
			return fmt.Errorf("cluster %d: the name %q is not a DNS label or there twice", pos, name)
		}
	}
	return nil
}

// checkRollback checks the fields that only the plan of a rollback run has.
func (p *Plan) checkRollback() error {
	b := p.Rollback
	if b == nil {
		return nil
	}
	if p.Strategy.Rollback != nil {
		return fmt.Errorf("rolls back run %q, and has a rollback itself", b.Run)
	}
	if len(b.Indexes) != len(p.Revisions) || slices.ContainsFunc(b.Indexes, func(i int) bool { return i < 0 || i > p.Index }) {
		return fmt.Errorf("rolls back run %q: indexes %v are not those of %d revisions, up to %d", b.Run, b.Indexes, len(p.Revisions), p.Index)
	}
	if !values.IsID(b.Plan) || !values.IsID(b.UID) || b.Run == "" {
		return fmt.Errorf("rolls back run %q with UID %q of plan %q: there is none", b.Run, b.UID, b.Plan)
	}
	return nil
}

// checkDomains checks the failure domains of a stored stage, and the cells of its
// clusters.
func (p *Plan) checkDomains(st *PlannedStage) error {
	if (len(st.Cells) > 0) != (len(st.Domains) > 0) {
		return fmt.Errorf("%d domains and %d cells are impossible", len(st.Domains), len(st.Cells))
	}
	if len(st.Domains) == 0 {
		return p.checkUndivided(st)
	}
	keys, err := domainKeys(st.Domains)
	if err != nil {
		return err
	}
	for i, cell := range st.Cells {
		ascends := i == 0 || slices.Compare(st.Cells[i-1], cell) < 0
		if len(cell) != len(keys) || !ascends {
			return fmt.Errorf("cells[%d] is impossible", i)
		}
		for j, d := range cell {
			if d < 0 || d >= len(st.Domains) || st.Domains[d].Key != keys[j] {
				return fmt.Errorf("cells[%d]: domain %d is impossible", i, d)
			}
		}
	}
	return p.checkDivided(st)
}

// domainKeys returns the label keys of the domains. It returns an error unless the domains of one
// key are adjacent and sorted by value.
func domainKeys(domains []PlannedDomain) (keys []string, err error) {
	for i, d := range domains {
		before := PlannedDomain{}
		if i > 0 {
			before = domains[i-1]
		}
		same := i > 0 && before.Key == d.Key
		switch {
		case d.MaxConcurrency < 1 || d.Clusters < 1 || d.Absent && d.Value != "" || len(validation.IsQualifiedName(d.Key)) > 0:
		case same && values.CompareLabelValues(values.LabelValue{Absent: before.Absent, Value: before.Value}, values.LabelValue{Absent: d.Absent, Value: d.Value}) >= 0:
		case !same && slices.Contains(keys, d.Key):
		default:
			if !same {
				keys = append(keys, d.Key)
			}
			continue
		}
		return nil, fmt.Errorf("domains[%d] %s is impossible here", i, d)
	}
	return keys, nil
}

func (p *Plan) checkUndivided(st *PlannedStage) error {
	for _, g := range st.Groups {
		for pos := g.First; pos < g.First+g.Len; pos++ {
			if p.Clusters[pos].Cell != 0 {
				return fmt.Errorf("cluster %d: cell %d is impossible", pos, p.Clusters[pos].Cell)
			}
		}
	}
	return nil
}

// checkDivided checks that each domain has its recorded number of clusters. In the plan of a
// rollback run a domain may have fewer, because the run may have changed only some of them.
func (p *Plan) checkDivided(st *PlannedStage) error {
	sizes := make([]int, len(st.Domains))
	for _, g := range st.Groups {
		for pos := g.First; pos < g.First+g.Len; pos++ {
			cell := p.Clusters[pos].Cell
			if cell < 0 || cell >= len(st.Cells) {
				return fmt.Errorf("cluster %d: cell %d is impossible", pos, cell)
			}
			for _, d := range st.Cells[cell] {
				sizes[d]++
			}
		}
	}
	for i, d := range st.Domains {
		if sizes[i] > d.Clusters || sizes[i] < d.Clusters && p.Rollback == nil {
			return fmt.Errorf("domains[%d] %s says that it has %d clusters, and has %d", i, d, d.Clusters, sizes[i])
		}
	}
	return nil
}
