package placements

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/snapshot"
)

// projection writes the objects that show the snapshots and the decision of a placement, and passes
// the labels of snapshots that are irreversible to the engine.
type projection struct {
	*objects.Client
	engine *fleet.Engine
}

// snapshots creates the objects of each snapshot that the engine keeps, and deletes the
// objects of all other snapshots. The parts of a snapshot are created before its master. The newest
// snapshot is written first, so that its object exists before the former one stops being the
// latest.
func (p *projection) snapshots(ctx context.Context, k api.Key, obj *unstructured.Unstructured, view *fleet.PlacementView) error {
	gvr := api.ScopeOf(k).GVR(api.SnapshotKind)
	have := p.Mirrored(gvr, k)
	marked, err := p.markSnapshots(ctx, k, obj, have, view)
	if err != nil {
		return err
	}
	all := shownSnapshots(view)
	kept := map[string]bool{}
	for i, snap := range slices.Backward(all) {
		snap.latest, snap.irreversible = i == len(all)-1, slices.Contains(marked, snap.ObjectsIndex())
		kept[strconv.Itoa(snap.ObjectsIndex())] = true
		if err := p.snapshot(ctx, k, obj, have, snap); err != nil {
			return err
		}
	}
	for _, m := range have {
		if kept[m.Labels[api.LabelResourceIndex]] {
			continue
		}
		if err := p.DeleteMirror(ctx, gvr, m); err != nil {
			return err
		}
	}
	return nil
}

// shownSnapshot is the last of the snapshots that one object shows, with the facts for that object.
type shownSnapshot struct {
	snapshot.Snapshot
	latest, irreversible bool
	view                 *fleet.PlacementView
	// all are the snapshots that the object shows, in ascending order. They differ only in
	// overrides.
	all []snapshot.Snapshot
}

// shownSnapshots groups the snapshots that the engine keeps by the objects that show them,
// ascending.
func shownSnapshots(view *fleet.PlacementView) (out []shownSnapshot) {
	kept := view.Snapshots()
	for i, snap := range kept {
		if last := len(out) - 1; i > 0 && snap.ObjectsIndex() == kept[i-1].ObjectsIndex() {
			out[last].Snapshot, out[last].all = snap, append(out[last].all, snap)
		} else {
			out = append(out, shownSnapshot{Snapshot: snap, view: view, all: []snapshot.Snapshot{snap}})
		}
	}
	return out
}

// snapshot creates the objects of one snapshot unless they exist, and corrects their labels.
func (p *projection) snapshot(ctx context.Context, k api.Key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, snap shownSnapshot) error {
	master := have[status.MasterName(k.Name, snap.ObjectsIndex())]
	if !snap.isShownBy(master, obj) || !isWhole(have, k, snap.ObjectsIndex(), master) {
		return p.makeSnapshot(ctx, k, obj, have, snap)
	}
	labels := snap.labelsMissing(master.Labels)
	if len(labels) == 0 {
		return nil
	}
	return p.PatchMetadata(ctx, api.ScopeOf(k).GVR(api.SnapshotKind), objects.Partial(master), map[string]any{"labels": labels})
}

// labelsMissing returns the labels that must be set on the master of a snapshot. An existing
// irreversible label is never overwritten.
func (s *shownSnapshot) labelsMissing(have map[string]string) map[string]any {
	labels := map[string]any{}
	if latest := strconv.FormatBool(s.latest); have[api.LabelLatest] != latest {
		labels[api.LabelLatest] = latest
	}
	if _, said := have[api.LabelIrreversible]; s.irreversible && !said {
		labels[api.LabelIrreversible] = "true"
	}
	return labels
}

// isShownBy reports whether an object is the master of the snapshot. It compares the hash in the
// object: the hash of the objects or, if an earlier version of the hub made the object, the hash of
// the objects and overrides.
func (s *shownSnapshot) isShownBy(master *metav1.PartialObjectMetadata, obj *unstructured.Unstructured) bool {
	if master == nil || !objects.IsOwnedBy(master, obj) {
		return false
	}
	hash := master.Annotations[api.AnnotationHash]
	return hash == s.view.Tag(s.Set) || slices.ContainsFunc(s.all, func(one snapshot.Snapshot) bool { return hash == s.view.Tag(one.Digest) })
}

// isWhole reports whether all parts of a snapshot exist.
func isWhole(have map[string]*metav1.PartialObjectMetadata, k api.Key, index int, master *metav1.PartialObjectMetadata) bool {
	parts, err := strconv.Atoi(master.Annotations[api.AnnotationParts])
	for i := range parts - 1 {
		if have[fmt.Sprintf("%s-%d-%d", k.Name, index, i)] == nil {
			return false
		}
	}
	return err == nil
}

// makeSnapshot creates the objects of a snapshot, the master last.
func (p *projection) makeSnapshot(ctx context.Context, k api.Key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, snap shownSnapshot) error {
	set, err := snap.view.Content(ctx, snap.Index)
	if err != nil {
		return err
	}
	shown, err := status.ResourceSnapshots(&status.SnapshotFacts{
		Placement: k.Name, Namespace: k.Namespace, UID: obj.GetUID(), Snapshot: snap.Snapshot, Latest: snap.latest, Irreversible: snap.irreversible, Tag: snap.view.Tag, Bodies: set.Bodies,
	})
	if err != nil {
		return err
	}
	gvr := api.ScopeOf(k).GVR(api.SnapshotKind)
	for _, o := range slices.Backward(shown) {
		if before := have[o.GetName()]; before != nil {
			if err := p.DeleteMirror(ctx, gvr, before); err != nil {
				return err
			}
		}
		_, err := p.Dynamic.Resource(gvr).Namespace(k.Namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: api.Manager})
		if err != nil {
			return objects.Settled(err)
		}
	}
	p.Recorder.Normal(obj, api.EventSnapshotTaken, "snapshot %d of %d objects: %s", snap.ObjectsIndex(), snap.Objects, shown[0].GetName())
	return nil
}

// policy writes the object of the latest decision. The objects of earlier policies stay, but
// cease to be the latest.
func (p *projection) policy(ctx context.Context, k api.Key, obj *unstructured.Unstructured, d *status.Selection) error {
	if d.Digest == "" {
		return nil
	}
	gvr := api.ScopeOf(k).GVR(api.PolicyKind)
	have := p.Mirrored(gvr, k)
	now := have[status.PolicyName(k.Name, d.Index)]
	if now != nil && objects.IsOwnedBy(now, obj) && now.Annotations[annotationDecision] == d.ShownDigest() {
		return p.demote(ctx, gvr, have, now.Name)
	}
	want, err := status.PolicySnapshot(&status.PolicyFacts{
		Placement: k.Name, Namespace: k.Namespace, UID: obj.GetUID(), Generation: obj.GetGeneration(), Policy: api.Spec[v1beta1.PlacementSpec](obj).Policy,
		Decision: d, Latest: true, Decided: time.Now(),
	})
	if err != nil {
		return err
	}
	if err := p.writePolicy(ctx, k, want, now, d.ShownDigest()); err != nil {
		return err
	}
	return p.demote(ctx, gvr, have, want.GetName())
}

// annotationDecision holds the digest of the decision that a policy snapshot shows. It is written
// after the status: without it, the object is written again.
const annotationDecision = "slipway.dev/decision"

// writePolicy writes a policy snapshot and its status.
func (p *projection) writePolicy(ctx context.Context, k api.Key, want *unstructured.Unstructured, now *metav1.PartialObjectMetadata, decision string) error {
	resource := p.Dynamic.Resource(api.ScopeOf(k).GVR(api.PolicyKind)).Namespace(k.Namespace)
	st := want.Object["status"]
	var err error
	if now == nil {
		want, err = resource.Create(ctx, want, metav1.CreateOptions{FieldManager: api.Manager})
	} else {
		want.SetUID(now.UID)
		want.SetResourceVersion(now.ResourceVersion)
		want, err = resource.Update(ctx, want, metav1.UpdateOptions{FieldManager: api.Manager})
	}
	if err != nil {
		return objects.Settled(err)
	}
	want.Object["status"] = st
	if want, err = resource.UpdateStatus(ctx, want, metav1.UpdateOptions{FieldManager: api.Manager}); err != nil {
		return objects.Settled(err)
	}
	return p.PatchMetadata(ctx, api.ScopeOf(k).GVR(api.PolicyKind), want, map[string]any{"annotations": map[string]any{annotationDecision: decision}})
}

// demote sets the latest label to false on all objects except the one named latest.
func (p *projection) demote(ctx context.Context, gvr schema.GroupVersionResource, have map[string]*metav1.PartialObjectMetadata, latest string) error {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if name == latest || have[name].Labels[api.LabelLatest] != "true" {
			continue
		}
		if err := p.PatchMetadata(ctx, gvr, objects.Partial(have[name]), map[string]any{"labels": map[string]any{api.LabelLatest: "false"}}); err != nil {
			return err
		}
	}
	return nil
}
