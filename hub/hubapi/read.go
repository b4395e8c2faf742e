package hubapi

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// runs returns the served runs as their objects show them, and only the runs of placement if that
// is not "". The API server makes a table of them, so that the lists of clusters are not
// transferred.
func (h *Hub) runs(ctx context.Context, placement string) ([]fleet.RunSummary, error) {
	items, err := list(h, api.RunKind, func(gvr schema.GroupVersionResource, namespace string) ([]status.RunRow, error) {
		// With Resource, errors would end with a resource that does not exist: (get
		// stagedupdateruns.meta.k8s.io).
		segments := []string{"apis", gvr.Group, gvr.Version}
		if namespace != "" {
			segments = append(segments, "namespaces", namespace)
		}
		table, err := h.raw.Get().AbsPath(append(segments, gvr.Resource)...).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("includeObject", "Metadata").Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		return status.RunTable(table)
	})
	if err != nil {
		return nil, err
	}
	out := make([]fleet.RunSummary, 0, len(items))
	for _, r := range items {
		s := r.RunSummary
		s.Name, s.Placement = h.shown(r.Namespace, s.Name), h.shown(r.Namespace, s.Placement)
		if s.RolledBackBy != "" {
			s.RolledBackBy = h.shown(r.Namespace, s.RolledBackBy)
		}
		if placement == "" || s.Placement == placement {
			out = append(out, s)
		}
	}
	return out, nil
}

// requests returns the open approval requests, as their objects show them. A run or placement
// that is not "" restricts them to it.
func (h *Hub) requests(ctx context.Context, run, placement string) ([]approval.Request, error) {
	all, err := h.runs(ctx, placement)
	if err != nil {
		return nil, err
	}
	of := map[string]*fleet.RunSummary{}
	for i := range all {
		of[all[i].Name] = &all[i]
	}
	items, err := h.objects(ctx, api.ApprovalKind)
	if err != nil {
		return nil, err
	}
	out := []approval.Request{}
	for i := range items {
		r, open, err := status.OpenRequest(&items[i])
		if err != nil {
			return nil, err
		}
		r.Name, r.Run = h.shown(items[i].GetNamespace(), r.Name), h.shown(items[i].GetNamespace(), r.Run)
		parent := of[r.Run]
		if open && parent != nil && (run == "" || r.Run == run) {
			r.Placement, r.Snapshot = parent.Placement, parent.Index
			out = append(out, r)
		}
	}
	return out, nil
}

// placements returns the served placements as their objects and snapshot objects show them, and
// only the placement of that name if name is not "".
func (h *Hub) placements(ctx context.Context, name string) ([]httpapi.PlacementSummary, error) {
	items, err := h.objects(ctx, api.PlacementKind)
	if err != nil {
		return nil, err
	}
	all, err := h.runs(ctx, "")
	if err != nil {
		return nil, err
	}
	taken, err := h.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	out := []httpapi.PlacementSummary{}
	for i := range items {
		u := &items[i]
		var p httpapi.PlacementSummary
		if p.Placement, _, err = kubefleet.PlacementOf(u); err != nil {
			p.Placement = fleet.Placement{} // it is refused, and its status says why
		}
		p.Name, p.Owner = h.shown(u.GetNamespace(), u.GetName()), string(u.GetUID())
		if at := u.GetDeletionTimestamp(); at != nil {
			p.DeletingSince = at.Time
		}
		if name != "" && p.Name != name {
			continue
		}
		for _, r := range all {
			if r.Placement == p.Name {
				p.Runs++
			}
		}
		for _, s := range taken[p.Name] {
			if p.Snapshots++; p.Latest == nil || s.Index > p.Latest.Index {
				p.Latest = &s
			}
		}
		out = append(out, p)
	}
	if name != "" && len(out) == 0 {
		return nil, fmt.Errorf("placement %s: %w", name, backend.ErrNotFound)
	}
	return out, nil
}

// snapshots returns snapshots by placement, from the metadata of their objects. It does not read
// their content.
func (h *Hub) snapshots(ctx context.Context) (map[string][]snapshot.Snapshot, error) {
	items, err := list(h, api.SnapshotKind, func(gvr schema.GroupVersionResource, namespace string) ([]metav1.PartialObjectMetadata, error) {
		l, err := h.metadata.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return l.Items, nil
	})
	out := map[string][]snapshot.Snapshot{}
	for i := range items {
		if s, ok := status.SnapshotSummary(&items[i]); ok {
			s.Placement = h.shown(items[i].Namespace, s.Placement)
			out[s.Placement] = append(out[s.Placement], s)
		}
	}
	return out, err
}

// strategy returns a strategy of the hub.
func (h *Hub) strategy(ctx context.Context, name string) (stages.Strategy, error) {
	k := h.key(name)
	u, err := h.resource(api.StrategyKind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil {
		return stages.Strategy{}, explain(err, k.Namespace, "viewer")
	}
	return kubefleet.StrategyOf(u)
}

// setting returns the compatibility setting of the definitions, or of the hub that leads or led
// last. A caller who may read neither of them gets the default.
func (h *Hub) setting(ctx context.Context) (compat.Setting, error) {
	crds := h.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	u, err := crds.Get(ctx, "clusterstagedupdateruns.placement.kubernetes-fleet.io", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		u, err = h.lease(ctx)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return compat.Default, nil
	}
	if err != nil {
		return "", err
	}
	return compat.Setting(u.GetLabels()[compat.Label]), nil
}

// lease returns the Lease of the leading hub.
func (h *Hub) lease(ctx context.Context) (*unstructured.Unstructured, error) {
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	return h.client.Resource(leases).Namespace(h.store.namespace).Get(ctx, api.Lease, metav1.GetOptions{})
}

// strategies returns the served strategies. A strategy that cannot be read has a name only.
func (h *Hub) strategies(ctx context.Context) (out []httpapi.DeclaredStrategy, err error) {
	all, err := h.objects(ctx, api.StrategyKind)
	for i := range all {
		s, _ := kubefleet.StrategyOf(&all[i])
		s.Name = h.shown(all[i].GetNamespace(), all[i].GetName())
		out = append(out, httpapi.DeclaredStrategy{Strategy: s})
	}
	return out, err
}

// Objects returns the objects with these names, as a client applies them again: with their status,
// and without the metadata that the API server writes. The kind is placement, strategy or run.
func (h *Hub) Objects(ctx context.Context, kind string, names []string) ([]unstructured.Unstructured, error) {
	resource := map[string]string{"placement": api.PlacementKind, "strategy": api.StrategyKind, "run": api.RunKind}[kind]
	all, err := h.objects(ctx, resource)
	if err != nil {
		return nil, err
	}
	var out []unstructured.Unstructured
	for _, u := range all {
		if !slices.Contains(names, h.shown(u.GetNamespace(), u.GetName())) {
			continue
		}
		clean := bare(&u)
		clean.SetFinalizers(nil)
		clean.SetOwnerReferences(nil)
		out = append(out, *clean)
	}
	return out, nil
}
