package snapshot

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSelectors returns everything that is wrong with selectors, which are
// at path: none at all, no version or kind, both a name and a label selector, a
// label selector that does not parse, a reserved namespace that is named. A nil
// path is "selectors".
func ValidateSelectors(selectors []Selector, path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("selectors")
	}
	if len(selectors) == 0 {
		return field.ErrorList{field.Required(path, "at least one selector says what is to be placed")}
	}
	var errs field.ErrorList
	for i, s := range selectors {
		errs = append(errs, s.validate(path.Index(i))...)
	}
	return errs
}

func (s Selector) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Version == "" {
		errs = append(errs, field.Required(path.Child("version"), "for example v1"))
	}
	if s.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), "for example Namespace"))
	}
	if s.Name != "" && s.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "a selector has a name or a labelSelector, not both"))
	}
	if reserved(ID{Group: s.Group, Kind: s.Kind, Name: s.Name}) {
		errs = append(errs, field.Invalid(path.Child("name"), s.Name, "the namespaces kube-*, fleet-* and slipway-system belong to the cluster and are never placed"))
	}
	switch {
	case s.Namespace != "" && isNamespace(ID{Group: s.Group, Kind: s.Kind}):
		errs = append(errs, field.Forbidden(path.Child("namespace"), "a Namespace is in no namespace"))
	case reserved(ID{Namespace: s.Namespace}):
		errs = append(errs, field.Invalid(path.Child("namespace"), s.Namespace, "nothing in kube-*, fleet-* and slipway-system is ever placed"))
	}
	return append(errs, validation.ValidateLabelSelector(s.LabelSelector, validation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
}

// Select returns the objects that the selectors pick from src, in the order they
// are found, each once even if several selectors pick it; if they pick it in
// several versions, the first counts. A Namespace that is picked brings every
// object in it. An object that a selector names and that does not exist selects
// nothing.
//
// Left out, however they are selected, are objects that another cluster makes
// by itself or must not get: see [Propagates] for the list, to which it adds
// Endpoints that have a Service of the same name.
//
// The error names every selector that is wrong (see [ValidateSelectors]), or
// what src failed to read. If ctx ends before everything is read there is an
// error, never a part of the objects.
func Select(ctx context.Context, src Source, selectors []Selector) ([]*unstructured.Unstructured, error) {
	if errs := ValidateSelectors(selectors, nil); len(errs) > 0 {
		return nil, fmt.Errorf("snapshot: %w", errs.ToAggregate())
	}
	s := selection{src: src, seen: map[ID]struct{}{}}
	for _, sel := range selectors {
		if err := s.pick(ctx, sel); err != nil {
			return nil, err
		}
	}
	if err := s.settleEndpoints(ctx); err != nil {
		return nil, err
	}
	return s.objects, nil
}

// selection is what was found so far.
type selection struct {
	src       Source
	seen      map[ID]struct{} // without versions; also what is left out
	objects   []*unstructured.Unstructured
	endpoints []*unstructured.Unstructured // wait for the Services to be known
}

// pick adds what one selector picks, then the content of the namespaces in it.
func (s *selection) pick(ctx context.Context, sel Selector) error {
	matches := func(*unstructured.Unstructured) bool { return true }
	if sel.LabelSelector != nil {
		parsed, err := metav1.LabelSelectorAsSelector(sel.LabelSelector)
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		matches = func(obj *unstructured.Unstructured) bool { return parsed.Matches(labels.Set(obj.GetLabels())) }
	}
	var namespaces []string
	q := Query{Group: sel.Group, Version: sel.Version, Kind: sel.Kind, Namespace: sel.Namespace, Name: sel.Name}
	err := s.each(ctx, q, func(id ID, obj *unstructured.Unstructured) {
		if matches(obj) && s.add(id, obj) && isNamespace(id) {
			namespaces = append(namespaces, id.Name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range namespaces {
		if err := s.each(ctx, Query{Namespace: name}, func(id ID, obj *unstructured.Unstructured) { s.add(id, obj) }); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every object that matches the query.
func (s *selection) each(ctx context.Context, q Query, do func(ID, *unstructured.Unstructured)) error {
	for obj, err := range s.src.Objects(ctx, q) {
		if err != nil {
			return fmt.Errorf("snapshot: reading %s: %w", q, err)
		}
		id := IDOf(obj)
		if err := id.check(); err != nil {
			return fmt.Errorf("snapshot: reading %s: the source gave %s: %w", q, id, err)
		}
		if !q.matches(id) {
			return fmt.Errorf("snapshot: reading %s: the source gave %s, which was not asked for", q, id)
		}
		do(id, obj)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: reading %s: %w", q, err)
	}
	return nil
}

// add takes an object that is new and may be placed, and tells whether it was.
func (s *selection) add(id ID, obj *unstructured.Unstructured) bool {
	key := id.object()
	if _, again := s.seen[key]; again {
		return false
	}
	s.seen[key] = struct{}{}
	if !propagates(id, obj.Object) {
		return false
	}
	if id.Group == "" && id.Kind == "Endpoints" {
		s.endpoints = append(s.endpoints, obj)
		return true
	}
	s.objects = append(s.objects, obj)
	return true
}

// settleEndpoints adds the Endpoints that no Service makes.
func (s *selection) settleEndpoints(ctx context.Context) error {
	for _, obj := range s.endpoints {
		id := IDOf(obj)
		service := ID{Kind: "Service", Namespace: id.Namespace, Name: id.Name}
		_, found := s.seen[service]
		if !found {
			q := Query{Version: "v1", Kind: "Service", Namespace: id.Namespace, Name: id.Name}
			if err := s.each(ctx, q, func(ID, *unstructured.Unstructured) { found = true }); err != nil {
				return err
			}
		}
		if !found {
			s.objects = append(s.objects, obj)
		}
	}
	return nil
}

// matches tells whether an object that is named id answers the query.
func (q Query) matches(id ID) bool {
	if q.Kind != "" && (q.Kind != id.Kind || q.Group != id.Group || q.Version != id.Version) {
		return false
	}
	return (q.Namespace == "" || q.Namespace == id.Namespace) && (q.Name == "" || q.Name == id.Name)
}

// String returns the query for people, for example "ConfigMap.v1
// test-namespace/*".
func (q Query) String() string {
	id := ID(q)
	if id.Kind == "" {
		id.Kind = "*"
	}
	if id.Name == "" {
		id.Name = "*"
	}
	return id.String()
}
