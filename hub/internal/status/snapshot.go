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
	// snapshotPart is the maximum JSON of resources in one snapshot object, in bytes; a larger
	// resource has an object of its own.
	snapshotPart = 800 << 10
	// shownResource is the size of the largest resource that is shown, in bytes, so that no object
	// exceeds 1 MiB. Only the store has larger resources.
	shownResource = 1<<20 - 16<<10
)

// SnapshotFacts are the input of [ResourceSnapshots].
type SnapshotFacts struct {
	// Placement, Namespace and UID are fields of the placement's object.
	Placement, Namespace string
	UID                  types.UID
	Snapshot             snapshot.Snapshot
	// Latest reports whether this is the latest snapshot of the placement.
	Latest bool
	// Irreversible reports whether rollbacks to snapshots before this one are forbidden.
	Irreversible bool
	// Tag returns the shown substitute for a digest, see fleet.PlacementView.
	Tag func(digest string) string
	// Bodies are the canonical JSON of the resources, in the order of the set.
	Bodies [][]byte
}

// ResourceSnapshots returns the objects that show a snapshot: the master and, if the resources do
// not fit into it, its parts.
//
// The objects are for people; rollouts read the store. They hide the content of Secrets from people
// with the right to read snapshots: each value of a Secret, including its annotations, is
// "(redacted)". The annotation with the hash still shows whether a value changed; the hash is
// keyed, so that it cannot be used to test guesses. A resource of nearly 1 MiB appears only with
// its name and such a hash.
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

// MasterName returns the name of the first object of a snapshot, for its shown index.
func MasterName(placement string, index int) string {
	return fmt.Sprintf("%s-%d-snapshot", placement, index)
}

// snapshotAt returns the snapshot of an index, nil if kept does not have it; kept is ascending.
func snapshotAt(kept []snapshot.Snapshot, index int) *snapshot.Snapshot {
	i, ok := slices.BinarySearchFunc(kept, index, func(s snapshot.Snapshot, index int) int { return cmp.Compare(s.Index, index) })
	if !ok {
		return nil
	}
	return &kept[i]
}

// ShownIndex returns the shown index of the snapshot of an index: as in KubeFleet, consecutive
// snapshots that differ only in overrides share one. If the snapshot is not kept, or index is -1,
// it returns index.
func ShownIndex(kept []snapshot.Snapshot, index int) int {
	if s := snapshotAt(kept, index); s != nil {
		return s.ObjectsIndex()
	}
	return index
}

// makeMaster sets the name, the annotations and the labels that only the first object has.
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

// parts returns the resources of each object, in order; there is at least one object.
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

// shown returns the shown form of a resource and the length of its JSON.
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

// omitted returns the substitute for a resource that is too large to show.
func (f *SnapshotFacts) omitted(obj *unstructured.Unstructured, body []byte) map[string]any {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(obj.GroupVersionKind())
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	u.SetAnnotations(map[string]string{api.AnnotationOmitted: fmt.Sprintf("%d bytes, tag %s", len(body), f.Tag(snapshot.Digest(body)))})
	return u.Object
}

// redacted is the placeholder for a secret value.
const redacted = "(redacted)"

// redactedSecrets returns a copy of the resource without the values of Secrets, which may be nested
// in other resources. It does not change m.
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

// redactedSecret returns a Secret with the names of its values, and with the fields that reveal
// nothing. It hides every other field, because that may be a misspelt field with a secret value.
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

// redactedAll returns a map with placeholders for all values, and the placeholder for anything
// else.
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
