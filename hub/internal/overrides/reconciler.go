// Package overrides reconciles overrides. It shows each version of an override as an override
// snapshot, and finds the overrides that concern a placement and the versions in its snapshots.
package overrides

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler shows the versions of overrides. It owns the override snapshots of both scopes, and
// the records of overrides in the store.
type Reconciler struct {
	*objects.Client
	Engine   *fleet.Engine
	Store    backend.Store
	Clusters *objects.Clusters

	// documents caches the parsed overrides.
	documents objects.Parsed[kubefleet.Override]
	// contents maps the digest of the overrides of a snapshot to the content of each of them.
	contents sync.Map
	// applicable holds the overrides in those snapshots of a placement that clusters were last
	// tried with or that runs bring, by the engine name of the placement.
	applicable sync.Map
	// scopeTold holds the generation of each override for which an event about the scope was
	// emitted, by key.
	scopeTold sync.Map
}

const (
	// overrideHistory is the number of versions of an override that are shown, as in KubeFleet.
	// More are shown if snapshots need them.
	overrideHistory = 10
	// overrideRecheck is the time between two checks whether snapshots still need older versions.
	overrideRecheck = 10 * time.Minute
	// goneRecheck is the pause between two checks that the objects of a deleted override are gone.
	goneRecheck = 50 * time.Millisecond
)

// overrideRecord is the record of an override in the store. The override snapshots hold the content
// of the versions, and the record holds their order, so that no index is used again while a version
// with that index may still be needed.
type overrideRecord struct {
	Format int `json:"format"`
	Next   int `json:"next"`
	// UID is the UID of the object that has the last version. Records of earlier versions of the
	// hub have none.
	UID      types.UID                `json:"uid,omitempty"`
	Versions []status.OverrideVersion `json:"versions"`
}

const overrideFormat = 1

func overrideRecordKey(k api.Key) string {
	return "hub/override/" + kubefleet.EngineName(k.Namespace, k.Name)
}

// Reconcile shows the versions of an override, one for each change: the last ten, and older ones in
// snapshots that may still be rolled out. If the override is deleted, only the versions in such
// snapshots remain.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	rec, rev, err := r.overrideRecordOf(ctx, k)
	if err != nil {
		return 0, err
	}
	gone, err := r.startOver(ctx, k, &rec)
	if err != nil || !gone {
		return goneRecheck, err
	}
	before, uid := slices.Clone(rec.Versions), rec.UID
	latest, obj, err := r.latestVersion(k, &rec)
	if obj == nil {
		r.scopeTold.Delete(k)
	}
	if err != nil {
		r.Recorder.Warning(obj, api.EventInvalidOverride, "%v", err)
		return 0, nil // every placement that it may concern reports the problem, too
	}
	needed, err := r.trimVersions(ctx, &rec, latest)
	if err != nil {
		return 0, err
	}
	if !slices.Equal(before, rec.Versions) || uid != rec.UID {
		if err := r.saveOverrideRecord(ctx, k, rec, rev); err != nil {
			return 0, err
		}
	}
	if err := r.showVersions(ctx, k, obj, rec, latest); err != nil {
		return 0, err
	}
	if needed {
		return overrideRecheck, nil
	}
	return 0, nil
}

func (r *Reconciler) overrideRecordOf(ctx context.Context, k api.Key) (rec overrideRecord, rev backend.Revision, err error) {
	stored, err := r.Store.Get(ctx, overrideRecordKey(k))
	if errors.Is(err, backend.ErrNotFound) {
		return overrideRecord{Format: overrideFormat}, "", nil
	}
	if err != nil {
		return rec, "", err
	}
	if err := json.Unmarshal(stored.Value, &rec); err != nil {
		return rec, "", fmt.Errorf("record %s is none of an override: %w: %w", stored.Key, err, backend.ErrPermanent)
	}
	if rec.Format != overrideFormat {
		return rec, "", fmt.Errorf("record %s has the format %d, and this hub knows %d: %w", stored.Key, rec.Format, overrideFormat, backend.ErrPermanent)
	}
	return rec, stored.Revision, nil
}

// saveOverrideRecord saves the record, or deletes it if it has no versions.
func (r *Reconciler) saveOverrideRecord(ctx context.Context, k api.Key, rec overrideRecord, rev backend.Revision) error {
	if len(rec.Versions) == 0 {
		return r.Store.Delete(ctx, overrideRecordKey(k), rev)
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = r.Store.Put(ctx, overrideRecordKey(k), value, rev)
	return err
}

// startOver counts the versions of an override from 0 again if the override was deleted and created
// again before the deletion was seen. If a snapshot needs an earlier version, the count continues.
// It reports whether the reconcile may go ahead: false means that objects of earlier versions must
// be deleted first.
func (r *Reconciler) startOver(ctx context.Context, k api.Key, rec *overrideRecord) (bool, error) {
	obj := r.Object(api.OverrideGVR(api.ScopeOf(k)), k)
	if obj == nil || rec.UID == "" || rec.UID == obj.GetUID() {
		return true, nil
	}
	before := overrideRecord{Versions: slices.Clone(rec.Versions)}
	if needed, err := r.trimVersions(ctx, &before, -1); err != nil || needed {
		return needed, err
	}
	gvr := api.ScopeOf(k).GVR(api.OverrideSnapshotKind)
	left := r.Mirrored(gvr, k)
	for _, m := range left {
		if err := r.DeleteMirror(ctx, gvr, m); err != nil {
			return false, err
		}
	}
	if len(left) == 0 {
		*rec = overrideRecord{Format: overrideFormat, UID: rec.UID}
	}
	return len(left) == 0, nil
}

// latestVersion adds the current version of the override to the record if it is new, and returns
// its index, or -1 if the override no longer exists.
func (r *Reconciler) latestVersion(k api.Key, rec *overrideRecord) (int, *unstructured.Unstructured, error) {
	obj := r.Object(api.OverrideGVR(api.ScopeOf(k)), k)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return -1, nil, nil
	}
	o, err := r.documents.Of(obj, kubefleet.OverrideOf)
	if err != nil {
		return -1, obj, err
	}
	now, err := status.VersionOf(obj, o.Override)
	if err != nil {
		return -1, obj, err
	}
	rec.UID = obj.GetUID()
	if n := len(rec.Versions); n > 0 && rec.Versions[n-1].Spec == now.Spec {
		return rec.Versions[n-1].Index, obj, nil
	}
	now.Index = rec.Next
	rec.Next++
	rec.Versions = append(rec.Versions, now)
	return now.Index, obj, nil
}

// trimVersions drops surplus versions, or all versions if the override no longer exists. It keeps
// every version that a snapshot needs, and reports whether it kept surplus versions for that
// reason.
func (r *Reconciler) trimVersions(ctx context.Context, rec *overrideRecord, latest int) (needed bool, err error) {
	keep := overrideHistory
	if latest < 0 {
		keep = 0
	}
	surplus := len(rec.Versions) - keep
	if surplus <= 0 {
		return false, nil
	}
	uses, err := r.FrozenOverrides(ctx)
	if err != nil {
		return false, err
	}
	var kept []status.OverrideVersion
	for i, v := range rec.Versions {
		if i >= surplus || uses[v.Content] {
			kept = append(kept, v)
		}
	}
	rec.Versions = kept
	return len(kept) > keep, nil
}

// FrozenOverrides returns the contents of all overrides in the snapshots that the engine keeps,
// which a run or a rollback may bring. It removes the contents of other snapshots from the cache.
func (r *Reconciler) FrozenOverrides(ctx context.Context) (map[string]bool, error) {
	uses, digests := map[string]bool{}, map[string]bool{}
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for _, obj := range r.All(in.GVR(api.PlacementKind)) {
			view, err := r.Engine.Placement(kubefleet.EngineName(obj.GetNamespace(), obj.GetName())).View(ctx)
			if errors.Is(err, backend.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, snap := range view.Snapshots() {
				if err := r.contentsOf(ctx, view, snap.Index, snap.Overrides, uses); err != nil {
					return nil, err
				}
				digests[snap.Overrides] = true
			}
		}
	}
	r.keepContents(digests)
	return uses, nil
}

// keepContents drops all contents from the cache except those with the given digests.
func (r *Reconciler) keepContents(digests map[string]bool) {
	r.contents.Range(func(digest, _ any) bool {
		if !digests[digest.(string)] {
			r.contents.Delete(digest)
		}
		return true
	})
}

// contentsOf adds to into the contents of the overrides that a snapshot has frozen under a digest.
func (r *Reconciler) contentsOf(ctx context.Context, view *fleet.PlacementView, index int, digest string, into map[string]bool) error {
	if digest == "" {
		return nil
	}
	known, ok := r.contents.Load(digest)
	if !ok {
		frozen, err := view.Overrides(ctx, index)
		if err != nil {
			return err
		}
		var contents []string
		for _, o := range frozen {
			content, _, err := placement.OverridesDigest([]placement.Override{o})
			if err != nil {
				return err
			}
			contents = append(contents, content)
		}
		known = contents
		r.contents.Store(digest, contents)
	}
	for _, content := range known.([]string) {
		into[content] = true
	}
	return nil
}

// showVersions creates the object of the latest version if it is missing or was changed, sets the
// latest label of all other objects to false, and deletes the objects of versions that are not
// kept.
func (r *Reconciler) showVersions(ctx context.Context, k api.Key, obj *unstructured.Unstructured, rec overrideRecord, latest int) error {
	gvr := api.ScopeOf(k).GVR(api.OverrideSnapshotKind)
	have := r.Mirrored(gvr, k)
	kept := map[string]bool{}
	for _, v := range rec.Versions {
		kept[strconv.Itoa(v.Index)] = true
	}
	if latest >= 0 {
		if err := r.showLatest(ctx, obj, rec.Versions[len(rec.Versions)-1], have[status.OverrideSnapshotName(k.Name, latest)]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		m := have[name]
		switch {
		case !kept[m.Labels[api.LabelOverrideIndex]] || name != k.Name+"-"+m.Labels[api.LabelOverrideIndex]:
			if err := r.DeleteMirror(ctx, gvr, m); err != nil {
				return err
			}
		case m.Labels[api.LabelLatest] == "true" && m.Labels[api.LabelOverrideIndex] != strconv.Itoa(latest):
			if err := r.PatchMetadata(ctx, gvr, objects.Partial(m), map[string]any{"labels": map[string]any{api.LabelLatest: "false"}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// showLatest creates the object of the latest version. It replaces an object with a generation
// above 1, because another client has changed that object.
func (r *Reconciler) showLatest(ctx context.Context, obj *unstructured.Unstructured, v status.OverrideVersion, have *metav1.PartialObjectMetadata) error {
	gvr := api.ScopeOf(api.KeyOf(obj)).GVR(api.OverrideSnapshotKind)
	switch {
	case have != nil && have.Generation <= 1 && have.Labels[api.LabelLatest] == "true":
		return nil
	case have != nil && have.Generation <= 1:
		return r.PatchMetadata(ctx, gvr, objects.Partial(have), map[string]any{"labels": map[string]any{api.LabelLatest: "true"}})
	case have != nil:
		if err := r.DeleteMirror(ctx, gvr, have); err != nil {
			return err
		}
	}
	_, err := r.Dynamic.Resource(gvr).Namespace(obj.GetNamespace()).Create(ctx, status.OverrideSnapshot(obj, v), metav1.CreateOptions{FieldManager: api.Manager})
	if err == nil {
		r.Recorder.Normal(obj, api.EventSnapshotTaken, "version %d: %s", v.Index, status.OverrideSnapshotName(obj.GetName(), v.Index))
	}
	return objects.Settled(err)
}
