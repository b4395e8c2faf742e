package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// NoDriftGroup is the group of the engine itself, as the one who says that the
// clusters of a stage have not drifted. A gate whose policy asks for an approval
// of this group, alone or beside people, passes only while they have not. Nobody
// else may be in it.
const NoDriftGroup = "slipway:no-drift"

// NoDrift is a gate that passes once no cluster of the stage differs from what
// its ledger says. Until then the run waits, and looks again.
func NoDrift() stages.Task {
	return stages.Task{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: NoDriftGroup, Count: 1}}}}
}

// asksForDrift tells whether a policy asks for the engine's own word.
func asksForDrift(p *approval.Policy) bool {
	return slices.ContainsFunc(p.Quorums, func(q approval.Quorum) bool { return q.Group == NoDriftGroup })
}

// claimsDrift tells that somebody says that they are the engine.
func claimsDrift(by approval.Identity) bool { return slices.Contains(by.Groups, NoDriftGroup) }

// noDrift is the authority that says whether clusters have drifted.
type noDrift struct {
	e    *Engine
	plan *stages.Plan
}

// Decide approves where no cluster of the request's stage has drifted; otherwise
// it does not answer yet.
func (a noDrift) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	clusters := stageClusters(a.plan, r.Stage)
	compared := 0
	for c, err := range a.e.Drift(ctx, r.Placement, DriftOptions{Clusters: clusters}) {
		switch {
		case err != nil:
			return approval.Decision{}, err
		case c.State == Unknown:
			return approval.Decision{}, fmt.Errorf("cluster %s: %s", c.Cluster, c.Problems[0])
		case c.State == Updating:
			return approval.Decision{}, fmt.Errorf("cluster %s: an update has begun and not ended", c.Cluster)
		case c.Total > 0 || len(c.Problems) > 0:
			return approval.Decision{}, fmt.Errorf("cluster %s: %d objects differ, %d could not be compared", c.Cluster, c.Total, len(c.Problems))
		}
		compared++
	}
	return approval.Decision{
		Verdict: approval.Approve, By: approval.Identity{Name: NoDriftGroup, Groups: []string{NoDriftGroup}},
		Comment: fmt.Sprintf("%d clusters were compared, none has drifted", compared),
	}, nil
}

// stageClusters names the clusters of a stage.
func stageClusters(p *stages.Plan, stage string) []string {
	var out []string
	for i := range p.Stages {
		if p.Stages[i].Name != stage {
			continue
		}
		for _, g := range p.Stages[i].Groups {
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				out = append(out, c.Name)
			}
		}
	}
	return out
}
