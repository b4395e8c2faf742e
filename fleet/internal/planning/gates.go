package planning

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// NoDriftGroup is the group of the engine, see fleet.NoDriftGroup.
const NoDriftGroup = "slipway:no-drift"

// AsksForDrift reports whether a policy requires the engine's own approval.
func AsksForDrift(p *approval.Policy) bool { return slices.ContainsFunc(p.Quorums, IsNoDrift) }

// IsNoDrift reports whether a quorum is the engine's own.
func IsNoDrift(q approval.Quorum) bool { return q.Group == NoDriftGroup }

// ClaimsDrift reports whether an identity claims to be the engine.
func ClaimsDrift(by approval.Identity) bool { return slices.Contains(by.Groups, NoDriftGroup) }

// checkGates returns an error if a gate of the plan could never pass, or if a check names an
// unknown provider.
func (pl *Planner) checkGates(p *stages.Plan) error {
	for i := range p.Stages {
		st := &p.Stages[i]
		gates := slices.Clone(st.Gates)
		for _, g := range st.Groups {
			gates = append(gates, g.Gates...)
		}
		for j := range gates {
			if err := pl.checkDriftGate(st.Name, &gates[j].Policy); err != nil {
				return err
			}
		}
	}
	for stage, c := range p.Checks() {
		if c.Object != "" {
			continue
		}
		if _, err := MetricProvider(pl.cfg.Metrics, c.Provider); err != nil {
			return fmt.Errorf("stage %s: check %s: %w: %w", stage, c.Name, err, backend.ErrPermanent)
		}
	}
	return nil
}

// checkObjects returns errors for checks whose object is not in the snapshot exactly once, or
// cannot be applied to the check's cluster. In a placement of a namespace, a check may only name a
// cluster of the plan, so that authors cannot reach other clusters through it. A check must not
// bring its object to a cluster that the run cleans, or to a cluster before the gates of that
// cluster's stage have opened.
func (pl *Planner) checkObjects(d *Draft, inventory map[string]placement.Cluster, namespace string) error {
	var errs []error
	var names []string
	for gate, c := range checksOf(d.Plan) {
		if c.Object == "" {
			continue
		}
		if names == nil {
			rev, err := member.NewRevision(d.Plan.Placement, d.Frozen.set)
			if err != nil {
				return err
			}
			names = append(rev.Checks(), "")
		}
		problem := ""
		n := len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != c.Object }))
		_, known := inventory[c.Cluster]
		pos, planned := d.Plan.Position(c.Cluster)
		switch {
		case pl.cfg.Updater != nil:
			problem = "object: cannot be applied with an Updater of the host's"
		case n == 0:
			problem = fmt.Sprintf("object: the snapshot has none with the annotation %s: %s", check.Annotation, c.Object)
		case n > 1:
			problem = fmt.Sprintf("object: the snapshot has %d with the annotation %s: %s, and must have one", n, check.Annotation, c.Object)
		case c.Cluster != "" && !known:
			problem = fmt.Sprintf("cluster: %s is not in the inventory", c.Cluster)
		case c.Cluster != "" && namespace != "" && !planned:
			problem = fmt.Sprintf("cluster: %s is none of the run's, and the placement is one of namespace %s", c.Cluster, namespace)
		case planned && d.Plan.Clusters[pos].Revision < 0:
			problem = fmt.Sprintf("cluster: the run removes the placement from %s, which gets no object of it any more: name another cluster", c.Cluster)
		case planned && !gate.open(d.Plan, pos):
			problem = fmt.Sprintf("cluster: the gates before %s may not have opened by then, and the object would bring new content to it: "+
				"name a cluster of an earlier stage, or one that is not of the run", c.Cluster)
		default:
			continue
		}
		errs = append(errs, fmt.Errorf("stage %s: check %s: %s: %w", d.Plan.Stages[gate.stage].Name, c.Name, problem, backend.ErrPermanent))
	}
	return errors.Join(errs...)
}

// gateAt is the position of a check: a gate of a stage, or of a group of the stage if group is not
// -1. If when is empty, the check belongs to the clusters of the stage and not to a gate.
type gateAt struct {
	stage, group int
	when         approval.When
}

// open reports whether the gates before the cluster at pos have opened by the time of the check.
func (g gateAt) open(p *stages.Plan, pos int) bool { return p.HasOpened(pos, g.stage, g.group, g.when) }

// checksOf yields the checks of clusters and gates of a plan, which may have objects, with their
// positions.
func checksOf(p *stages.Plan) iter.Seq2[gateAt, *check.Check] { //nolint:gocognit // nested loops over stages, groups and gates
	return func(yield func(gateAt, *check.Check) bool) {
		each := func(at gateAt, all []check.Check) bool {
			for i := range all {
				if !yield(at, &all[i]) {
					return false
				}
			}
			return true
		}
		gates := func(stage, group int, all []stages.PlannedGate) bool {
			for i := range all {
				if !each(gateAt{stage, group, all[i].When}, all[i].Checks) {
					return false
				}
			}
			return true
		}
		for i := range p.Stages {
			st := &p.Stages[i]
			if !each(gateAt{stage: i, group: -1}, st.ClusterChecks) || !gates(i, -1, st.Gates) {
				return
			}
			for g := range st.Groups {
				if !gates(i, g, st.Groups[g].Gates) {
					return
				}
			}
		}
	}
}

func (pl *Planner) checkDriftGate(stage string, policy *approval.Policy) error {
	switch {
	case !AsksForDrift(policy):
	case pl.cfg.Updater != nil:
		return fmt.Errorf("stage %s: the gate of group %s cannot pass with an Updater of the host's: leave it out: %w",
			stage, NoDriftGroup, backend.ErrPermanent)
	case slices.ContainsFunc(policy.Quorums, func(q approval.Quorum) bool { return IsNoDrift(q) && q.Count > 1 }):
		return fmt.Errorf("stage %s: the gate asks for more than one approval of group %s, which has one member, the engine: ask for 1: %w",
			stage, NoDriftGroup, backend.ErrPermanent)
	}
	return nil
}

// MetricProvider returns the provider with this name. If the name is empty, it returns the only
// provider.
func MetricProvider(all map[string]backend.MetricProvider, name string) (backend.MetricProvider, error) {
	names := slices.Sorted(maps.Keys(all))
	switch p, ok := all[name]; {
	case ok && p != nil:
		return p, nil
	case len(all) == 0:
		return nil, errors.New("no metric provider is configured (Prometheus, for example), so nothing can be measured")
	case name == "" && len(all) == 1:
		return all[names[0]], nil
	case name == "":
		return nil, fmt.Errorf("which provider is asked? there are %s", strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("there is no metric provider %.80q: there are %s", name, strings.Join(names, ", "))
	}
}
