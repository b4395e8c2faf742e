package fleet

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// barForbidden says in previous which revisions of a plan that takes back have an
// object which the host does not have brought to any cluster now, so that clusters
// which had one of those stay as they are; it reports whether there are any. That
// content is there is checked with it.
func (e *Engine) barForbidden(ctx context.Context, rec *record.Placement, p *stages.Plan, previous map[string]stages.Previous) (barred bool, err error) {
	for i, digest := range p.Revisions {
		why, err := e.forbiddenIn(ctx, rec, p.Rollback.Indexes[i], digest)
		if err != nil {
			return false, err
		}
		if why == "" {
			continue
		}
		barred = true
		for name, before := range previous {
			if before.Revision == digest && before.Keep == "" {
				before.Keep = why
				previous[name] = before
			}
		}
	}
	return barred, nil
}

// forbiddenIn names the first object of a revision that is not brought to any
// cluster now, and why; the revision is what overrides made of the snapshot of
// index.
func (e *Engine) forbiddenIn(ctx context.Context, rec *record.Placement, index int, digest string) (why string, err error) {
	name, forbidden := rec.Placement.Name, e.forbidden((*Placement)(&rec.Placement))
	items, _, err := e.contents.index(ctx, name, digest)
	if err != nil {
		return "", err
	}
	kept, err := snapshotAt(rec, index)
	if err != nil {
		return "", err
	}
	if why := forbidden.inSnapshot(&kept, items); why != "" {
		return fmt.Sprintf("snapshot %d %s", index, why), nil
	}
	if kept.Set == digest {
		return "", nil
	}
	overrides, _, err := e.frozenOverrides(ctx, name, &kept)
	if err != nil {
		return "", err
	}
	base, _, err := e.contents.index(ctx, name, kept.Set)
	if err != nil {
		return "", err
	}
	made := make(map[snapshot.ID]string, len(items))
	for _, item := range items {
		made[item.ID] = item.Digest
	}
	for _, item := range base {
		if made[item.ID] == item.Digest {
			continue
		}
		refusal, err := e.judgeChange(ctx, name, item.Digest, made[item.ID])
		if err != nil {
			return "", err
		}
		if refusal == nil {
			refusal = forbidden.change(item.ID, overrides)
		}
		if refusal != nil {
			return fmt.Sprintf("what overrides made of %s in snapshot %d: %v", item.ID, index, refusal), nil
		}
	}
	return "", nil
}

// judgeChange says what is forbidden now of an object that overrides have made into
// another one; an empty digest is one that they left out.
func (e *Engine) judgeChange(ctx context.Context, placed, before, after string) (refusal, err error) {
	was, err := e.contents.object(ctx, placed, before)
	if err != nil {
		return nil, err
	}
	var is *unstructured.Unstructured
	if after != "" {
		if is, err = e.contents.object(ctx, placed, after); err != nil {
			return nil, err
		}
		if !e.cfg.Rules.Propagates(is) {
			return member.ErrNeverPlaced, nil
		}
	}
	return placement.ForbiddenChange(was, is, e.cfg.Restrictions), nil
}

// object returns the object of a digest, verified.
func (c *contents) object(ctx context.Context, placement, digest string) (*unstructured.Unstructured, error) {
	body, err := c.loadBlob(ctx, placement, digest)
	if err != nil {
		return nil, err
	}
	obj, err := snapshot.Decode(body)
	return obj, guard.Permanent(err)
}
