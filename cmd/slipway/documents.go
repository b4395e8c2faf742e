package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
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
	add := func(name string, status any, o kubefleet.Object, err error) {
		if err != nil {
			o.Metadata.Name = name
		}
		o.Status = status
		items = append(items, o)
	}
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
		for _, value := range l.Values() {
			switch value := value.(type) {
			case httpapi.PlacementSummary:
				o, err := kubefleet.ObjectOf(value.Placement)
				add(value.Name, statusOf(&value, &o), o, err)
				overrides, _ := kubefleet.OverrideObjects(value.Placement) // none if the placement has no document
				for _, o := range overrides {
					items = append(items, o)
				}
			case httpapi.DeclaredStrategy:
				o, err := kubefleet.StrategyObject(value.Strategy)
				if err == nil {
					items = append(items, o) // the kind has no status
					continue
				}
				add(value.Name, value, o, err)
			case fleet.RunSummary:
				o, err := runObject(value)
				add(value.Name, value, o, err)
			}
		}
	}
	if items == nil {
		items = []any{}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, nil
}

// runObject returns the document of a run. A run without a declared strategy has none.
func runObject(r fleet.RunSummary) (kubefleet.Object, error) {
	namespace, name, ok := kubefleet.ObjectName(r.Name)
	placed, placement, known := kubefleet.ObjectName(r.Placement)
	within, strategy, named := kubefleet.ObjectName(r.Strategy)
	if !ok || !known || !named || placed != namespace || within != namespace {
		return kubefleet.Object{}, cli.Usagef("run %s has no document", r.Name)
	}
	state := kubefleet.RunState
	switch {
	case r.Hold:
		state = kubefleet.Initialize
	case r.State == stages.Stopped || r.State == stages.Stopping:
		state = kubefleet.Stop
	}
	run := kubefleet.Run{Namespace: namespace, Name: name, Placement: placement, StrategyName: strategy, State: state}
	if r.Index >= 0 {
		run.Index = &r.Index
	}
	return run.Object(), nil
}
