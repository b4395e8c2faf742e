package main

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// placementStatus is the status of the document of a placement.
type placementStatus struct {
	Owner     string             `json:"owner,omitempty"`
	Snapshots int                `json:"snapshots"`
	Latest    *snapshot.Snapshot `json:"latest,omitempty"`
	Runs      int                `json:"runs"`
	Version   string             `json:"version,omitempty"`
	// Placement is the declaration if it has a field that no document has; otherwise nil.
	Placement *fleet.Placement `json:"placement,omitempty"`
}

// strategyStatus is the status of the document of a strategy that has fields which no document has.
type strategyStatus struct {
	Strategy httpapi.DeclaredStrategy `json:"strategy"`
}

// overridesOf returns the documents of the overrides of a placement. An override that another
// placement has, too, names no placement, and is returned only once: shown has the ones so far.
func overridesOf(p fleet.Placement, all []httpapi.PlacementSummary, shown map[string]bool) (out []kubefleet.Object) {
	objects, err := kubefleet.OverrideObjects(p)
	if err != nil {
		return nil // the placement has no document either
	}
	for i, o := range p.Overrides {
		shared := slices.ContainsFunc(all, func(other httpapi.PlacementSummary) bool {
			return other.Name != p.Name && slices.ContainsFunc(other.Overrides, func(x placement.Override) bool { return len(declare.Differences(x, o)) == 0 })
		})
		if shared && shown[o.String()] {
			continue
		}
		if shared {
			shown[o.String()], objects[i].Spec = true, ofAll(objects[i].Spec)
		}
		out = append(out, objects[i])
	}
	return out
}

// ofAll returns the spec of an override without its placement.
func ofAll(spec any) any {
	switch spec := spec.(type) {
	case v1beta1.ClusterResourceOverrideSpec:
		spec.Placement = nil
		return spec
	case v1beta1.ResourceOverrideSpec:
		spec.Placement = nil
		return spec
	}
	return spec
}

// statusOf returns the status of the document o of a placement.
func statusOf(p *httpapi.PlacementSummary, o *kubefleet.Object) placementStatus {
	status := placementStatus{p.Owner, p.Snapshots, p.Latest, p.Runs, p.Version, &p.Placement}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return status
	}
	if read, _, err := kubefleet.PlacementOf(&unstructured.Unstructured{Object: obj}); err == nil {
		read.Overrides = p.Overrides
		if len(declare.Differences(p.Placement, read)) == 0 {
			status.Placement = nil
		}
	}
	return status
}

// documents returns the objects of a list as the documents that apply takes, with their state as
// status. It returns nil if no document declares objects of the kind. An object
// that no document can declare has no apiVersion and no kind, so that apply refuses it.
func documents(ctx context.Context, c call, l *cli.List) (any, error) {
	var items []any
	switch {
	case l.Kind != "placement" && l.Kind != "strategy" && l.Kind != "run":
		return nil, nil
	case c.Hub != nil:
		objects, err := c.Hub.Objects(ctx, l.Kind, l.Names())
		if err != nil {
			return nil, err
		}
		for i := range objects {
			items = append(items, objects[i].Object)
		}
	default:
		var all []httpapi.PlacementSummary
		if l.Kind == "placement" {
			var err error
			if all, err = c.Placements(ctx); err != nil {
				return nil, err
			}
		}
		shown := map[string]bool{}
		for _, value := range l.Values() {
			for _, o := range documentsOf(value, all, shown) {
				items = append(items, o)
			}
		}
	}
	if items == nil {
		items = []any{}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, nil
}

// documentsOf returns the documents of a row of a list, with the overrides of a placement as at
// [overridesOf].
func documentsOf(value any, all []httpapi.PlacementSummary, shown map[string]bool) []kubefleet.Object {
	of := func(name string, status any, o kubefleet.Object, err error) kubefleet.Object {
		if err != nil {
			o.Metadata.Name = name
		}
		o.Status = status
		return o
	}
	switch value := value.(type) {
	case httpapi.PlacementSummary:
		o, err := kubefleet.ObjectOf(value.Placement)
		return append([]kubefleet.Object{of(value.Name, statusOf(&value, &o), o, err)}, overridesOf(value.Placement, all, shown)...)
	case httpapi.DeclaredStrategy:
		o, err := kubefleet.StrategyObject(value.Strategy)
		switch _, lost := declare.InDocument(value.Strategy); {
		case err != nil, len(lost) > 0:
			return []kubefleet.Object{of(value.Name, strategyStatus{value}, o, err)}
		}
		return []kubefleet.Object{o} // the kind has no status
	case fleet.RunSummary:
		o, err := runObject(value)
		return []kubefleet.Object{of(value.Name, value, o, err)}
	}
	return nil
}

// runObject returns the document of a run. A run without a declared strategy has none.
func runObject(r fleet.RunSummary) (kubefleet.Object, error) {
	namespace, name, ok := kubefleet.ObjectName(r.Name)
	placed, placement, known := kubefleet.ObjectName(r.Placement)
	within, strategy, named := kubefleet.ObjectName(r.Strategy)
	if !ok || !known || !named || placed != namespace || within != namespace {
		return kubefleet.Object{}, cli.Usagef("run %s has no document", r.Name)
	}
	state := v1beta1.StateRun
	switch {
	case r.Hold:
		state = v1beta1.StateInitialize
	case r.State == stages.Stopped || r.State == stages.Stopping:
		state = v1beta1.StateStop
	}
	run := kubefleet.Run{Namespace: namespace, Name: name, Placement: placement, StrategyName: strategy, State: state}
	if r.Index >= 0 {
		run.Index = &r.Index
	}
	return run.Object(), nil
}
