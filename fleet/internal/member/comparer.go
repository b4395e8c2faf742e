package member

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// comparer compares objects of a revision with the live objects of a member.
type comparer struct {
	manifests *manifests
	baselines *baselines
	// dry returns the result of a dry run of applying an object; nil if the strategy wants no dry
	// runs.
	dry func(*target) (*unstructured.Unstructured, error)
}

// add adds the objects that differ to a report.
func (c *comparer) add(out *drift.ClusterReport, s apply.Strategy, placement string, targets []*target) {
	for _, t := range targets {
		if t.ended != "" {
			continue // it did its work and went by itself
		}
		r, err := c.of(t)
		switch {
		case err != nil:
			out.Problems = append(out.Problems, guard.Clip(err.Error()))
		case r.Drifted():
			add(out, drift.ObjectReport{Report: r, Reason: reasonFor(s, t, placement), Observed: out.Observed, FirstObserved: out.Observed})
		}
	}
}

// of compares one object.
func (c *comparer) of(t *target) (drift.Report, error) {
	m, err := c.manifests.of(t.want)
	if err != nil {
		return drift.Report{}, err
	}
	if c.dry == nil {
		return m.Compare(t.live, c.baselines.of(t))
	}
	return m.CompareWith(t.live, c.baselines.of(t), func() (*unstructured.Unstructured, error) { return c.dry(t) })
}

// reasonFor returns the reason that a report gives for the difference of an object.
func reasonFor(s apply.Strategy, t *target, placement string) drift.Reason {
	switch {
	case s.ReportsOnly():
		return drift.FoundDiff
	case t.live == nil || owned(t, placement):
		return drift.FoundDrifts
	case takesOver(&s) == apply.Never:
		return drift.NotTakenOver
	}
	return drift.FailedToTakeOver
}

// compiledKept is the number of compiled revisions in the cache. The comparison of an equal object
// stays below the floor of BenchmarkCompare in docs/performance.md only because the object was
// compiled before, once for all clusters.
const compiledKept = 16

// compiler caches the compiled objects of revisions, by strategy and placement.
type compiler struct {
	kept *lru.Cache[compiledKey, *manifests]
}

type compiledKey struct{ revision, strategy, placement string }

func newCompiler() compiler {
	return compiler{lru.New[compiledKey, *manifests](compiledKept, nil)}
}

// manifests are the objects of a revision, each compiled on first use.
type manifests struct {
	rev     *Revision
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
func (c *compiler) of(rev *Revision, s apply.Strategy, placement string, secretKey []byte) *manifests {
	return c.kept.GetOrAdd(compiledKey{rev.Digest, s.Key(), placement}, func() *manifests {
		m := &manifests{
			rev: rev, options: driftOptions(&s, placement, s.ComparisonOption, secretKey),
			at: make(map[snapshot.ID]int, len(rev.items)), each: make([]compiled, len(rev.items)),
		}
		for i := range rev.items {
			m.at[rev.items[i].ID] = i
		}
		return m
	})
}

// of returns the compiled manifest of an object of the revision.
func (m *manifests) of(item *revisionItem) (*drift.Manifest, error) {
	i, ok := m.at[item.ID]
	if !ok {
		return nil, fmt.Errorf("%s is not in revision %s", item.ID, m.rev.Digest)
	}
	c := &m.each[i]
	c.once.Do(func() {
		if c.manifest, c.err = drift.Compile(item.obj, m.options); c.err != nil {
			c.err = guard.Permanent(fmt.Errorf("%s: %w", item.ID, c.err))
		}
	})
	return c.manifest, c.err
}

// asking returns a function that asks the member for the result of a dry run of applying an object
// for a placement.
func (m *memberConn) asking(ctx context.Context, placement string, s *apply.Strategy) func(*target) (*unstructured.Unstructured, error) {
	return func(t *target) (*unstructured.Unstructured, error) {
		live, _, err := applyAs(s, t.want.obj, func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return m.dryRun(ctx, obj, backend.ApplyOptions{Manager: manager(placement)})
		})
		return live, err
	}
}

// of returns the baseline of an object, or nil if there is none for this version of the object.
func (b *baselines) of(t *target) *drift.Baseline {
	if b == nil || t.want == nil {
		return nil
	}
	if o, ok := b.at[objectKey(t.id)]; ok && o.Tag == manifestTag(b.key, t.want) {
		return o.baseline()
	}
	return nil
}

// add adds an object that differs to a report.
func add(c *drift.ClusterReport, o drift.ObjectReport) {
	c.Objects = append(c.Objects, o)
	c.Total++
}

// Summary names the first differences of a report, without their values.
func Summary(r *drift.Report) string {
	if len(r.Differences) == 0 {
		return string(r.State)
	}
	first := &r.Differences[0]
	text := fmt.Sprintf("%s (%s)", guard.Clip(pathOf(first)), first.Class)
	if more := r.Total - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func pathOf(d *drift.Difference) string {
	if d.Path == "" {
		return "all of it"
	}
	return d.Path
}

// takesOver returns WhenToTakeOver with its default.
func takesOver(s *apply.Strategy) apply.WhenToTakeOver {
	return cmp.Or(s.WhenToTakeOver, apply.TakeOverAlways)
}

// driftOptions returns the options of a comparison for a placement.
func driftOptions(s *apply.Strategy, placement string, c drift.Comparison, secretKey []byte) drift.Options {
	return drift.Options{
		Comparison: c, Manager: manager(placement), Ignore: s.Ignore, Secrets: s.Secrets, SecretKey: secretKey,
	}
}
