package planning

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
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
		gates, checks := slices.Clone(st.Gates), slices.Concat(st.Checks, st.ClusterChecks)
		for _, g := range st.Groups {
			gates = append(gates, g.Gates...)
		}
		for j := range gates {
			if err := pl.checkDriftGate(st.Name, &gates[j].Policy); err != nil {
				return err
			}
			checks = append(checks, gates[j].Checks...)
		}
		for j := range checks {
			if _, err := MetricProvider(pl.cfg.Metrics, checks[j].Provider); err != nil {
				return fmt.Errorf("stage %s: check %s: provider: %w: %w", st.Name, checks[j].Name, err, backend.ErrPermanent)
			}
		}
	}
	return nil
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
