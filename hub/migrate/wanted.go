package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// wanted holds the objects that Slipway would place now for a placement.
type wanted struct {
	placement fleet.Placement
	rollout   kubefleet.Rollout
	objects   []*unstructured.Unstructured
	overrides []placement.Override
	// refused is the reason why Slipway does not serve the placement, failed the reason why its
	// objects are unknown.
	refused, failed error
}

// on returns the objects rendered for a cluster.
func (w *wanted) on(c placement.Cluster) ([]*unstructured.Unstructured, error) {
	return placement.Render(w.objects, w.overrides, c)
}

// want returns the objects that Slipway would place for each placement.
func (m *Migration) want(ctx context.Context, s *survey) (map[api.Key]*wanted, error) {
	src, err := m.source()
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	overrides, problems := s.overrides()
	out := map[api.Key]*wanted{}
	for _, obj := range s.placements() {
		w := &wanted{}
		out[api.KeyOf(obj)] = w
		if w.placement, w.rollout, err = kubefleet.PlacementOf(obj); err != nil {
			w.refused = err
			continue
		}
		if w.refused = errors.Join(m.refusal(w.placement), problems); w.refused != nil {
			continue
		}
		if w.failed = m.capture(ctx, src, w, overrides); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// refusal returns an error about the selectors of a placement that the rules forbid.
func (m *Migration) refusal(p fleet.Placement) error {
	path := field.NewPath("spec", "resourceSelectors")
	all := m.cfg.Rules.ValidateSelectors(p.Selectors, path)
	if p.Namespace != "" {
		all = append(all, m.cfg.NamespaceRules.ValidateSelectors(p.Selectors, path)...)
	}
	if len(all) == 0 {
		return nil
	}
	return all.ToAggregate()
}

// capture reads the selected objects of a placement and the overrides that change them.
func (m *Migration) capture(ctx context.Context, src snapshot.Source, w *wanted, all []kubefleet.Override) error {
	authors := snapshot.Rules{}
	if w.placement.Namespace != "" {
		authors = *m.cfg.NamespaceRules
	}
	set, err := m.cfg.Rules.CaptureFrom(ctx, src, w.placement.Selectors, authors, w.placement.Carry...)
	if err != nil {
		return err
	}
	for _, body := range set.Bodies {
		obj, err := snapshot.Decode(body)
		if err != nil {
			return err
		}
		w.objects = append(w.objects, obj)
	}
	for _, o := range all {
		if o.Concerns(w.placement) {
			w.overrides = append(w.overrides, o.Override)
		}
	}
	slices.SortFunc(w.overrides, func(a, b placement.Override) int { return strings.Compare(a.String(), b.String()) })
	w.overrides = placement.Selecting(w.overrides, selectorsOf(set.Items))
	return nil
}

func selectorsOf(items []snapshot.Item) iter.Seq2[placement.ObjectSelector, string] {
	return func(yield func(placement.ObjectSelector, string) bool) {
		for _, it := range items {
			if !yield(placement.ObjectSelector{Group: it.Group, Version: it.Version, Kind: it.Kind, Name: it.Name}, it.Namespace) {
				return
			}
		}
	}
}

// overrides reads all overrides of the hub. problems has an error for each override that cannot be
// read; such an override may concern any placement.
func (s *survey) overrides() (all []kubefleet.Override, problems error) {
	for _, gvr := range bothScopes(api.OverrideKind) {
		for _, obj := range s.declared[gvr] {
			o, err := kubefleet.OverrideOf(obj)
			if err != nil {
				problems = errors.Join(problems, fmt.Errorf("%s: %w", nameOf(obj), err))
				continue
			}
			all = append(all, o)
		}
	}
	return all, problems
}

// clusters returns the members as clusters for policies and overrides.
func (s *survey) clusters() map[string]placement.Cluster {
	out := map[string]placement.Cluster{}
	for _, obj := range s.declared[api.MemberGVR()] {
		c, err := kubefleet.ClusterOf(obj)
		if err != nil { // overrides need only its labels
			c = placement.Cluster{Name: obj.GetName(), Labels: obj.GetLabels()}
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[inventory.MemberNameLabel] = obj.GetName()
		out[obj.GetName()] = c
	}
	return out
}
