package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// examination is a look at what one cluster has of a placement, and at how that
// differs from what it should have. It only reads.
type examination struct {
	u         *snapshotUpdater
	placement string
	strategy  ApplyStrategy
	secretKey []byte
	cluster   placement.Cluster
	// revision is what to compare with; nil is what the ledger names.
	revision *revision
	now      time.Time
}

// failed is the outcome of an examination that could not be made.
func (x *examination) failed(err error) ClusterDrift {
	return ClusterDrift{Placement: x.placement, Cluster: x.cluster.Name, State: Unknown, Observed: x.now, Problems: []string{clip(err.Error())}}
}

func (x *examination) examine(ctx context.Context) (ClusterDrift, error) {
	out := ClusterDrift{Placement: x.placement, Cluster: x.cluster.Name, State: Compared, Observed: x.now}
	m, err := x.u.conns.get(ctx, x.cluster)
	if err != nil {
		return out, err
	}
	l, err := readLedger(ctx, m, x.placement)
	if err != nil {
		return out, err
	}
	if x.revision == nil {
		var digest string
		if out.State, digest = proven(l.ledger); digest == "" {
			return out, nil
		}
		if x.revision, err = x.u.contents.load(ctx, x.placement, digest); err != nil {
			return out, fmt.Errorf("cluster %s: %w", x.cluster.Name, err)
		}
	}
	out.Revision = x.revision.digest
	targets := targetsOf(x.revision, l.ledger)
	targets = slices.DeleteFunc(targets, func(t *target) bool { return t.want == nil })
	for _, t := range targets {
		if t.live, err = m.get(ctx, t.id); err != nil {
			return out, err
		}
	}
	c := comparison{x.u.compiler.of(x.revision, x.strategy, x.placement, x.secretKey), l.baselines(), nil}
	if x.strategy.DryRun {
		c.dry = m.asking(ctx, x.placement)
	}
	c.add(&out, x.strategy, x.placement, targets)
	return out, nil
}

// proven returns the revision that a ledger proves, or proved before somebody
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

// comparison compares objects of a revision with what a member has.
type comparison struct {
	manifests *manifests
	baselines baselines
	// dry returns what an apply would make of an object; nil asks nobody.
	dry func(*target) (*unstructured.Unstructured, error)
}

// asking returns what asks the member what an apply for a placement would make of
// an object.
func (m *memberConn) asking(ctx context.Context, placement string) func(*target) (*unstructured.Unstructured, error) {
	return func(t *target) (*unstructured.Unstructured, error) {
		return m.dryRun(ctx, t.want.obj, backend.ApplyOptions{Manager: manager(placement)})
	}
}

// add adds what differs to a report.
func (c *comparison) add(out *ClusterDrift, s ApplyStrategy, placement string, targets []*target) {
	for _, t := range targets {
		r, err := c.of(t)
		switch {
		case err != nil:
			out.Problems = append(out.Problems, clip(err.Error()))
		case r.Drifted():
			out.add(ObjectDrift{Report: r, Reason: reasonFor(s, t, placement), Observed: out.Observed, FirstObserved: out.Observed})
		}
	}
}

// add adds an object that differs.
func (c *ClusterDrift) add(o ObjectDrift) {
	c.Objects = append(c.Objects, o)
	c.Total++
}

// of compares one object.
func (c *comparison) of(t *target) (drift.Report, error) {
	m, err := c.manifests.of(t.want)
	if err != nil {
		return drift.Report{}, err
	}
	if c.dry == nil {
		return m.Compare(t.live, c.baselines.of(t))
	}
	return m.CompareWith(t.live, c.baselines.of(t), func() (*unstructured.Unstructured, error) { return c.dry(t) })
}

// reasonFor says what a difference of an object means.
func reasonFor(s ApplyStrategy, t *target, placement string) DriftReason {
	switch {
	case s.reportsOnly():
		return FoundDiff
	case t.live == nil || owned(t, placement):
		return FoundDrifts
	case s.takesOver() == Never:
		return NotTakenOver
	}
	return FailedToTakeOver
}

// owned tells that an object on a member is the placement's: by its mark, or
// because it is the very object that the ledger has.
func owned(t *target, placement string) bool {
	if t.live == nil {
		return false
	}
	return carries(t.live, placement) || t.listed && t.entry.UID != "" && t.entry.UID == uidOf(t.live)
}

// compiler keeps what revisions were compiled to, for the last few of them.
type compiler struct {
	mu   sync.Mutex
	kept []*manifests
}

// manifests are the objects of a revision, compiled when they are asked for.
type manifests struct {
	rev     *revision
	key     string
	options drift.Options
	at      map[snapshot.ID]int
	each    []compiled
}

type compiled struct {
	once     sync.Once
	manifest *drift.Manifest
	err      error
}

// of returns the manifests of a revision under a strategy.
func (c *compiler) of(rev *revision, s ApplyStrategy, placement string, secretKey []byte) *manifests {
	key := s.key() + "\n" + placement
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.kept, func(m *manifests) bool { return m.key == key && m.rev.digest == rev.digest }); i >= 0 {
		return c.kept[i]
	}
	m := &manifests{
		rev: rev, key: key, options: s.options(placement, s.ComparisonOption, secretKey),
		at: make(map[snapshot.ID]int, len(rev.items)), each: make([]compiled, len(rev.items)),
	}
	for i := range rev.items {
		m.at[rev.items[i].ID] = i
	}
	c.kept = append(c.kept, m)
	c.kept = c.kept[max(0, len(c.kept)-revisionsKept):]
	return m
}

// of returns an object of the revision.
func (m *manifests) of(item *revisionItem) (*drift.Manifest, error) {
	i, ok := m.at[item.ID]
	if !ok {
		return nil, fmt.Errorf("%s is not in revision %s", item.ID, m.rev.digest)
	}
	c := &m.each[i]
	c.once.Do(func() {
		if c.manifest, c.err = drift.Compile(item.obj, m.options); c.err != nil {
			c.err = permanent(fmt.Errorf("%s: %w", item.ID, c.err))
		}
	})
	return c.manifest, c.err
}

// key tells strategies apart.
func (s *ApplyStrategy) key() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // it cannot be: it was read from JSON or checked
	}
	return string(b)
}
