package driftwatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/stages"
)

// Gate is the approval authority for gates that require clusters without drift.
type Gate struct {
	drifts *Reporter
	plan   *stages.Plan
	// worst is the cluster that last prevented approval; it is compared before all others.
	worst string
}

// Gate returns the authority for the gates of a plan.
func (r *Reporter) Gate(p *stages.Plan) *Gate { return &Gate{drifts: r, plan: p} }

// Decide approves, for this moment only, if no cluster of the request's stage or group has drifted.
// It does not answer while other approvals are missing, because a comparison of all clusters is
// expensive and would have to be repeated.
func (a *Gate) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	others := slices.ContainsFunc(approval.Missing(r), func(q approval.Quorum) bool { return !planning.IsNoDrift(q) })
	if others || a.drifts.state.Now().Before(r.NotBefore) {
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
		Verdict: approval.Approve, By: approval.Identity{Name: planning.NoDriftGroup, Groups: []string{planning.NoDriftGroup}},
		Comment: fmt.Sprintf("%d clusters were compared, none has drifted", compared), PointInTime: true,
	}, nil
}

// compare compares clusters until one of them blocks the gate, which is an error, and returns how
// many were compared. A cluster that has left the placement or the inventory does not block the
// gate. Neither does an update that an earlier run left unfinished, because only a run can finish
// it.
func (a *Gate) compare(ctx context.Context, placement string, clusters []string) (n int, err error) {
	if len(clusters) == 0 {
		return 0, nil
	}
	for c, err := range a.drifts.driftOf(ctx, placement, Query{Clusters: clusters}, false) {
		a.worst = c.Cluster
		switch {
		case err != nil:
			return n, err
		case c.State == drift.Unknown:
			return n, fmt.Errorf("cluster %s: %s", c.Cluster, c.Problems[0])
		case c.Total > 0 || len(c.Problems) > 0:
			return n, fmt.Errorf("cluster %s: %d objects differ, %d could not be compared", c.Cluster, c.Total, len(c.Problems))
		}
		a.worst = ""
		n++
	}
	return n, nil
}

// stageClusters returns the names of the clusters of a stage, or of one group of the stage.
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
