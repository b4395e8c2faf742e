package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// NoDriftGroup is the group in which the engine itself approves that the clusters of a stage have not
// drifted. A gate whose policy asks for one approval of this group, alone or beside people, passes only when
// they have not. What the engine says holds at a point in time only, see [approval.Decision]: it compares the
// clusters last, once all others have approved and the waits beside the gate have ended. It is the owner's
// alone.
const NoDriftGroup = "slipway:no-drift"

// NoDrift is a gate that passes once no cluster of the stage or group differs from what its ledger says.
// Until then the run waits, and they are compared again. A run with such a gate is refused where an Updater
// of the host's does what runs do.
func NoDrift() stages.Task {
	return stages.Task{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: NoDriftGroup, Count: 1}}}}
}

// asksForDrift reports whether a policy asks for the engine's own approval.
func asksForDrift(p *approval.Policy) bool { return slices.ContainsFunc(p.Quorums, isNoDrift) }

func isNoDrift(q approval.Quorum) bool { return q.Group == NoDriftGroup }

// claimsDrift reports whether an answer claims to be the engine's.
func claimsDrift(by approval.Identity) bool { return slices.Contains(by.Groups, NoDriftGroup) }

// checkDriftGates refuses a plan whose gates the engine could never pass.
func (e *Engine) checkDriftGates(p *stages.Plan) error {
	for i := range p.Stages {
		gates := slices.Clone(p.Stages[i].Gates)
		for _, g := range p.Stages[i].Groups {
			gates = append(gates, g.Gates...)
		}
		for j := range gates {
			g := &gates[j]
			switch {
			case !asksForDrift(&g.Policy):
			case e.cfg.Updater != nil:
				return fmt.Errorf("stage %s: the gate of group %s cannot pass with an Updater of the host's: leave it out: %w",
					p.Stages[i].Name, NoDriftGroup, backend.ErrPermanent)
			case slices.ContainsFunc(g.Policy.Quorums, func(q approval.Quorum) bool { return isNoDrift(q) && q.Count > 1 }):
				return fmt.Errorf("stage %s: the gate asks for more than one approval of group %s, which has one member, the engine: ask for 1: %w",
					p.Stages[i].Name, NoDriftGroup, backend.ErrPermanent)
			}
		}
	}
	return nil
}

// noDrift is the authority that says whether clusters have drifted.
type noDrift struct {
	e    *Engine
	plan *stages.Plan
	// worst is the cluster that kept it from answering the last time; it is compared before all others.
	worst string
}

// Decide approves for now where no cluster of the request's stage or group has drifted.
// As long as others are missing it does not answer: to compare all clusters is not
// cheap, and would have to be done again.
func (a *noDrift) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	others := slices.ContainsFunc(approval.Missing(r), func(q approval.Quorum) bool { return !isNoDrift(q) })
	if others || a.e.now().Before(r.NotBefore) {
		return approval.Decision{}, nil
	}
	if a.worst != "" {
		if _, err := a.compare(ctx, r.Placement, []string{a.worst}); err != nil {
			return approval.Decision{}, err
		}
	}
	compared, err := a.compare(ctx, r.Placement, stageClusters(a.plan, r.Stage, r.Group))
	if err != nil {
		return approval.Decision{}, err
	}
	return approval.Decision{
		Verdict: approval.Approve, By: approval.Identity{Name: NoDriftGroup, Groups: []string{NoDriftGroup}},
		Comment: fmt.Sprintf("%d clusters were compared, none has drifted", compared), PointInTime: true,
	}, nil
}

// compare compares clusters until one holds the stage back, which is an error, and returns how many were
// compared. A cluster that has left the placement or the inventory does not hold the stage back, nor does an
// update that an earlier run left unfinished: only a run can finish it.
func (a *noDrift) compare(ctx context.Context, placement string, clusters []string) (n int, err error) {
	if len(clusters) == 0 {
		return 0, nil
	}
	for c, err := range a.e.driftOf(ctx, placement, driftOptions{Clusters: clusters}, false) {
		a.worst = c.Cluster
		switch {
		case err != nil:
			return n, err
		case c.State == Unknown:
			return n, fmt.Errorf("cluster %s: %s", c.Cluster, c.Problems[0])
		case c.Total > 0 || len(c.Problems) > 0:
			return n, fmt.Errorf("cluster %s: %d objects differ, %d could not be compared", c.Cluster, c.Total, len(c.Problems))
		}
		a.worst = ""
		n++
	}
	return n, nil
}

// stageClusters names the clusters of a stage, or of a group of it.
func stageClusters(p *stages.Plan, stage, group string) []string {
	var out []string
	for i := range p.Stages {
		if p.Stages[i].Name != stage {
			continue
		}
		for _, g := range p.Stages[i].Groups {
			if group != "" && g.Name != group {
				continue
			}
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				out = append(out, c.Name)
			}
		}
	}
	return out
}
