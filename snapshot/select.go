package snapshot

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Select returns the objects that the selectors pick from src, in the order they
// are found, each once even if several selectors pick it; if they pick it in
// several versions, the first counts. A Namespace that is picked brings what its
// selector's scope says; if several selectors pick it, what any of them says. An
// object that a selector names and that does not exist selects nothing.
//
// Left out, however they are selected, are objects that another cluster makes
// by itself or must not get: see [Propagates] for the list, to which it adds
// Endpoints that have a Service of the same name.
//
// The error names every selector that is wrong (see [ValidateSelectors]), or
// what src failed to read. If ctx ends before everything is read there is an
// error, never a part of the objects.
func Select(ctx context.Context, src Source, selectors []Selector) ([]*unstructured.Unstructured, error) {
	return Rules{}.Select(ctx, src, selectors)
}

// Select is the function [Select] without what the rules exclude.
func (r Rules) Select(ctx context.Context, src Source, selectors []Selector) ([]*unstructured.Unstructured, error) {
	if errs := r.ValidateSelectors(selectors, nil); len(errs) > 0 {
		return nil, fmt.Errorf("snapshot: %w", errs.ToAggregate())
	}
	s := selection{src: src, rules: r, placed: map[ID]bool{}, brought: map[string]bool{}}
	for _, sel := range selectors {
		if sel.Scope == NamespaceWithResourceSelectors {
			s.within = sel.Name
		}
	}
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

// selection collects the objects of a [Select].
type selection struct {
	src   Source
	rules Rules
	// within is the one namespace from which objects are taken; empty for all.
	within string
	// placed has every object that was found, without its version, and whether
	// it may be placed; brought the namespaces whose content was.
	placed    map[ID]bool
	brought   map[string]bool
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
	err := s.each(ctx, s.query(sel), func(id ID, obj *unstructured.Unstructured) {
		if matches(obj) && s.inside(id) && s.add(id, obj) && isNamespace(id) && sel.brings() {
			namespaces = append(namespaces, id.Name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range namespaces {
		if s.brought[name] {
			continue
		}
		s.brought[name] = true
		if err := s.each(ctx, Query{Namespace: name}, func(id ID, obj *unstructured.Unstructured) { s.add(id, obj) }); err != nil {
			return err
		}
	}
	return nil
}

// query returns the query of a selector. Namespaced kinds are read only from the namespace that the selection
// is confined to.
func (s *selection) query(sel Selector) Query {
	q := Query{Group: sel.Group, Version: sel.Version, Kind: sel.Kind, Namespace: sel.Namespace, Name: sel.Name}
	if q.Namespace == "" && scopeOf(q.Group, q.Kind) == inNamespaces {
		q.Namespace = s.within
	}
	return q
}

// inside reports whether an object is where objects are taken from.
func (s *selection) inside(id ID) bool {
	return s.within == "" || id.Namespace == "" || id.Namespace == s.within
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

// add takes an object that is new, and reports whether it may be placed.
func (s *selection) add(id ID, obj *unstructured.Unstructured) bool {
	key := id.object()
	if placed, again := s.placed[key]; again {
		return placed
	}
	placed := s.rules.propagates(id, obj.Object)
	s.placed[key] = placed
	switch {
	case !placed:
	case id.Group == "" && id.Kind == "Endpoints":
		s.endpoints = append(s.endpoints, obj)
	default:
		s.objects = append(s.objects, obj)
	}
	return placed
}

// settleEndpoints adds the Endpoints that no Service makes.
func (s *selection) settleEndpoints(ctx context.Context) error {
	for _, obj := range s.endpoints {
		id := IDOf(obj)
		service := ID{Kind: "Service", Namespace: id.Namespace, Name: id.Name}
		_, found := s.placed[service]
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

// matches reports whether an object that is named id answers the query.
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
