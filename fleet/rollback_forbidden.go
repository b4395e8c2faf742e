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

// barForbidden sets Keep in previous for clusters whose earlier revision has an object that the host does not
// allow now, so that they stay as they are, and reports whether there are any. It fails where content of the
// plan is missing.
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

// forbiddenIn returns the first object of a revision that is not allowed now, and why; empty where all are.
// The revision is what overrides made of the snapshot of index.
func (e *Engine) forbiddenIn(ctx context.Context, rec *record.Placement, index int, digest string) (why string, err error) {
	name, forbidden := rec.Placement.Name, e.forbidden(rec.Placement.Namespace)
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

// judgeChange returns why a change that overrides made to an object is not allowed now, or nil. An empty
// after is an object that they removed.
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
