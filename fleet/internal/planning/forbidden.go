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

// Bans are what the host does not have brought to any cluster by a placement.
// nil allows everything; it is used when comparing what is already deployed.
type Bans struct {
	restrictions []placement.Restriction
	// rules hold for everything, authors for what the authors of a namespace bring.
	rules, authors snapshot.Rules
	// namespace is the one of which authors declare the placement, "" for none.
	namespace string
}

// Bans returns those for a placement of a namespace, "" for one of an administrator.
func (pl *Planner) Bans(namespace string) *Bans {
	return &Bans{pl.cfg.Restrictions, pl.cfg.Rules, pl.cfg.NamespaceRules, namespace}
}

// forPaths are the paths that no override may change.
func (f *Bans) forPaths() []placement.Restriction {
	if f == nil {
		return nil
	}
	return f.restrictions
}

// refuse names the first thing in a snapshot that is not brought any more: the
// host's rules may be younger than the snapshot.
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

// inSnapshot names the first item of a snapshot that may not be brought, and says why. It is
// empty if all may be.
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

// InSelectors returns what the selectors of a placement, which are at a path, pick
// that its authors may not bring.
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

// InOverrides returns what overrides, which are at a path, select that the authors of
// their namespace may not bring, and so may not change either.
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

// change is an error if overrides of a namespace have changed an object that they may
// not change.
func (f *Bans) change(id snapshot.ID, overrides []placement.Override) error {
	for _, o := range overrides {
		if o.Namespace != "" && !f.authors.Allows(id) && o.SelectsObject(id.Group, id.Version, id.Kind, id.Namespace, id.Name) {
			return fmt.Errorf("Config.NamespaceRules do not let override %s change it", o)
		}
	}
	return nil
}

// judge is an error if overrides have made an object into one that is never placed, or
// that no member can read.
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
