package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Comparison compares the objects of one placement on one cluster with their desired state. It only
// reads.
type Comparison struct {
	Placement string
	Strategy  apply.Strategy
	// Key is the placement's key, which protects values that must not be shown.
	Key     []byte
	Cluster placement.Cluster
	// Revision is the revision to compare with; nil means the revision in the ledger.
	Revision *Revision
	// Now is the time of the observation.
	Now time.Time
	// Ended, if set, is called if an object has ended and the ledger does not know that, see
	// [Applier.RecordEnds].
	Ended func()
	// Reported receives the status of the objects if the cluster has the revision; it may be nil.
	Reported func(apply.StatusReport)
}

// report reports the status of the objects if the caller asked for it.
func (x *Comparison) report(out *drift.ClusterReport, targets []*target) {
	if x.Reported == nil || out.State != drift.Compared || x.Strategy.ReportsOnly() {
		return
	}
	r := apply.StatusReport{Placement: x.Placement, Cluster: x.Cluster.Name, Revision: out.Revision}
	for _, t := range targets {
		if !owned(t, x.Placement) {
			continue
		}
		if status, ok := t.live.Object["status"].(map[string]any); ok {
			r.Objects = append(r.Objects, apply.ObjectStatus{ID: t.id, Status: status, Enveloped: t.want.Envelope != nil})
		}
	}
	x.Reported(r)
}

// Failed returns the report of a comparison that failed with err.
func (x *Comparison) Failed(err error) drift.ClusterReport {
	return drift.ClusterReport{Placement: x.Placement, Cluster: x.Cluster.Name, State: drift.Unknown, Observed: x.Now, Problems: []string{problemText(x.Cluster.Name, err)}}
}

// problemText returns an error as a problem of a report. The report names the cluster, so the
// problem does not.
func problemText(cluster string, err error) string {
	return strings.TrimPrefix(guard.ReasonOf(err), "cluster "+cluster+": ")
}

// Compare carries out a comparison. If the member fails to return an object, the result lists that
// as a problem, and the other objects are compared.
func (u *Applier) Compare(ctx context.Context, x Comparison) (drift.ClusterReport, error) {
	out := drift.ClusterReport{Placement: x.Placement, Cluster: x.Cluster.Name, State: drift.Compared, Observed: x.Now}
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
	for _, problem := range x.Revision.unplacedProblems() {
		out.Problems = append(out.Problems, guard.ReasonOf(problem))
	}
	targets := targetsOf(x.Revision, l.ledger)
	targets = slices.DeleteFunc(targets, func(t *target) bool { return t.want == nil })
	read := m.get
	if x.Strategy.Type == apply.ReportDiff {
		read = m.show // an object that no update could create is a problem, not only absent
	}
	var failed error
	ended, shown := false, targets[:0]
	for _, t := range targets {
		if t.live, err = read(ctx, t.id); err == nil {
			t.ended = l.endOf(t, manifestTag(x.Key, t.want))
			ended = ended || l.endsNow(t, manifestTag(x.Key, t.want))
			shown = append(shown, t)
			continue
		}
		// An object that the member fails to return does not hide the others.
		if !errors.Is(err, backend.ErrNoSuchKind) {
			failed = cmp.Or(failed, err)
		}
		if _, gone := readLedger(ctx, m, x.Placement, x.Key); gone != nil || ctx.Err() != nil {
			return out, err
		}
		out.Problems = append(out.Problems, problemText(x.Cluster.Name, err))
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
	if ended && x.Ended != nil {
		x.Ended()
	}
	return out, nil
}

// WatchCompared yields when the result of a comparison may change: when the ledger changes, or an
// object of the compared revision. It first calls about with that revision, "" if there is none.
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

// proven returns the revision that a ledger proves, or proved before an engine began to repair
// drift; "" if there is none.
func proven(l *ledger) (drift.ClusterState, string) {
	switch {
	case l.open() && l.Keeping:
		return drift.Updating, l.Target
	case l.open():
		return drift.Updating, ""
	case l.Revision == "":
		return drift.NotPlaced, ""
	}
	return drift.Compared, l.Revision
}

// idsOf returns the IDs of a placement's ledger, of the objects in the ledger, and of the objects
// of a revision, which may be nil.
func idsOf(placement string, rev *Revision, l *ledger) []snapshot.ID {
	ids := []snapshot.ID{ledgerID(placement)}
	for _, t := range targetsOf(rev, l) {
		ids = append(ids, t.id)
	}
	return ids
}

// reportDiff compares a cluster with the revision of an assignment whose strategy only reports. The
// comparison alone completes the cluster: nothing is written to it, not even a ledger.
func (u *Applier) reportDiff(ctx context.Context, a Assignment) (backend.Proof, error) {
	r := backend.Proof{Applied: true, Unchanged: true, Revision: a.Revision, Current: true, Healthy: true}
	if a.Revision == "" {
		return u.nothingLeft(ctx, a, r)
	}
	rev, err := u.load(ctx, a.Placement, a.Revision)
	if err != nil {
		return backend.Proof{}, fmt.Errorf("cluster %s: %w", a.Cluster.Name, err)
	}
	found, err := u.Compare(ctx, Comparison{
		Placement: a.Placement, Strategy: a.Strategy, Key: a.secretKey, Cluster: a.Cluster, Revision: rev, Now: u.now(),
	})
	if err != nil {
		return backend.Proof{}, err
	}
	if err := u.saw(ctx, found); err != nil {
		return backend.Proof{}, err
	}
	switch {
	case len(found.Problems) > 0:
		r.Message = fmt.Sprintf("%d objects differ, %d could not be compared: %s", found.Total, len(found.Problems), found.Problems[0])
	case found.Total > 0:
		r.Message = fmt.Sprintf("%d objects differ", found.Total)
	}
	return r, nil
}

// nothingLeft returns an error if a cluster that must be cleaned still has objects of the
// placement, applied before the placement only reported.
func (u *Applier) nothingLeft(ctx context.Context, a Assignment, r backend.Proof) (backend.Proof, error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return backend.Proof{}, err
	}
	l, err := readLedger(ctx, m, a.Placement, a.secretKey)
	if err == nil && len(l.Objects) > 0 {
		err = fmt.Errorf("cluster %s: it still holds %d objects of placement %s, which only reports: let the placement apply again to have them removed: %w",
			m.name, len(l.Objects), a.Placement, backend.ErrPermanent)
	}
	if err != nil {
		return backend.Proof{}, err
	}
	return r, nil
}

// reportDrift records the differences that an update leaves, if the strategy watches for drift.
func (w *work) reportDrift(ctx context.Context) error {
	if !w.a.Strategy.Watches() {
		return nil
	}
	out := drift.ClusterReport{Placement: w.a.Placement, Cluster: w.m.name, State: drift.Compared, Revision: w.a.Revision, Observed: w.u.now()}
	if w.rev != nil {
		var wanted []*target
		for _, t := range w.targets {
			switch {
			case t.unread():
				out.Problems = append(out.Problems, problemText(w.m.name, t.failed.err))
			case t.want != nil:
				wanted = append(wanted, t)
			}
		}
		w.comparer(ctx).add(&out, w.a.Strategy, w.a.Placement, wanted)
	}
	return w.u.saw(ctx, out)
}
