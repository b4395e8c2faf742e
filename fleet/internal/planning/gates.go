package planning

import (
	"fmt"
	"slices"

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

// checkDriftGates refuses a plan whose gates the engine could never pass.
func (pl *Planner) checkDriftGates(p *stages.Plan) error {
	for i := range p.Stages {
		gates := slices.Clone(p.Stages[i].Gates)
		for _, g := range p.Stages[i].Groups {
			gates = append(gates, g.Gates...)
		}
		for j := range gates {
			g := &gates[j]
			switch {
			case !AsksForDrift(&g.Policy):
			case pl.cfg.Updater != nil:
				return fmt.Errorf("stage %s: the gate of group %s cannot pass with an Updater of the host's: leave it out: %w",
					p.Stages[i].Name, NoDriftGroup, backend.ErrPermanent)
			case slices.ContainsFunc(g.Policy.Quorums, func(q approval.Quorum) bool { return IsNoDrift(q) && q.Count > 1 }):
				return fmt.Errorf("stage %s: the gate asks for more than one approval of group %s, which has one member, the engine: ask for 1: %w",
					p.Stages[i].Name, NoDriftGroup, backend.ErrPermanent)
			}
		}
	}
	return nil
}
