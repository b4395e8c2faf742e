package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Select returns the objects that the selectors pick from src, in the order in which it finds
// them. It returns each object once, even if several selectors pick it; if they pick several
// versions, the first counts. If a selector picks a Namespace, it also picks objects in the
// Namespace, as its Scope says; if several selectors pick the Namespace, their scopes add up. A
// selector that names a missing object selects nothing, and [Set.Omitted] reports it with the
// reason [Missing]. The Namespace of a selector with scope [NamespaceWithResourceSelectors] must
// exist.
//
// Select leaves out objects that another cluster makes itself or must not get, even if a selector
// names them. These are the objects that [Propagates] excludes, the Endpoints of a Service with a
// selector, objects whose controller is selected too, and claims that the controller of a selected
// StatefulSet made. It recognizes those claims by their names and labels, and keeps claims that an
// apply or kubectl wrote.
//
// The error names every invalid selector (see [ValidateSelectors]), or the query that src failed
// to read. If ctx ends before everything is read, Select returns an error and no objects.
func Select(ctx context.Context, src Source, selectors []Selector) ([]*unstructured.Unstructured, error) {
	return Rules{}.Select(ctx, src, selectors)
}

// Select is the function [Select] without the objects that the rules exclude.
func (r Rules) Select(ctx context.Context, src Source, selectors []Selector) ([]*unstructured.Unstructured, error) {
	s, err := r.selectFrom(ctx, src, selectors, nil)
	if err != nil {
		return nil, err
	}
	return s.objects, nil
}

// selectFrom is Select, and returns the whole state of the selection.
func (r Rules) selectFrom(ctx context.Context, src Source, selectors []Selector, carry []Carry) (*selection, error) {
	if errs := r.ValidateSelectors(selectors, nil); len(errs) > 0 {
		return nil, fmt.Errorf("snapshot: %w", errs.ToAggregate())
	}
	s := &selection{
		src: src, rules: r, placed: map[ID]bool{}, brought: map[string]bool{}, carryOwned: slices.Contains(carry, CarryOwned),
		omitted: omissions{}, services: map[ID]*unstructured.Unstructured{}, made: map[string]bool{},
	}
	for _, sel := range selectors {
		if sel.Scope == NamespaceWithResourceSelectors {
			s.within = sel.Name
		}
	}
	for i, sel := range selectors {
		if err := s.pick(ctx, sel); err != nil {
			return nil, err
		}
		if err := s.checkWithin(sel, field.NewPath("selectors").Index(i)); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	if err := s.settleEndpoints(ctx); err != nil {
		return nil, err
	}
	s.settleOwned()
	return s, nil
}

// selection collects the objects of a [Select].
type selection struct {
	src   Source
	rules Rules
	// within is the only namespace whose objects are taken; empty for all.
	within string
	// placed has every object that was found, without its version, and whether it may be placed.
	// brought has the namespaces whose content was added.
	placed    map[ID]bool
	brought   map[string]bool
	objects   []*unstructured.Unstructured
	endpoints []*unstructured.Unstructured // decided when all Services are known
	services  map[ID]*unstructured.Unstructured
	// carryOwned keeps the objects that controllers of the hub made for other objects.
	carryOwned bool
	// made has the uids of the objects that clusters get or make themselves. Controllers on the
	// clusters make the objects that they own.
	made    map[string]bool
	omitted omissions
}

// pick adds the objects that one selector picks, then the content of the Namespaces among them.
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
	found := false
	err := s.each(ctx, s.query(sel), func(id ID, obj *unstructured.Unstructured) {
		found = found || s.inside(id) && obj.GetDeletionTimestamp() == nil
		if matches(obj) && s.inside(id) && s.add(id, obj) && isNamespace(id) && sel.brings() {
			namespaces = append(namespaces, id.Name)
		}
	})
	if err != nil {
		return err
	}
	if sel.Name != "" && !found {
		s.omitted.add(ID{Group: sel.Group, Kind: sel.Kind, Namespace: sel.Namespace, Name: sel.Name}, Missing, "")
	}
	for _, name := range namespaces {
		if s.brought[name] {
			continue
		}
		s.brought[name] = true
		s.omitted.exclude(s.rules)
		if err := s.each(ctx, Query{Namespace: name}, func(id ID, obj *unstructured.Unstructured) { s.add(id, obj) }); err != nil {
			return err
		}
	}
	return nil
}

// noNamespace is KubeFleet's sentence for a selection that is confined to a Namespace which
// cannot be placed.
const noNamespace = "NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected"

// checkWithin returns an error if sel, which was picked and is at path, confines the selection to
// a Namespace that cannot be placed. An empty selection would remove everything from the clusters
// instead.
func (s *selection) checkWithin(sel Selector, path *field.Path) error {
	if sel.Scope != NamespaceWithResourceSelectors || s.placed[ID{Kind: sel.Kind, Name: sel.Name}] {
		return nil
	}
	err := field.NotFound(path.Child("name"), sel.Name)
	err.Detail = "there is no Namespace of this name, or it is being deleted: create it, or name another one: " + noNamespace
	return err
}

// query returns the query of a selector. If the selection is confined to a namespace, namespaced
// kinds are read only from there.
func (s *selection) query(sel Selector) Query {
	q := Query{Group: sel.Group, Version: sel.Version, Kind: sel.Kind, Namespace: sel.Namespace, Name: sel.Name}
	if q.Namespace == "" && scopeOf(q.Group, q.Kind) == inNamespaces {
		q.Namespace = s.within
	}
	return q
}

// inside reports whether an object is in the namespace of the selection, or in none.
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

// add records an object if it is new, and reports whether it may be placed.
func (s *selection) add(id ID, obj *unstructured.Unstructured) bool {
	key := id.object()
	if placed, again := s.placed[key]; again {
		return placed
	}
	reason := s.rules.withheld(id, obj.Object)
	if reason == OwnedOnHub && s.carryOwned {
		reason = ""
	}
	placed := reason == ""
	s.placed[key] = placed
	if id.Group == "" && id.Kind == "Service" {
		s.services[key] = obj
	}
	if placed || reason == OwnedOnHub || reason == BoundOnHub || reason == NoWorkload || reason == EveryCluster {
		s.made[string(obj.GetUID())] = true
	}
	switch {
	case !placed:
		s.omitted.add(id, reason, "")
		if reason == EveryCluster {
			for _, path := range settings(id, obj.Object) {
				s.omitted.add(id, reason, path)
			}
		}
	case id.Group == "" && id.Kind == "Endpoints":
		s.endpoints = append(s.endpoints, obj)
	default:
		s.objects = append(s.objects, obj)
	}
	return placed
}

// settleEndpoints adds the Endpoints that no controller makes: their Service has no selector or
// does not exist.
func (s *selection) settleEndpoints(ctx context.Context) error {
	for _, obj := range s.endpoints {
		id := IDOf(obj)
		key := ID{Kind: "Service", Namespace: id.Namespace, Name: id.Name}
		service := s.services[key]
		if service == nil {
			q := Query{Version: "v1", Kind: "Service", Namespace: id.Namespace, Name: id.Name}
			if err := s.each(ctx, q, func(_ ID, found *unstructured.Unstructured) { service = found }); err != nil {
				return err
			}
		}
		if service != nil && hasSelector(service) {
			s.omitted.add(id, EveryCluster, "")
			continue
		}
		s.objects = append(s.objects, obj)
	}
	return nil
}

func hasSelector(service *unstructured.Unstructured) bool {
	spec, _ := service.Object["spec"].(map[string]any)
	selector, _ := spec["selector"].(map[string]any)
	return len(selector) > 0
}

// settleOwned drops the objects that a controller made for another selected object.
func (s *selection) settleOwned() {
	if s.carryOwned {
		return
	}
	sets := claimTemplates(s.objects)
	s.objects = slices.DeleteFunc(s.objects, func(obj *unstructured.Unstructured) bool {
		meta, _ := obj.Object["metadata"].(map[string]any)
		owner := text(controllerOf(meta), "uid")
		owned := owner != "" && s.made[owner]
		if owned || isClaimOf(sets, obj) {
			s.omitted.add(IDOf(obj), OwnedOnHub, "")
			return true
		}
		return false
	})
}

// claimTemplates returns the labels that claims get from the templates of the StatefulSets among
// objects, by namespace and by the name of a claim without its number.
func claimTemplates(objects []*unstructured.Unstructured) map[ID]map[string]any {
	out := map[ID]map[string]any{}
	for _, obj := range objects {
		id := IDOf(obj)
		if id.Group != "apps" || id.Kind != "StatefulSet" {
			continue
		}
		spec, _ := obj.Object["spec"].(map[string]any)
		selector, _ := spec["selector"].(map[string]any)
		labels, _ := selector["matchLabels"].(map[string]any)
		templates, _ := spec["volumeClaimTemplates"].([]any)
		for _, t := range templates {
			template, _ := t.(map[string]any)
			meta, _ := template["metadata"].(map[string]any)
			out[ID{Namespace: id.Namespace, Name: text(meta, "name") + "-" + id.Name}] = labels
		}
	}
	return out
}

// isClaimOf reports whether an object is a claim that the controller of a StatefulSet made from a
// template.
func isClaimOf(templates map[ID]map[string]any, obj *unstructured.Unstructured) bool {
	id := IDOf(obj)
	cut := strings.LastIndexByte(id.Name, '-')
	if id.Group != "" || id.Kind != "PersistentVolumeClaim" || cut < 0 {
		return false
	}
	if _, err := strconv.ParseUint(id.Name[cut+1:], 10, 31); err != nil {
		return false
	}
	want, ok := templates[ID{Namespace: id.Namespace, Name: id.Name[:cut]}]
	meta, _ := obj.Object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for key, value := range want {
		ok = ok && labels[key] == value
	}
	return ok && !madeByHand(meta)
}

// scaledBy returns the objects, without their versions, whose replicas an autoscaler among
// objects controls.
func scaledBy(objects []*unstructured.Unstructured) map[ID]bool {
	out := map[ID]bool{}
	for _, obj := range objects {
		id := IDOf(obj)
		keda := id.Group == "keda.sh" && id.Kind == "ScaledObject"
		if !keda && (id.Group != "autoscaling" || id.Kind != "HorizontalPodAutoscaler") {
			continue
		}
		spec, _ := obj.Object["spec"].(map[string]any)
		ref, _ := spec["scaleTargetRef"].(map[string]any)
		target := idOf(map[string]any{"apiVersion": ref["apiVersion"], "kind": ref["kind"]})
		if keda && target.Kind == "" {
			target.Group, target.Kind = "apps", "Deployment"
		}
		target.Namespace, target.Name = id.Namespace, text(ref, "name")
		out[target.object()] = true
	}
	return out
}

// matches reports whether the query selects an object with this ID.
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
