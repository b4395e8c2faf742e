package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

// What an object on a member carries.
const (
	// digestMark begins the annotation that holds the object's digest; the
	// placement follows.
	digestMark = "digest.slipway.dev/"
	// epochMark begins the annotation that holds a mark; the placement follows.
	// Two placements on one object must not take it from each other, so each
	// has its own.
	epochMark = "epoch.slipway.dev/"
	// appliedLabel is on everything that any placement applies.
	appliedLabel = "slipway.dev/applied"
)

// revision is a set that is ready to be applied. It is shared by all clusters
// and never changed.
type revision struct {
	digest string
	items  []revisionItem // in the order of application
}

// revisionItem is an object with the marks of its placement.
type revisionItem struct {
	snapshot.Item
	obj *unstructured.Unstructured
}

// newRevision decodes a verified set and marks its objects.
func newRevision(placement string, set snapshot.Set) (*revision, error) {
	rev := &revision{digest: set.Digest, items: make([]revisionItem, len(set.Items))}
	for i, item := range set.Items {
		obj, err := snapshot.Decode(set.Bodies[i])
		if err == nil && snapshot.IDOf(obj) != item.ID {
			err = fmt.Errorf("the body is that of %s", snapshot.IDOf(obj))
		}
		if err == nil && reserved(item.ID) {
			err = fmt.Errorf("namespace %s holds the engine's own records: no placement may select it", ledgerNamespace)
		}
		if err != nil {
			return nil, inRevision(placement, set.Digest, item.ID.String(), permanent(err))
		}
		rev.items[i] = revisionItem{item, marked(obj, placement, item.Digest)}
	}
	return rev, nil
}

// reserved tells whether an object is where the ledgers are.
func reserved(id snapshot.ID) bool {
	return id.Namespace == ledgerNamespace || isNamespace(id) && id.Name == ledgerNamespace
}

func isNamespace(id snapshot.ID) bool {
	return id.Group == "" && id.Kind == "Namespace" && id.Namespace == ""
}

// marked returns obj with the marks of a placement instead of those it may
// have brought from a cluster where it was applied itself.
func marked(obj *unstructured.Unstructured, placement, digest string) *unstructured.Unstructured {
	out, meta := editMetadata(obj)
	annotations := cloneStrings(meta["annotations"])
	maps.DeleteFunc(annotations, func(k string, _ any) bool {
		return strings.HasPrefix(k, digestMark) || strings.HasPrefix(k, epochMark)
	})
	annotations[digestMark+placement] = digest
	meta["annotations"] = annotations
	labels := cloneStrings(meta["labels"])
	labels[appliedLabel] = "true"
	meta["labels"] = labels
	return out
}

// editMetadata returns a copy of obj whose metadata may be given other
// members; everything below is shared.
func editMetadata(obj *unstructured.Unstructured) (*unstructured.Unstructured, map[string]any) {
	out := maps.Clone(obj.Object)
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	out["metadata"] = meta
	return &unstructured.Unstructured{Object: out}, meta
}

func cloneStrings(v any) map[string]any {
	m, _ := v.(map[string]any)
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	return out
}

// onlyName returns what applies nothing to an object.
func onlyName(id snapshot.ID) *unstructured.Unstructured {
	apiVersion := id.Version
	if id.Group != "" {
		apiVersion = id.Group + "/" + id.Version
	}
	meta := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		meta["namespace"] = id.Namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": id.Kind, "metadata": meta}}
}

// annotation returns an annotation as the member has it; what is no string
// counts as missing.
func annotation(obj *unstructured.Unstructured, key string) string {
	v, _ := annotationsOf(obj)[key].(string)
	return v
}

func annotationsOf(obj *unstructured.Unstructured) map[string]any {
	meta, _ := obj.Object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations
}

// carries tells whether obj has the digest of a placement.
func carries(obj *unstructured.Unstructured, placement string) bool {
	_, ok := annotationsOf(obj)[digestMark+placement]
	return ok
}

// otherPlacements returns the other placements whose digest obj carries.
func otherPlacements(obj *unstructured.Unstructured, placement string) []string {
	var others []string
	for k := range annotationsOf(obj) {
		if name, ok := strings.CutPrefix(k, digestMark); ok && name != placement {
			others = append(others, clip(name))
		}
	}
	slices.Sort(others)
	return others
}

// marksOf are the marks to take from an object that placement gives up.
func marksOf(obj *unstructured.Unstructured, placement string) []string {
	marks := []string{digestMark + placement, epochMark + placement}
	if len(otherPlacements(obj, placement)) == 0 {
		marks = append(marks, appliedLabel)
	}
	return marks
}

func isTerminating(obj *unstructured.Unstructured) bool {
	meta, _ := obj.Object["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil
}

// covers tells whether live has every field of want with an equal value: maps
// by key, lists element by element, numbers by value. What live has besides is
// not looked at; null and empty maps in want ask for nothing.
func covers(live, want any) bool {
	switch want := want.(type) {
	case nil:
		return live == nil
	case map[string]any:
		have, ok := live.(map[string]any)
		return (ok || live == nil) && coversMap(have, want)
	case []any:
		have, ok := live.([]any)
		return ok && coversList(have, want)
	case string:
		have, ok := live.(string)
		return ok && have == want
	case bool:
		have, ok := live.(bool)
		return ok && have == want
	}
	return equalNumbers(live, want)
}

func coversMap(live, want map[string]any) bool {
	for k, v := range want {
		if !covers(live[k], v) {
			return false
		}
	}
	return true
}

func coversList(live, want []any) bool {
	if len(live) != len(want) {
		return false
	}
	for i := range want {
		if !covers(live[i], want[i]) {
			return false
		}
	}
	return true
}

func equalNumbers(a, b any) bool {
	switch x := a.(type) {
	case int64:
		switch y := b.(type) {
		case int64:
			return x == y
		case float64:
			return equalIntFloat(x, y)
		}
	case float64:
		switch y := b.(type) {
		case int64:
			return equalIntFloat(y, x)
		case float64:
			return x == y
		}
	}
	return false
}

// equalIntFloat compares without losing digits.
func equalIntFloat(i int64, f float64) bool {
	return f >= -1<<63 && f < 1<<63 && int64(f) == i && float64(int64(f)) == f
}
