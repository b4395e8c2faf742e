package planning

import (
	"cmp"
	"context"

	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// Revisions are the revisions that clusters should have according to a snapshot.
type Revisions struct {
	most     *member.Revision
	variants map[string]*member.Revision
}

// Of returns the revision of a cluster.
func (w *Revisions) Of(cluster string) *member.Revision { return cmp.Or(w.variants[cluster], w.most) }

// Want renders a snapshot for clusters. If index is nil, it uses the latest snapshot.
func (pl *Planner) Want(ctx context.Context, rec *record.Placement, index *int, clusters []placement.Cluster) (*Revisions, error) {
	last, ok := rec.Latest()
	if index == nil && !ok {
		return nil, errdef.NotFound(errdef.Snapshot, "of placement "+rec.Placement.Name, "take a snapshot first")
	}
	if index == nil {
		index = &last.Index
	}
	f, err := pl.load(ctx, rec, *index)
	if err != nil {
		return nil, err
	}
	d := &Draft{Frozen: f}
	t := d.target(rec)
	if err := d.render(&t, clusters, nil); err != nil { // nil allows everything: the result is compared, never applied
		return nil, err
	}
	w := &Revisions{variants: map[string]*member.Revision{}}
	if w.most, err = member.NewRevision(rec.Placement.Name, f.set); err != nil {
		return nil, err
	}
	byDigest := map[string]*member.Revision{}
	for cluster, digest := range t.Revision {
		if byDigest[digest] == nil {
			if byDigest[digest], err = d.Variants.revision(rec.Placement.Name, digest); err != nil {
				return nil, err
			}
		}
		w.variants[cluster] = byDigest[digest]
	}
	return w, nil
}
