package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
)

// byParent indexes the objects that show snapshots by their placement.
const byParent = "parent"

// mirrors are the objects that the hub makes of snapshots and decisions. Only their
// metadata is kept: what is in them comes from the engine.
type mirrors struct {
	factory metadatainformer.SharedInformerFactory
	objects map[schema.GroupVersionResource]cache.SharedIndexInformer
}

// hearShown watches those objects, so that one that somebody changes or deletes is
// made again.
func (s *service) hearShown() error {
	s.mirrors = mirrors{factory: metadatainformer.NewSharedInformerFactory(s.meta, 0), objects: map[schema.GroupVersionResource]cache.SharedIndexInformer{}}
	for _, in := range []scope{clusterScope, namespaceScope} {
		for _, err := range []error{
			s.hearMirror(in.gvr(snapshotKind), s.placements, false), s.hearMirror(in.gvr(policyKind), s.placements, false),
			s.hearMirror(in.gvr(overrideSnapshotKind), s.overrides, true),
		} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// hearMirror watches the objects that a loop makes of others, which are told of
// those that change or go, and of every one where they may have outlived the
// other.
func (s *service) hearMirror(gvr schema.GroupVersionResource, shows *loop, all bool) error {
	tell := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			shows.addPaced(key{Namespace: m.Namespace, Name: parentOf(m)}, statusPace)
		}
	}
	informer := s.mirrors.factory.ForResource(gvr).Informer()
	if err := errors.Join(informer.AddIndexers(cache.Indexers{byParent: parents}), informer.SetTransform(onlyNeeded),
		informer.SetWatchErrorHandlerWithContext(s.unwatched)); err != nil {
		return err
	}
	heard := cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell}
	if all {
		heard.AddFunc = tell
	}
	_, err := informer.AddEventHandler(heard)
	s.mirrors.objects[gvr] = informer
	return err
}

// parentOf is what an object shows a placement or an override of.
func parentOf(m *metav1.PartialObjectMetadata) string {
	return cmp.Or(m.Labels[labelParent], m.Labels[labelOverride])
}

func parents(obj any) ([]string, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, nil
	}
	return []string{m.Namespace + "/" + parentOf(m)}, nil
}

// onlyNeeded drops what nobody reads.
func onlyNeeded(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
	}
	return obj, nil
}

// of returns the objects of a placement by their name.
func (m *mirrors) of(gvr schema.GroupVersionResource, k key) map[string]*metav1.PartialObjectMetadata {
	out := map[string]*metav1.PartialObjectMetadata{}
	found, err := m.objects[gvr].GetIndexer().ByIndex(byParent, k.Namespace+"/"+k.Name)
	if err != nil {
		return out
	}
	for _, obj := range found {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			out[m.Name] = m
		}
	}
	return out
}

// projectSnapshots makes an object, or several, of each snapshot that the engine keeps, and deletes those of the
// others. The parts of one come before it, and it comes before the one before it ceases to be the latest.
func (s *service) projectSnapshots(ctx context.Context, k key, obj *unstructured.Unstructured, view *fleet.PlacementView) error {
	gvr := scopeOf(k).gvr(snapshotKind)
	have := s.mirrors.of(gvr, k)
	marked, err := s.markSnapshots(ctx, k, obj, have, view)
	if err != nil {
		return err
	}
	all := view.Snapshots()
	kept := map[string]bool{}
	for i, snap := range slices.Backward(all) {
		kept[strconv.Itoa(snap.Index)] = true
		if err := s.projectSnapshot(ctx, k, obj, have, shownSnapshot{snap, i == len(all)-1, slices.Contains(marked, snap.Index), view}); err != nil {
			return err
		}
	}
	for _, m := range have {
		if kept[m.Labels[labelResourceIndex]] {
			continue
		}
		if err := s.removeShown(ctx, gvr, m); err != nil {
			return err
		}
	}
	return nil
}

// shownSnapshot is a snapshot with what its object says beside it.
type shownSnapshot struct {
	snapshot.Snapshot
	latest, irreversible bool
	view                 *fleet.PlacementView
}

// projectSnapshot makes the objects of one snapshot, as far as they are not there.
func (s *service) projectSnapshot(ctx context.Context, k key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, snap shownSnapshot) error {
	master := have[masterName(k.Name, snap.Index)]
	if !shows(master, obj, snap.view.Tag(snap.Digest)) || !isWhole(have, k, snap.Index, master) {
		return s.makeSnapshot(ctx, k, obj, have, snap)
	}
	labels := snap.labelsMissing(master.Labels)
	if len(labels) == 0 {
		return nil
	}
	return s.patchMetadata(ctx, scopeOf(k).gvr(snapshotKind), partial(master), map[string]any{"labels": labels})
}

// labelsMissing are the labels that the object of a snapshot does not have as it
// should. Who says that it is not irreversible is not talked down.
func (s *shownSnapshot) labelsMissing(have map[string]string) map[string]any {
	labels := map[string]any{}
	if latest := strconv.FormatBool(s.latest); have[labelLatest] != latest {
		labels[labelLatest] = latest
	}
	if _, said := have[labelIrreversible]; s.irreversible && !said {
		labels[labelIrreversible] = "true"
	}
	return labels
}

// shows reports whether an object is the master of a snapshot of the placement, by the
// hash that it is shown with.
func shows(master *metav1.PartialObjectMetadata, obj *unstructured.Unstructured, hash string) bool {
	return master != nil && master.Annotations[annotationHash] == hash && ownedByUID(master, obj)
}

// isWhole reports whether all parts of a snapshot are there.
func isWhole(have map[string]*metav1.PartialObjectMetadata, k key, index int, master *metav1.PartialObjectMetadata) bool {
	parts, err := strconv.Atoi(master.Annotations[annotationParts])
	for i := range parts - 1 {
		if have[fmt.Sprintf("%s-%d-%d", k.Name, index, i)] == nil {
			return false
		}
	}
	return err == nil
}

func ownedByUID(m *metav1.PartialObjectMetadata, obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == obj.GetUID() })
}

// makeSnapshot creates the objects of a snapshot, the master last.
func (s *service) makeSnapshot(ctx context.Context, k key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, snap shownSnapshot) error {
	set, err := snap.view.Content(ctx, snap.Index)
	if err != nil {
		return err
	}
	objects, err := resourceSnapshots(&snapshotFacts{
		Placement: k.Name, Namespace: k.Namespace, UID: obj.GetUID(), Snapshot: snap.Snapshot, Latest: snap.latest, Irreversible: snap.irreversible, Tag: snap.view.Tag, Bodies: set.Bodies,
	})
	if err != nil {
		return err
	}
	gvr := scopeOf(k).gvr(snapshotKind)
	for _, o := range slices.Backward(objects) {
		if before := have[o.GetName()]; before != nil {
			if err := s.removeShown(ctx, gvr, before); err != nil {
				return err
			}
		}
		_, err := s.client.Resource(gvr).Namespace(k.Namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
		if err != nil {
			return settled(err)
		}
	}
	s.notes.say(obj, "SnapshotTaken", "snapshot %d of %d objects: %s", snap.Index, snap.Objects, objects[0].GetName())
	return nil
}

func (s *service) removeShown(ctx context.Context, gvr schema.GroupVersionResource, m *metav1.PartialObjectMetadata) error {
	err := s.client.Resource(gvr).Namespace(m.Namespace).Delete(ctx, m.Name, exactly(m))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return settled(err)
}

// partial is the metadata of an object as an object.
func partial(m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetResourceVersion(m.ResourceVersion)
	return u
}

// projectPolicy makes the object of the latest decision, and keeps those of the
// policies before it.
func (s *service) projectPolicy(ctx context.Context, k key, obj *unstructured.Unstructured, d *resolution) error {
	if d.Digest == "" {
		return nil
	}
	gvr := scopeOf(k).gvr(policyKind)
	have := s.mirrors.of(gvr, k)
	now := have[policyName(k.Name, d.Index)]
	if now != nil && ownedByUID(now, obj) && now.Annotations[annotationDecision] == d.digest() {
		return s.demote(ctx, gvr, have, now.Name)
	}
	policy, _, _ := unstructured.NestedMap(obj.Object, "spec", "policy")
	want, err := policySnapshot(&policyFacts{
		Placement: k.Name, Namespace: k.Namespace, UID: obj.GetUID(), Generation: obj.GetGeneration(), Policy: policy,
		Decision: d, Latest: true, Decided: time.Now(),
	})
	if err != nil {
		return err
	}
	if err := s.writePolicy(ctx, k, want, now, d.digest()); err != nil {
		return err
	}
	return s.demote(ctx, gvr, have, want.GetName())
}

// annotationDecision holds the digest of what a policy snapshot shows of the
// decision. It is written last: without it the object is written again.
const annotationDecision = "slipway.dev/decision"

// writePolicy writes a policy snapshot and its status.
func (s *service) writePolicy(ctx context.Context, k key, want *unstructured.Unstructured, now *metav1.PartialObjectMetadata, decision string) error {
	resource := s.client.Resource(scopeOf(k).gvr(policyKind)).Namespace(k.Namespace)
	status := want.Object["status"]
	var err error
	if now == nil {
		want, err = resource.Create(ctx, want, metav1.CreateOptions{FieldManager: manager})
	} else {
		want.SetUID(now.UID)
		want.SetResourceVersion(now.ResourceVersion)
		want, err = resource.Update(ctx, want, metav1.UpdateOptions{FieldManager: manager})
	}
	if err != nil {
		return settled(err)
	}
	want.Object["status"] = status
	if want, err = resource.UpdateStatus(ctx, want, metav1.UpdateOptions{FieldManager: manager}); err != nil {
		return settled(err)
	}
	return s.patchMetadata(ctx, scopeOf(k).gvr(policyKind), want, map[string]any{"annotations": map[string]any{annotationDecision: decision}})
}

// demote takes the label of the latest from all others.
func (s *service) demote(ctx context.Context, gvr schema.GroupVersionResource, have map[string]*metav1.PartialObjectMetadata, latest string) error {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if name == latest || have[name].Labels[labelLatest] != "true" {
			continue
		}
		if err := s.patchMetadata(ctx, gvr, partial(have[name]), map[string]any{"labels": map[string]any{labelLatest: "false"}}); err != nil {
			return err
		}
	}
	return nil
}
