package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Render returns the objects for a cluster: overrides applied, deleted objects left out, order
// kept.
//
// Overrides apply in the order of their priority, the highest last. With the same priority,
// cluster-wide overrides come first, by name, and then namespaced overrides, by namespace and name.
// The rules of an override that select the cluster apply in order, each to the result of the rule
// before, until one leaves the object out. A cluster-wide override that selects a Namespace applies
// to it and to every object in it.
//
// Render never changes its arguments; it returns untouched objects by the same pointer. The
// results may share parts, and must not be changed. A patch that does not apply is an error that
// names the override, the rule, the operation, the cluster and the object. So is a violation of a
// restriction. Both are a [*RenderError]. To render for many clusters, use a [Renderer].
func Render(objs []*unstructured.Unstructured, overrides []Override, c Cluster, restrictions ...Restriction) ([]*unstructured.Unstructured, error) {
	r, err := NewRenderer(objs, overrides, restrictions...)
	if err != nil {
		return nil, err
	}
	return r.Render(c)
}

// Renderer is [Render] for many clusters: it does the work that does not depend on the cluster
// once, and clusters with the same result for an object share it. It may be used concurrently. It
// keeps the objects, which must not change while it is used, and the results that clusters share.
type Renderer struct {
	objs []*unstructured.Unstructured
	// selected has an entry for each object, nil if no override selects it.
	selected []*selectedObject
	// compiled are the overrides in the order in which they apply.
	compiled []compiledOverride
	rendered shared
}

// NewRenderer validates and compiles overrides for objects. The error lists all problems of the
// overrides and the restrictions; a nil object is an error too. It does not check the limits of
// [Override.Validate] and [Forbidden]: an operation that a restriction forbids fails when it is
// rendered.
func NewRenderer(objs []*unstructured.Unstructured, overrides []Override, restrictions ...Restriction) (*Renderer, error) {
	if err := errors.Join(validateFrozen(overrides), ValidateRestrictions(restrictions, nil).ToAggregate()); err != nil {
		return nil, err
	}
	r := &Renderer{objs: objs, selected: make([]*selectedObject, len(objs))}
	for _, o := range sortOverrides(overrides) {
		c, err := compileOverride(o)
		if err != nil {
			return nil, fmt.Errorf("override %s: %w", o, err)
		}
		r.compiled = append(r.compiled, c)
	}
	index := newOverrideIndex()
	for i, o := range r.compiled {
		index.add(i, o.namespace, o.selectors)
	}
	for i, obj := range objs {
		if obj == nil {
			return nil, fmt.Errorf("object %d is nil", i)
		}
		overrides := index.of(keyOf(obj))
		if len(overrides) == 0 {
			continue
		}
		var err error
		if r.selected[i], err = newSelected(obj, overrides, restrictions); err != nil {
			return nil, fmt.Errorf("%s: %w", describe(obj), err)
		}
	}
	return r, nil
}

// Render returns the objects for the cluster; see the function [Render]. They share parts with
// the results for other clusters and must not be changed.
func (r *Renderer) Render(c Cluster) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(r.objs))
	active := r.activeFor(&c)
	for i, obj := range r.objs {
		rendered, err := r.object(i, active, &c)
		if err != nil {
			_, unreadable := errors.AsType[metadataError](err)
			return nil, &RenderError{Cluster: c.Name, Object: describe(obj), Err: err, Invalid: unreadable}
		}
		if rendered != nil {
			out = append(out, rendered)
		}
	}
	return out, nil
}

// activeFor returns the active rules of each override on a cluster.
func (r *Renderer) activeFor(c *Cluster) []activeRules {
	active := make([]activeRules, len(r.compiled))
	for i := range r.compiled {
		active[i] = r.compiled[i].activeFor(c)
	}
	return active
}

// object returns objs[i] as rendered for the cluster, or nil if an override leaves it out.
func (r *Renderer) object(i int, active []activeRules, c *Cluster) (*unstructured.Unstructured, error) {
	s := r.selected[i]
	if s == nil || !slices.ContainsFunc(s.overrides, func(j int) bool { return len(active[j].rules) > 0 }) {
		return r.objs[i], nil
	}
	outcome, sharable := s.outcome(i, active)
	if !sharable {
		return r.patched(s, active, c)
	}
	return r.rendered.get(outcome, func() (*unstructured.Unstructured, error) { return r.patched(s, active, c) })
}

// patched applies the active rules to an object: all at once and, if that fails, one rule after
// the other to find the rule that does not apply.
func (r *Renderer) patched(s *selectedObject, active []activeRules, c *Cluster) (*unstructured.Unstructured, error) {
	if obj, err := s.atOnce(active, c); err == nil {
		return obj, nil
	}
	body, seen := s.body, verdict{guard: s.guard}
	for _, j := range s.overrides {
		for _, rule := range active[j].rules {
			seen.rule = fmt.Sprintf("override %s: overrideRules[%d]", r.compiled[j].name, rule.index)
			next, err := rule.render(s.guard, body, c, &seen)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", seen.rule, err)
			}
			if next == nil {
				return nil, nil
			}
			body = next
		}
	}
	if err := seen.final(); err != nil {
		return nil, err
	}
	return decodeObject(body)
}

// RenderError reports that an object could not be rendered for a cluster.
type RenderError struct {
	// Cluster is the name of the cluster, Object the kind, namespace and name of
	// the object.
	Cluster, Object string
	// Err names the override, the rule, the operation and the problem.
	Err error
	// Invalid reports that the overrides could be applied, but that the resulting object is one that
	// no cluster may get or can read. A [Renderer] detects labels and annotations that cannot be read;
	// package fleet detects the rest.
	Invalid bool
}

func (e *RenderError) Error() string {
	return fmt.Sprintf("cluster %s: %s: %v", e.Cluster, e.Object, e.Err)
}

// Unwrap returns Err.
func (e *RenderError) Unwrap() error { return e.Err }

// RenderingError says that the overrides of a snapshot cannot be rendered for some of the
// clusters. Package fleet begins no run of the snapshot until they can.
type RenderingError struct {
	// Failures has the first failure of each of these clusters, by name.
	Failures []*RenderError
}

// The most causes and clusters that a RenderingError names.
const (
	causesTold   = 5
	clustersTold = 10
)

// Error groups clusters with the same failure. If there are many causes, it lists the first.
func (e *RenderingError) Error() string {
	var causes, lines []string
	clusters := map[string][]string{}
	for _, f := range e.Failures {
		cause := f.Object + ": " + f.Err.Error()
		if clusters[cause] == nil {
			causes = append(causes, cause)
		}
		clusters[cause] = append(clusters[cause], f.Cluster)
	}
	for _, cause := range causes[:min(len(causes), causesTold)] {
		lines = append(lines, named(clusters[cause])+": "+cause)
	}
	if more := len(causes) - causesTold; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more objects and rules", more))
	}
	return strings.Join(lines, "\n")
}

// named lists the names of clusters. If there are many, it lists the first.
func named(clusters []string) string {
	what := "cluster "
	if len(clusters) > 1 {
		what = "clusters "
	}
	what += strings.Join(clusters[:min(len(clusters), clustersTold)], ", ")
	if more := len(clusters) - clustersTold; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return what
}

// describe names an object without its contents.
func describe(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return obj.GetKind() + " " + name
}
