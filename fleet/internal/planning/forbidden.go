package planning

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

var errUnreadable = errors.New("an object that no cluster can read")

// Bans are the host's rules about objects that a placement must not bring to any cluster. A nil
// *Bans allows everything; comparisons with deployed objects use it.
type Bans struct {
	restrictions []placement.Restriction
	// rules apply to every placement, authors to placements of a namespace.
	rules, authors snapshot.Rules
	// namespace is the placement's namespace if its authors declare the placement, "" otherwise.
	namespace string
}

// Bans returns the rules for a placement of a namespace. The namespace of an administrator's
// placement is "".
func (pl *Planner) Bans(namespace string) *Bans {
	return &Bans{pl.cfg.Restrictions, pl.cfg.Rules, pl.cfg.NamespaceRules, namespace}
}

// forPaths returns the restrictions, which name paths that no override may change.
func (f *Bans) forPaths() []placement.Restriction {
	if f == nil {
		return nil
	}
	return f.restrictions
}

// refuse returns an error about the first object or override of a snapshot that the rules forbid.
// The host's rules may be newer than the snapshot.
func (f *Bans) refuse(s *frozen) error {
	if f == nil {
		return nil
	}
	if why := f.inSnapshot(s.set.Items); why != "" {
		return fmt.Errorf("snapshot %s %s: roll out another snapshot, or change the rules: %w", s.Name(), why, backend.ErrPermanent)
	}
	if errs := f.InOverrides(s.overrides, field.NewPath("overrides")); len(errs) > 0 {
		return fmt.Errorf("snapshot %s: %w: roll out another snapshot, or change the rules: %w", s.Name(), errs.ToAggregate(), backend.ErrPermanent)
	}
	return nil
}

// inSnapshot returns the first forbidden item of a snapshot and the reason, or "" if the rules
// allow all items.
func (f *Bans) inSnapshot(items []snapshot.Item) string {
	for _, item := range items {
		switch {
		case !f.rules.Allows(item.ID):
			return fmt.Sprintf("has %s, which Config.Rules do not let be placed", item.ID)
		case f.namespace != "" && !f.authors.Allows(item.ID):
			return fmt.Sprintf("has %s, which Config.NamespaceRules do not let a placement of namespace %s bring", item.ID, f.namespace)
		}
	}
	return ""
}

// InSelectors returns errors for selectors that pick kinds that the placement's authors may not
// bring. at is the path of the selectors.
func (f *Bans) InSelectors(selectors []snapshot.Selector, at *field.Path) (errs field.ErrorList) {
	if f.namespace == "" {
		return nil
	}
	for i, s := range selectors {
		if s.Kind != "" && !f.authors.Allows(snapshot.ID{Group: s.Group, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}) {
			errs = append(errs, field.Forbidden(at.Index(i).Child("kind"), fmt.Sprintf("%s is of a kind that a placement of a namespace may not bring to other clusters: "+
				"have a ClusterResourcePlacement bring it, or the host allow the kind by NamespaceRules", snapshot.GroupKind{Group: s.Group, Kind: s.Kind})))
		}
	}
	return errs
}

// InOverrides returns errors for overrides that select objects that the authors of their namespace
// may not bring, and therefore may not change. at is the path of the overrides.
func (f *Bans) InOverrides(overrides []placement.Override, at *field.Path) (errs field.ErrorList) {
	for i, o := range overrides {
		if o.Namespace == "" {
			continue
		}
		for j, s := range o.Selectors {
			if !f.authors.Allows(snapshot.ID{Group: s.Group, Kind: s.Kind, Namespace: o.Namespace, Name: s.Name}) {
				errs = append(errs, field.Forbidden(at.Index(i).Child("resourceSelectors").Index(j), fmt.Sprintf("override %s may not change %s %s, which is of a kind that authors of a namespace may not bring to other clusters: "+
					"use a ClusterResourceOverride of the namespace, or have the host allow the kind by NamespaceRules", o, s.Kind, guard.Clip(s.Name))))
			}
		}
	}
	return errs
}

// change returns an error if overrides of a namespace have changed an object that they may not
// change.
func (f *Bans) change(id snapshot.ID, overrides []placement.Override) error {
	for _, o := range overrides {
		if o.Namespace != "" && !f.authors.Allows(id) && o.SelectsObject(id.Group, id.Version, id.Kind, id.Namespace, id.Name) {
			return fmt.Errorf("Config.NamespaceRules do not let override %s change it", o)
		}
	}
	return nil
}

// judge returns an error if overrides have turned an object into one of a kind that is never
// placed, or into one that no member can read.
func (f *Bans) judge(obj *unstructured.Unstructured) error {
	if f == nil {
		return nil
	}
	if !f.rules.Propagates(obj) {
		return fmt.Errorf("overrides make it %w: %w", member.ErrNeverPlaced, backend.ErrPermanent)
	}
	if problems := snapshot.ValidateContent(obj); len(problems) > 0 {
		return fmt.Errorf("overrides make it %w: %w: %w", errUnreadable, problems.ToAggregate(), backend.ErrPermanent)
	}
	return nil
}
