package planning

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// barForbidden sets Keep in previous for clusters whose earlier revision has an object that the
// host now forbids, so that the rollback leaves these clusters unchanged. It reports whether there
// are any. It fails if content of the plan is missing.
func (pl *Planner) barForbidden(ctx context.Context, rec *record.Placement, p *stages.Plan, previous map[string]stages.Previous) (barred bool, err error) {
	for i, digest := range p.Revisions {
		why, err := pl.forbiddenIn(ctx, rec, p.Rollback.Indexes[i], digest)
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

// forbiddenIn returns the first object of a revision that the host now forbids, and the reason, or
// "" if all objects are allowed. The revision is the result of applying overrides to the snapshot
// with this index.
func (pl *Planner) forbiddenIn(ctx context.Context, rec *record.Placement, index int, digest string) (why string, err error) {
	name, forbidden := rec.Placement.Name, pl.Bans(rec.Placement.Namespace)
	items, _, err := pl.contents.Index(ctx, name, digest)
	if err != nil {
		return "", err
	}
	kept, err := state.SnapshotAt(rec, index)
	if err != nil {
		return "", err
	}
	if why := forbidden.inSnapshot(items); why != "" {
		return fmt.Sprintf("snapshot %d %s", index, why), nil
	}
	if kept.Set == digest {
		return "", nil
	}
	overrides, _, err := pl.state.FrozenOverrides(ctx, name, &kept)
	if err != nil {
		return "", err
	}
	base, _, err := pl.contents.Index(ctx, name, kept.Set)
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
		refusal, err := pl.judgeChange(ctx, name, item.Digest, made[item.ID])
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

// judgeChange returns the reason why a change of overrides to an object is now forbidden, or nil.
// before and after are digests of the object; an empty after means that they removed it.
func (pl *Planner) judgeChange(ctx context.Context, placed, before, after string) (refusal, err error) {
	was, err := pl.contents.Object(ctx, placed, before)
	if err != nil {
		return nil, err
	}
	var is *unstructured.Unstructured
	if after != "" {
		if is, err = pl.contents.Object(ctx, placed, after); err != nil {
			return nil, err
		}
		if !pl.cfg.Rules.Propagates(is) {
			return member.ErrNeverPlaced, nil
		}
	}
	return placement.ForbiddenChange(was, is, pl.cfg.Restrictions), nil
}
