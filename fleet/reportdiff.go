package fleet

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
)

// reportDiff compares a cluster with the revision of an assignment whose strategy
// only reports. The cluster is as it should be as soon as that has been done:
// nothing is written to it, not even a ledger.
func (u *snapshotUpdater) reportDiff(ctx context.Context, a Assignment) (Report, error) {
	r := Report{Applied: true, Unchanged: true, Revision: a.Revision, Current: true, Healthy: true}
	if a.Revision == "" {
		return u.nothingLeft(ctx, a, r)
	}
	rev, err := u.contents.load(ctx, a.Placement, a.Revision)
	if err != nil {
		return Report{}, fmt.Errorf("cluster %s: %w", a.Cluster.Name, err)
	}
	x := &examination{
		u: u, placement: a.Placement, strategy: a.Strategy, secretKey: a.secretKey, cluster: a.Cluster, revision: rev, now: u.now(),
	}
	found, err := x.examine(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := u.saw(ctx, found); err != nil {
		return Report{}, err
	}
	switch {
	case len(found.Problems) > 0:
		r.Message = fmt.Sprintf("%d objects differ, %d could not be compared: %s", found.Total, len(found.Problems), found.Problems[0])
	case found.Total > 0:
		r.Message = fmt.Sprintf("%d objects differ", found.Total)
	}
	return r, nil
}

// nothingLeft looks whether a cluster that is to be cleaned holds anything of the
// placement, from before it only reported.
func (u *snapshotUpdater) nothingLeft(ctx context.Context, a Assignment, r Report) (Report, error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return Report{}, err
	}
	l, err := readLedger(ctx, m, a.Placement)
	if err == nil && len(l.Objects) > 0 {
		err = fmt.Errorf("cluster %s: it still holds %d objects of placement %s, which only reports: let the placement apply again to have them removed: %w",
			m.name, len(l.Objects), a.Placement, backend.ErrPermanent)
	}
	if err != nil {
		return Report{}, err
	}
	return r, nil
}

// tell records what an update leaves that differs, where the strategy asks for
// more than to apply.
func (w *work) tell(ctx context.Context) error {
	if !w.a.Strategy.watches() {
		return nil
	}
	out := ClusterDrift{Placement: w.a.Placement, Cluster: w.m.name, State: Compared, Revision: w.a.Revision, Observed: w.u.now()}
	if w.rev != nil {
		var wanted []*target
		for _, t := range w.targets {
			if t.want != nil {
				wanted = append(wanted, t)
			}
		}
		w.comparison(ctx).add(&out, w.a.Strategy, w.a.Placement, wanted)
	}
	return w.u.saw(ctx, out)
}
