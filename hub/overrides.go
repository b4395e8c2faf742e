package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

const (
	// overrideHistory is how many versions of an override are shown, as in
	// KubeFleet; more where snapshots need them.
	overrideHistory = 10
	// overrideRecheck is how often it is looked whether they still do.
	overrideRecheck = 10 * time.Minute
)

// overrideRecord is what the store has of an override: its objects hold the
// content, the record the order, so that an index is never used twice.
type overrideRecord struct {
	Format   int               `json:"format"`
	Next     int               `json:"next"`
	Versions []overrideVersion `json:"versions"`
}

const overrideFormat = 1

func overrideRecordKey(k key) string {
	return "hub/override/" + kubefleet.EngineName(k.Namespace, k.Name)
}

// syncOverride shows the versions of an override: one for each time that it was changed, the last ten and those
// that are part of a snapshot which may still be rolled out. Those are also there when the override is not.
func (s *service) syncOverride(ctx context.Context, k key) (time.Duration, error) {
	rec, rev, err := s.overrideRecordOf(ctx, k)
	if err != nil {
		return 0, err
	}
	before := slices.Clone(rec.Versions)
	latest, obj, err := s.latestVersion(k, &rec)
	if err != nil {
		s.notes.warn(obj, "InvalidOverride", "%v", err)
		return 0, nil // every placement that it may concern tells of it too
	}
	needed, err := s.trimVersions(ctx, &rec, latest)
	if err != nil {
		return 0, err
	}
	if !slices.Equal(before, rec.Versions) {
		if err := s.saveOverrideRecord(ctx, k, rec, rev); err != nil {
			return 0, err
		}
	}
	if err := s.showVersions(ctx, k, obj, rec, latest); err != nil {
		return 0, err
	}
	if needed {
		return overrideRecheck, nil
	}
	return 0, nil
}

func (s *service) overrideRecordOf(ctx context.Context, k key) (rec overrideRecord, rev backend.Revision, err error) {
	stored, err := s.store.Get(ctx, overrideRecordKey(k))
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

// saveOverrideRecord saves the record; that of an override which has left nothing is deleted.
func (s *service) saveOverrideRecord(ctx context.Context, k key, rec overrideRecord, rev backend.Revision) error {
	if len(rec.Versions) == 0 {
		return s.store.Delete(ctx, overrideRecordKey(k), rev)
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = s.store.Put(ctx, overrideRecordKey(k), value, rev)
	return err
}

// latestVersion adds the version of the override as it is now, if that is a new
// one, and returns its index; -1 where there is no override any more.
func (s *service) latestVersion(k key, rec *overrideRecord) (int, *unstructured.Unstructured, error) {
	obj := s.object(overrideGVR(scopeOf(k)), k)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return -1, nil, nil
	}
	o, err := s.documents.override(obj)
	if err != nil {
		return -1, obj, err
	}
	now, err := versionOf(obj, o.Override)
	if err != nil {
		return -1, obj, err
	}
	if n := len(rec.Versions); n > 0 && rec.Versions[n-1].Spec == now.Spec {
		return rec.Versions[n-1].Index, obj, nil
	}
	now.Index = rec.Next
	rec.Next++
	rec.Versions = append(rec.Versions, now)
	return now.Index, obj, nil
}

// trimVersions drops versions of which there are too many, and all where there is no override any more, but none
// that a snapshot needs; it reports whether there is such a one.
func (s *service) trimVersions(ctx context.Context, rec *overrideRecord, latest int) (needed bool, err error) {
	keep := overrideHistory
	if latest < 0 {
		keep = 0
	}
	surplus := len(rec.Versions) - keep
	if surplus <= 0 {
		return false, nil
	}
	uses, err := s.frozenOverrides(ctx)
	if err != nil {
		return false, err
	}
	var kept []overrideVersion
	for i, v := range rec.Versions {
		if i >= surplus || uses[v.Content] {
			kept = append(kept, v)
		}
	}
	rec.Versions = kept
	return len(kept) > keep, nil
}

// frozenOverrides are the contents of the overrides in the snapshots that the engine keeps: those that a run or
// a rollback may bring. What is remembered of other snapshots is forgotten.
func (s *service) frozenOverrides(ctx context.Context) (map[string]bool, error) {
	uses, digests := map[string]bool{}, map[any]bool{}
	for _, in := range []scope{clusterScope, namespaceScope} {
		for _, obj := range s.all(in.gvr(placementKind)) {
			view, err := s.engine.View(ctx, kubefleet.EngineName(obj.GetNamespace(), obj.GetName()))
			if errors.Is(err, backend.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, snap := range view.Snapshots() {
				if err := s.contentsOf(ctx, view, snap.Index, snap.Overrides, uses); err != nil {
					return nil, err
				}
				digests[snap.Overrides] = true
			}
		}
	}
	s.overrideContents.Range(func(digest, _ any) bool {
		if !digests[digest] {
			s.overrideContents.Delete(digest)
		}
		return true
	})
	return uses, nil
}

// contentsOf adds the contents of the overrides that a snapshot has frozen under a digest.
func (s *service) contentsOf(ctx context.Context, view *fleet.PlacementView, index int, digest string, into map[string]bool) error {
	if digest == "" {
		return nil
	}
	known, ok := s.overrideContents.Load(digest)
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
		s.overrideContents.Store(digest, contents)
	}
	for _, content := range known.([]string) {
		into[content] = true
	}
	return nil
}

// showVersions makes the object of the latest version, if it is not there as it
// was made, takes the label of the latest from the others, and deletes the objects
// of versions that are not kept.
func (s *service) showVersions(ctx context.Context, k key, obj *unstructured.Unstructured, rec overrideRecord, latest int) error {
	gvr := scopeOf(k).gvr(overrideSnapshotKind)
	have := s.mirrors.of(gvr, k)
	kept := map[string]bool{}
	for _, v := range rec.Versions {
		kept[strconv.Itoa(v.Index)] = true
	}
	if latest >= 0 {
		if err := s.showLatest(ctx, obj, rec.Versions[len(rec.Versions)-1], have[overrideSnapshotName(k.Name, latest)]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		m := have[name]
		switch {
		case !kept[m.Labels[labelOverrideIndex]] || name != k.Name+"-"+m.Labels[labelOverrideIndex]:
			if err := s.removeShown(ctx, gvr, m); err != nil {
				return err
			}
		case m.Labels[labelLatest] == "true" && m.Labels[labelOverrideIndex] != strconv.Itoa(latest):
			if err := s.patchMetadata(ctx, gvr, partial(m), map[string]any{"labels": map[string]any{labelLatest: "false"}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// showLatest makes the object of the latest version. One that somebody changed has
// another generation than the first.
func (s *service) showLatest(ctx context.Context, obj *unstructured.Unstructured, v overrideVersion, have *metav1.PartialObjectMetadata) error {
	gvr := scopeOf(keyOf(obj)).gvr(overrideSnapshotKind)
	switch {
	case have != nil && have.Generation <= 1 && have.Labels[labelLatest] == "true":
		return nil
	case have != nil && have.Generation <= 1:
		return s.patchMetadata(ctx, gvr, partial(have), map[string]any{"labels": map[string]any{labelLatest: "true"}})
	case have != nil:
		if err := s.removeShown(ctx, gvr, have); err != nil {
			return err
		}
	}
	_, err := s.client.Resource(gvr).Namespace(obj.GetNamespace()).Create(ctx, overrideSnapshot(obj, v), metav1.CreateOptions{FieldManager: manager})
	if err == nil {
		s.notes.say(obj, "SnapshotTaken", "version %d: %s", v.Index, overrideSnapshotName(obj.GetName(), v.Index))
	}
	return settled(err)
}
