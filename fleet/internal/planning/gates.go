package planning

import (
	"errors"
	"fmt"
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

// AsksForDrift reports whether a policy asks for the engine's own approval.
func AsksForDrift(p *approval.Policy) bool { return slices.ContainsFunc(p.Quorums, IsNoDrift) }

// IsNoDrift reports whether a quorum is that of the engine.
func IsNoDrift(q approval.Quorum) bool { return q.Group == NoDriftGroup }

// ClaimsDrift reports whether an answer claims to be the engine's.
func ClaimsDrift(by approval.Identity) bool { return slices.Contains(by.Groups, NoDriftGroup) }

// checkGates refuses a plan with gates that the engine could never pass, or with checks of which it does not know the provider.
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
			return fmt.Errorf("stage %s: check %s: provider: %w: %w", stage, c.Name, err, backend.ErrPermanent)
		}
	}
	return nil
}

// checkObjects refuses a plan with checks whose objects its snapshot does not have once each, or with clusters to which they cannot be
// applied. Authors of a namespace reach no cluster by a check that their placement does not reach.
func (pl *Planner) checkObjects(d *Draft, inventory map[string]placement.Cluster, namespace string) error {
	var errs []error
	var names []string
	for stage, c := range d.Plan.Checks() {
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
		_, planned := d.Plan.Position(c.Cluster)
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
		default:
			continue
		}
		errs = append(errs, fmt.Errorf("stage %s: check %s: %s: %w", stage, c.Name, problem, backend.ErrPermanent))
	}
	return errors.Join(errs...)
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

// MetricProvider returns the provider of that name; without a name the only one.
func MetricProvider(all map[string]backend.MetricProvider, name string) (backend.MetricProvider, error) {
	names := slices.Sorted(maps.Keys(all))
	switch p, ok := all[name]; {
	case ok && p != nil:
		return p, nil
	case len(all) == 0:
		return nil, errors.New("this host has no metric providers, so that nothing can be measured")
	case name == "" && len(all) == 1:
		return all[names[0]], nil
	case name == "":
		return nil, fmt.Errorf("which provider is asked? there are %s", strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("there is no metric provider %.80q: there are %s", name, strings.Join(names, ", "))
	}
}
