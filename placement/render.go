package placement

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Render returns the objects as the cluster gets them: overrides applied,
// deleted objects left out, order kept.
//
// Cluster-wide overrides come first, by name, then namespaced ones, by
// namespace and name; the rules of an override that select the cluster apply
// in order, each to the outcome of the one before. A Namespace that a
// cluster-wide override selects stands for itself and every object in it.
//
// It never changes its arguments; objects that no rule touches are returned as
// they are, by pointer. A patch that does not apply is an error that names the
// override, the rule, the operation, the cluster and the object. To render for
// many clusters, use a [Renderer].
func Render(objs []*unstructured.Unstructured, overrides []Override, c Cluster) ([]*unstructured.Unstructured, error) {
	r, err := NewRenderer(objs, overrides)
	if err != nil {
		return nil, err
	}
	return r.Render(c)
}

// Renderer is [Render] for many clusters: what does not depend on the cluster
// is done once. It may be used concurrently. It keeps the objects, which must
// not change while it is used.
type Renderer struct {
	objs []*unstructured.Unstructured
	// bodies are the JSON of the objects that an override selects.
	bodies [][]byte
	// compiled are the overrides in the order in which they apply; those that
	// select objs[i] are compiled[j] for j in applied[i].
	compiled []compiledOverride
	applied  [][]int
}

// NewRenderer validates and compiles overrides for objects. The error tells
// everything that is wrong with every override; an object that is nil, and an
// override whose name another one has, are errors too.
func NewRenderer(objs []*unstructured.Unstructured, overrides []Override) (*Renderer, error) {
	if err := validateOverrides(overrides); err != nil {
		return nil, err
	}
	r := &Renderer{objs: objs}
	for _, o := range sortOverrides(overrides) {
		c, err := compileOverride(o)
		if err != nil {
			return nil, fmt.Errorf("override %s: %w", o, err)
		}
		r.compiled = append(r.compiled, c)
	}
	selected := indexSelectors(r.compiled)
	for i, obj := range objs {
		if obj == nil {
			return nil, fmt.Errorf("object %d is nil", i)
		}
		if err := r.add(obj, selected.of(obj)); err != nil {
			return nil, fmt.Errorf("%s: %w", describe(obj), err)
		}
	}
	return r, nil
}

// add takes in an object and the overrides that select it.
func (r *Renderer) add(obj *unstructured.Unstructured, applied []int) error {
	var body []byte
	if len(applied) > 0 {
		var err error
		if body, err = json.Marshal(obj.Object); err != nil {
			return errors.New("the object has no JSON form") // the cause may repeat its contents
		}
	}
	r.bodies = append(r.bodies, body)
	r.applied = append(r.applied, applied)
	return nil
}

// Render returns the objects as the cluster gets them; see the function
// [Render].
func (r *Renderer) Render(c Cluster) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(r.objs))
	active := make([][]*compiledRule, len(r.compiled))
	for i := range r.compiled {
		active[i] = r.compiled[i].rulesFor(&c)
	}
	for i, obj := range r.objs {
		rendered, err := r.object(i, active, &c)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %s: %w", c.Name, describe(obj), err)
		}
		if rendered != nil {
			out = append(out, rendered)
		}
	}
	return out, nil
}

// object returns objs[i] as the cluster gets it, nil if it does not. The rules
// that select the cluster are in active, by override.
func (r *Renderer) object(i int, active [][]*compiledRule, c *Cluster) (*unstructured.Unstructured, error) {
	body, changed := r.bodies[i], false
	for _, j := range r.applied[i] {
		for _, rule := range active[j] {
			if rule.delete {
				return nil, nil
			}
			var err error
			if body, err = rule.apply(body, c); err != nil {
				return nil, fmt.Errorf("override %s: overrideRules[%d]: %w", r.compiled[j].name, rule.index, err)
			}
			changed = true
		}
	}
	if !changed {
		return r.objs[i], nil
	}
	return decodeObject(body)
}

// describe names an object without its contents.
func describe(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return obj.GetKind() + " " + name
}

// sortOverrides returns the overrides in the order in which they apply.
func sortOverrides(overrides []Override) []Override {
	sorted := slices.Clone(overrides)
	slices.SortFunc(sorted, func(a, b Override) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// validateOverrides checks each override and that no two have the same name.
func validateOverrides(overrides []Override) error {
	var errs field.ErrorList
	seen := map[string]bool{}
	for _, o := range sortOverrides(overrides) {
		path := field.NewPath("overrides").Key(clip(o.String()))
		if seen[o.String()] {
			errs = append(errs, field.Duplicate(path.Child("name"), clip(o.Name)))
		}
		seen[o.String()] = true
		errs = append(errs, under(path, o.Validate())...)
	}
	return errs.ToAggregate()
}

// objectKey is what overrides select objects by.
type objectKey struct{ group, version, kind, namespace, name string }

// selection tells which overrides select an object, by index.
type selection struct {
	objects    map[objectKey][]int
	namespaces map[string][]int
}

func indexSelectors(overrides []compiledOverride) selection {
	s := selection{objects: map[objectKey][]int{}, namespaces: map[string][]int{}}
	for i, o := range overrides {
		for _, sel := range o.selectors {
			k := objectKey{sel.Group, sel.Version, sel.Kind, o.namespace, sel.Name}
			s.objects[k] = append(s.objects[k], i)
			if sel.isNamespace() {
				s.namespaces[sel.Name] = append(s.namespaces[sel.Name], i)
			}
		}
	}
	return s
}

// of returns the overrides that select an object, ascending, each once.
func (s selection) of(obj *unstructured.Unstructured) []int {
	gvk := obj.GroupVersionKind()
	found := s.objects[objectKey{gvk.Group, gvk.Version, gvk.Kind, obj.GetNamespace(), obj.GetName()}]
	if ns := obj.GetNamespace(); ns != metav1.NamespaceNone {
		found = slices.Concat(found, s.namespaces[ns])
	}
	found = slices.Sorted(slices.Values(found))
	return slices.Compact(found)
}
