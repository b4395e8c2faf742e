package planning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// variants holds the results of applying overrides to a snapshot. It keeps one cluster for each
// result and renders the result again on request, so its memory grows with the number of different
// objects, not with the number of clusters.
type variants struct {
	base     snapshot.Set
	renderer *placement.Renderer
	never    *Bans
	// clusters holds one cluster for each set, by the digest of the set.
	clusters map[string]placement.Cluster
	// items are the items of the rendered objects. The renderer keeps the objects as long as
	// clusters share them, so each is encoded once (BenchmarkDigests).
	items map[weak.Pointer[unstructured.Unstructured]]snapshot.Item
}

// render computes the content of each cluster. Its errors are permanent: overrides and objects are
// frozen, so a retry would fail too.
func (d *Draft) render(t *stages.Target, clusters []placement.Cluster, never *Bans) error {
	if err := never.refuse(&d.Frozen); err != nil {
		return err
	}
	if len(d.Frozen.overrides) == 0 {
		return nil
	}
	v, err := newVariants(&d.Frozen, never)
	if err != nil {
		return guard.Permanent(err)
	}
	d.Variants = v
	var failed []error
	for _, c := range clusters {
		digest, err := v.add(c)
		switch {
		case err != nil:
			failed = append(failed, err)
		case digest != v.base.Digest:
			t.Revision[c.Name] = digest
		}
	}
	return guard.Permanent(renderProblems(failed))
}

func newVariants(f *frozen, never *Bans) (*variants, error) {
	objects, err := f.objects()
	if err != nil {
		return nil, err
	}
	renderer, err := placement.NewRenderer(objects, overFilledIn(f.overrides), never.forPaths()...)
	if err != nil {
		return nil, err
	}
	v := &variants{
		base: f.set, renderer: renderer, never: never,
		clusters: map[string]placement.Cluster{}, items: map[weak.Pointer[unstructured.Unstructured]]snapshot.Item{},
	}
	for i, obj := range objects {
		v.items[weak.Make(obj)] = f.set.Items[i]
	}
	return v, nil
}

// overFilledIn returns the overrides with changes for fields that a snapshot may lack because
// servers fill them in and no author set them: a replacement of such a field becomes an addition,
// and an addition precedes its removal.
func overFilledIn(overrides []placement.Override) []placement.Override {
	out := slices.Clone(overrides)
	for i := range out {
		o := &out[i]
		filledIn := func(path string) bool {
			return slices.ContainsFunc(o.Selectors, func(s placement.ObjectSelector) bool {
				return snapshot.FilledIn(s.Group, s.Kind, path) || s.Group == "" && s.Kind == "Namespace" && snapshot.AnyFilledIn(path)
			})
		}
		o.Rules = slices.Clone(o.Rules)
		for j := range o.Rules {
			var patches []placement.Patch
			for _, p := range o.Rules[j].Patches {
				switch {
				case !filledIn(p.Path):
				case p.Op == placement.OpReplace:
					p.Op = placement.OpAdd
				case p.Op == placement.OpRemove:
					patches = append(patches, placement.Patch{Op: placement.OpAdd, Path: p.Path, Value: json.RawMessage("null")})
				}
				patches = append(patches, p)
			}
			o.Rules[j].Patches = patches
		}
	}
	return out
}

// add returns the digest of a cluster's content.
func (v *variants) add(c placement.Cluster) (string, error) {
	set, _, err := v.render(c)
	if err != nil {
		return "", err
	}
	if _, known := v.clusters[set.Digest]; !known && set.Digest != v.base.Digest {
		v.clusters[set.Digest] = c
	}
	return set.Digest, nil
}

// render returns a cluster's content, as a set without bodies and as objects, in the order of the
// snapshot.
func (v *variants) render(c placement.Cluster) (snapshot.Set, []*unstructured.Unstructured, error) {
	rendered, err := v.renderer.Render(c)
	if err != nil {
		return snapshot.Set{}, nil, err
	}
	set := snapshot.Set{Items: make([]snapshot.Item, len(rendered)), Unplaced: v.base.Unplaced}
	for i, obj := range rendered {
		if set.Items[i], err = v.item(obj); err != nil {
			return snapshot.Set{}, nil, &placement.RenderError{Cluster: c.Name, Object: snapshot.IDOf(obj).String(), Err: v.blame(c, obj, err)}
		}
	}
	set.Digest = snapshot.Digest(set.Root().Encode())
	return set, rendered, nil
}

// item returns the item of an object in a set.
func (v *variants) item(obj *unstructured.Unstructured) (snapshot.Item, error) {
	key := weak.Make(obj)
	if item, known := v.items[key]; known {
		return item, nil
	}
	if err := v.never.judge(obj); err != nil {
		return snapshot.Item{}, err
	}
	body, err := snapshot.Canonical(obj.Object)
	if err != nil {
		return snapshot.Item{}, err
	}
	item := snapshot.Item{ID: snapshot.IDOf(obj), Digest: snapshot.Digest(body)}
	v.items[key] = item
	return item, nil
}

// blame adds to the error the override and the rule that caused an object's refusal.
func (v *variants) blame(c placement.Cluster, obj *unstructured.Unstructured, err error) error {
	if !errors.Is(err, member.ErrNeverPlaced) && !errors.Is(err, errUnreadable) {
		return err
	}
	cause := v.renderer.Cause(c, obj, func(o *unstructured.Unstructured) bool { return v.never.judge(o) != nil })
	if cause == "" {
		return err
	}
	return fmt.Errorf("%s: %w", cause, err)
}

// has reports whether overrides produced the set with this digest.
func (v *variants) has(digest string) bool {
	if v == nil {
		return false
	}
	_, ok := v.clusters[digest]
	return ok
}

// set renders the set with this digest, which [variants.has] must know.
func (v *variants) set(digest string) (snapshot.Set, error) {
	set, objects, err := v.render(v.clusters[digest])
	if err != nil {
		return snapshot.Set{}, guard.Permanent(err)
	}
	bodies := make(map[string][]byte, len(v.base.Items))
	for i, item := range v.base.Items {
		bodies[item.Digest] = v.base.Bodies[i]
	}
	set.Bodies = make([][]byte, len(objects))
	for i, obj := range objects {
		if body, same := bodies[set.Items[i].Digest]; same {
			set.Bodies[i] = body
			continue
		}
		if set.Bodies[i], err = snapshot.Canonical(obj.Object); err != nil {
			return snapshot.Set{}, guard.Permanent(err)
		}
	}
	return set, nil
}

// revision renders the revision with this digest, which [variants.has] must know.
func (v *variants) revision(placement, digest string) (*member.Revision, error) {
	set, err := v.set(digest)
	if err != nil {
		return nil, err
	}
	return member.NewRevision(placement, set)
}

// Save stores the variants. It stores an object that several variants share only once.
func (v *variants) Save(ctx context.Context, c *content.Store, placement string) error {
	if v == nil {
		return nil
	}
	stored := map[string]bool{}
	for _, digest := range slices.Sorted(maps.Keys(v.clusters)) {
		set, err := v.set(digest)
		if err != nil {
			return err
		}
		if err := c.Save(ctx, placement, set, func(d string) bool { return stored[d] }); err != nil {
			return err
		}
		for _, item := range set.Items {
			stored[item.Digest] = true
		}
	}
	return nil
}

// renderProblems joins the errors of several clusters. Errors about an object become a
// [*placement.RenderingError].
func renderProblems(failed []error) error {
	var errs []error
	rendering := &placement.RenderingError{}
	for _, err := range failed {
		var r *placement.RenderError
		if !errors.As(err, &r) {
			errs = append(errs, err)
			continue
		}
		r.Invalid = r.Invalid || errors.Is(r.Err, member.ErrNeverPlaced) || errors.Is(r.Err, errUnreadable)
		rendering.Failures = append(rendering.Failures, r)
	}
	if len(rendering.Failures) > 0 {
		errs = append(errs, rendering)
	}
	return errors.Join(errs...)
}
