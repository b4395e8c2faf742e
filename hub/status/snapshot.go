package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// snapshotPart is how much JSON of resources one snapshot object holds, in
	// bytes; a resource that is larger is alone in one.
	snapshotPart = 800 << 10
	// shownResource is the largest resource that is shown, so that no object is
	// over 1 MiB. The whole of a larger one is only in the store.
	shownResource = 1<<20 - 16<<10
)

// SnapshotFacts are what the objects of a snapshot are made of.
type SnapshotFacts struct {
	// Placement, Namespace and UID are those of the placement's object.
	Placement, Namespace string
	UID                  types.UID
	Snapshot             snapshot.Snapshot
	// Latest reports whether it is the latest of the placement.
	Latest bool
	// Irreversible reports whether nothing is rolled back past it.
	Irreversible bool
	// Tag is how a digest is shown, see fleet.PlacementView.
	Tag func(digest string) string
	// Bodies are the canonical JSON of the resources, in the order of the set.
	Bodies [][]byte
}

// ResourceSnapshots are the objects that show a snapshot: the master and, where
// the resources do not fit into it, its parts.
//
// They are for people to read: what is rolled out comes from the store. So who
// may read snapshots does not see what is in Secrets: every value in one, its
// annotations too, is "(redacted)"; that it changed, the annotation with the hash
// tells, which is keyed, so that no guess can be tested with it. A
// resource of nearly 1 MiB is there with its name and such a hash only.
func ResourceSnapshots(f *SnapshotFacts) ([]*unstructured.Unstructured, error) {
	parts, err := f.parts()
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", f.Snapshot.Name(), err)
	}
	out := make([]*unstructured.Unstructured, len(parts))
	for i, resources := range parts {
		u := f.object(fmt.Sprintf("%s-%d-%d", f.Placement, f.Snapshot.ObjectsIndex(), i-1), resources)
		u.SetAnnotations(map[string]string{api.AnnotationPart: strconv.Itoa(i - 1)})
		if i == 0 {
			f.makeMaster(u, len(parts))
		}
		out[i] = u
	}
	return out, nil
}

// MasterName is the name of the first object of a snapshot, by the index that is shown.
func MasterName(placement string, index int) string {
	return fmt.Sprintf("%s-%d-snapshot", placement, index)
}

// snapshotAt returns the snapshot of an index, nil where it is not among those that are kept, ascending.
func snapshotAt(kept []snapshot.Snapshot, index int) *snapshot.Snapshot {
	i, ok := slices.BinarySearchFunc(kept, index, func(s snapshot.Snapshot, index int) int { return cmp.Compare(s.Index, index) })
	if !ok {
		return nil
	}
	return &kept[i]
}

// ShownIndex is the index that a snapshot is shown with, by its own: as in KubeFleet, snapshots that follow each other and
// differ in overrides alone are shown as one. One that is not kept, or -1 for none, is shown as it is.
func ShownIndex(kept []snapshot.Snapshot, index int) int {
	if s := snapshotAt(kept, index); s != nil {
		return s.ObjectsIndex()
	}
	return index
}

// makeMaster gives the first object what only that has.
func (f *SnapshotFacts) makeMaster(u *unstructured.Unstructured, parts int) {
	u.SetName(MasterName(f.Placement, f.Snapshot.ObjectsIndex()))
	u.SetAnnotations(map[string]string{
		api.AnnotationHash:      f.Tag(f.Snapshot.Set),
		api.AnnotationEnveloped: strconv.Itoa(f.Snapshot.Envelopes),
		api.AnnotationParts:     strconv.Itoa(parts),
	})
	labels := u.GetLabels()
	labels[api.LabelLatest] = strconv.FormatBool(f.Latest)
	if f.Irreversible {
		labels[api.LabelIrreversible] = "true"
	}
	u.SetLabels(labels)
}

func (f *SnapshotFacts) object(name string, resources []any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selectedResources": resources}}}
	in := api.Scope(f.Namespace != "")
	u.SetGroupVersionKind(in.GVK(api.SnapshotKind))
	u.SetNamespace(f.Namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{api.LabelParent: f.Placement, api.LabelResourceIndex: strconv.Itoa(f.Snapshot.ObjectsIndex())})
	u.SetOwnerReferences([]metav1.OwnerReference{OwnedBy(in, api.PlacementKind, f.Placement, f.UID)})
	return u
}

// parts are the resources by the object that shows them, in order; there is one
// object at least.
func (f *SnapshotFacts) parts() ([][]any, error) {
	out, size := [][]any{{}}, 0
	for _, body := range f.Bodies {
		resource, n, err := f.shown(body)
		if err != nil {
			return nil, err
		}
		last := len(out) - 1
		if len(out[last]) > 0 && size+n > snapshotPart {
			out, size, last = append(out, []any{}), 0, last+1
		}
		out[last] = append(out[last], resource)
		size += n
	}
	return out, nil
}

// shown is a resource as people are shown it, and the length of its JSON.
func (f *SnapshotFacts) shown(body []byte) (map[string]any, int, error) {
	obj, err := snapshot.Decode(body)
	if err != nil {
		return nil, 0, err
	}
	shown := redactedSecrets(obj.Object)
	b, err := json.Marshal(shown)
	if err != nil || len(b) > shownResource {
		return f.omitted(obj, body), 0, err
	}
	return shown, len(b), nil
}

// omitted names a resource that is too big to be shown.
func (f *SnapshotFacts) omitted(obj *unstructured.Unstructured, body []byte) map[string]any {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(obj.GroupVersionKind())
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	u.SetAnnotations(map[string]string{api.AnnotationOmitted: fmt.Sprintf("%d bytes, tag %s", len(body), f.Tag(snapshot.Digest(body)))})
	return u.Object
}

// redacted stands for a value that is secret.
const redacted = "(redacted)"

// redactedSecrets is a resource without the values of Secrets, which may stand
// in another resource. It changes nothing of m.
func redactedSecrets(m map[string]any) map[string]any {
	if m["kind"] == "Secret" && m["apiVersion"] == "v1" {
		return redactedSecret(m)
	}
	out := make(map[string]any, len(m))
	for name, v := range m {
		out[name] = redactedValue(v)
	}
	return out
}

func redactedValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return redactedSecrets(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redactedValue(v[i])
		}
		return out
	default:
		return v
	}
}

// redactedSecret keeps the names of what a Secret holds, and what says nothing
// of it. A field that a Secret does not have may be a misspelt one.
func redactedSecret(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		switch name {
		case "apiVersion", "kind", "type", "immutable":
			out[name] = v
		case "metadata":
			out[name] = redactedMetadata(v)
		default:
			out[name] = redactedAll(v)
		}
	}
	return out
}

func redactedMetadata(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return redacted
	}
	m = maps.Clone(m)
	if annotations, ok := m["annotations"]; ok {
		m["annotations"] = redactedAll(annotations)
	}
	return m
}

// redactedAll is a map with none of its values, or nothing of anything else.
func redactedAll(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return redacted
	}
	out := make(map[string]any, len(m))
	for name := range m {
		out[name] = redacted
	}
	return out
}
