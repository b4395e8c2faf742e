package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Comparison is about what one cluster has of a placement, and how that differs
// from what it should have. It only reads.
type Comparison struct {
	Placement string
	Strategy  ApplyStrategy
	// Key is the placement's, for what must not be shown.
	Key     []byte
	Cluster placement.Cluster
	// Revision is what to compare with; nil is what the ledger names.
	Revision *Revision
	// Now is when the cluster is observed.
	Now time.Time
	// Reported gets the status of the objects, where the cluster has the revision; it may be nil.
	Reported func(StatusReport)
}

// StatusReport is what objects of a placement say of themselves on a cluster that has been brought to a revision.
type StatusReport struct {
	Placement, Cluster, Revision string
	// Objects are those that are there, are the placement's and have a status, in the order of application.
	Objects []ObjectStatus
}

// ObjectStatus is the status of an object on a cluster. Enveloped reports whether an envelope brought the object.
type ObjectStatus struct {
	snapshot.ID
	Status    map[string]any
	Enveloped bool
}

// report reports the status of the objects, if that is asked for.
func (x *Comparison) report(out *ClusterDrift, targets []*target) {
	if x.Reported == nil || out.State != Compared || ReportsOnly(&x.Strategy) {
		return
	}
	r := StatusReport{Placement: x.Placement, Cluster: x.Cluster.Name, Revision: out.Revision}
	for _, t := range targets {
		if !owned(t, x.Placement) {
			continue
		}
		if status, ok := t.live.Object["status"].(map[string]any); ok {
			r.Objects = append(r.Objects, ObjectStatus{t.id, status, t.want.Envelope != nil})
		}
	}
	x.Reported(r)
}

// Failed is the outcome of a comparison that could not be made.
func (x *Comparison) Failed(err error) ClusterDrift {
	return ClusterDrift{Placement: x.Placement, Cluster: x.Cluster.Name, State: Unknown, Observed: x.Now, Problems: []string{guard.Clip(err.Error())}}
}

// Compare carries a comparison out. An object that the member fails to show is one of
// the problems of the result, and does not hide the others.
func (u *Applier) Compare(ctx context.Context, x Comparison) (ClusterDrift, error) {
	out := ClusterDrift{Placement: x.Placement, Cluster: x.Cluster.Name, State: Compared, Observed: x.Now}
	m, err := u.conns.get(ctx, x.Cluster)
	if err != nil {
		return out, err
	}
	l, err := readLedger(ctx, m, x.Placement, x.Key)
	if err != nil {
		return out, err
	}
	if x.Revision == nil {
		var digest string
		if out.State, digest = proven(l.ledger); digest == "" {
			return out, nil
		}
		if digest == unknownRevision {
			return out, fmt.Errorf("cluster %s: which revision it has is not known, because its ledger was written under a key that the engine's store does not have: a run brings it to one that is: %w",
				x.Cluster.Name, backend.ErrPermanent)
		}
		if x.Revision, err = u.load(ctx, x.Placement, digest); err != nil {
			return out, fmt.Errorf("cluster %s: %w", x.Cluster.Name, err)
		}
	}
	out.Revision = x.Revision.Digest
	for _, problem := range x.Revision.leftOut() {
		out.Problems = append(out.Problems, guard.Clip(problem.Error()))
	}
	targets := targetsOf(x.Revision, l.ledger)
	targets = slices.DeleteFunc(targets, func(t *target) bool { return t.want == nil })
	read := m.get
	if x.Strategy.Type == ReportDiff {
		read = m.show // what no update could create is not only absent
	}
	var failed error
	shown := targets[:0]
	for _, t := range targets {
		if t.live, err = read(ctx, t.id); err == nil {
			t.ended = l.endOf(t, manifestTag(x.Key, t.want))
			out.ends = out.ends || l.endsNow(t, manifestTag(x.Key, t.want))
			shown = append(shown, t)
			continue
		}
		// An object that the member fails to show does not hide the others.
		if !errors.Is(err, backend.ErrNoSuchKind) {
			failed = cmp.Or(failed, err)
		}
		if _, gone := readLedger(ctx, m, x.Placement, x.Key); gone != nil || ctx.Err() != nil {
			return out, err
		}
		out.Problems = append(out.Problems, guard.Clip(err.Error()))
	}
	if targets = shown; len(targets) == 0 && failed != nil {
		return out, failed
	}
	c := comparer{u.compiler.of(x.Revision, x.Strategy, x.Placement, x.Key), l.baselines(), nil}
	if x.Strategy.DryRun {
		c.dry = m.asking(ctx, x.Placement, &x.Strategy)
	}
	c.add(&out, x.Strategy, x.Placement, targets)
	x.report(&out, targets)
	return out, nil
}

// WatchCompared yields when something may differ that a comparison is about: the ledger, and the objects of
// the revision that the cluster is compared with. It names that revision before it begins, "" for none.
func (u *Applier) WatchCompared(ctx context.Context, x Comparison, poll time.Duration, about func(revision string)) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		m, ids, err := u.compared(ctx, x, about)
		if err != nil {
			yield(struct{}{}, err)
			return
		}
		m.watch(ctx, ids, poll)(yield)
	}
}

func (u *Applier) compared(ctx context.Context, x Comparison, about func(revision string)) (*memberConn, []snapshot.ID, error) {
	m, err := u.conns.get(ctx, x.Cluster)
	if err != nil {
		return nil, nil, err
	}
	l, err := readLedger(ctx, m, x.Placement, x.Key)
	if err != nil {
		return nil, nil, err
	}
	rev := x.Revision
	if rev == nil && l.Revision != "" && l.Revision != unknownRevision {
		if rev, err = u.load(ctx, x.Placement, l.Revision); err != nil {
			return nil, nil, err
		}
	}
	digest := ""
	if rev != nil {
		digest = rev.Digest
	}
	about(digest)
	return m, idsOf(x.Placement, rev, l.ledger), nil
}

// proven returns the revision that a ledger proves, or proved before an engine
// began to put it back; empty for none.
func proven(l *ledger) (DriftState, string) {
	switch {
	case l.open() && l.Keeping:
		return Updating, l.Target
	case l.open():
		return Updating, ""
	case l.Revision == "":
		return NotPlaced, ""
	}
	return Compared, l.Revision
}

// idsOf are a placement's ledger and the objects of it and of a revision, which may be nil.
func idsOf(placement string, rev *Revision, l *ledger) []snapshot.ID {
	ids := []snapshot.ID{ledgerID(placement)}
	for _, t := range targetsOf(rev, l) {
		ids = append(ids, t.id)
	}
	return ids
}

// reportDiff compares a cluster with the revision of an assignment whose strategy
// only reports. The cluster is as it should be as soon as that has been done:
// nothing is written to it, not even a ledger.
func (u *Applier) reportDiff(ctx context.Context, a Assignment) (Proof, error) {
	r := Proof{Applied: true, Unchanged: true, Revision: a.Revision, Current: true, Healthy: true}
	if a.Revision == "" {
		return u.nothingLeft(ctx, a, r)
	}
	rev, err := u.load(ctx, a.Placement, a.Revision)
	if err != nil {
		return Proof{}, fmt.Errorf("cluster %s: %w", a.Cluster.Name, err)
	}
	found, err := u.Compare(ctx, Comparison{
		Placement: a.Placement, Strategy: a.Strategy, Key: a.secretKey, Cluster: a.Cluster, Revision: rev, Now: u.now(),
	})
	if err != nil {
		return Proof{}, err
	}
	if err := u.saw(ctx, found); err != nil {
		return Proof{}, err
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
func (u *Applier) nothingLeft(ctx context.Context, a Assignment, r Proof) (Proof, error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return Proof{}, err
	}
	l, err := readLedger(ctx, m, a.Placement, a.secretKey)
	if err == nil && len(l.Objects) > 0 {
		err = fmt.Errorf("cluster %s: it still holds %d objects of placement %s, which only reports: let the placement apply again to have them removed: %w",
			m.name, len(l.Objects), a.Placement, backend.ErrPermanent)
	}
	if err != nil {
		return Proof{}, err
	}
	return r, nil
}

// reportDrift records what an update leaves that differs, where the strategy asks for
// more than to apply.
func (w *work) reportDrift(ctx context.Context) error {
	if !Watches(&w.a.Strategy) {
		return nil
	}
	out := ClusterDrift{Placement: w.a.Placement, Cluster: w.m.name, State: Compared, Revision: w.a.Revision, Observed: w.u.now()}
	if w.rev != nil {
		var wanted []*target
		for _, t := range w.targets {
			switch {
			case t.unread:
				out.Problems = append(out.Problems, guard.Clip(t.failed.Error()))
			case t.want != nil:
				wanted = append(wanted, t)
			}
		}
		w.comparer(ctx).add(&out, w.a.Strategy, w.a.Placement, wanted)
	}
	return w.u.saw(ctx, out)
}
