package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// Annotations and labels of objects on a member.
const (
	// digestMark begins the annotation that holds the object's digest; the placement follows. It is
	// written in one step with the object, and proves that the placement created the object: see
	// created.
	digestMark = "digest.slipway.dev/"
	// adoptedMark follows the digest if the placement did not create the object. It is on the object
	// and not in the ledger alone, so that a ledger which says otherwise does not cause the object's
	// deletion.
	adoptedMark = ",adopted"
	// epochMark begins the annotation that holds a mark; the placement follows. Each placement has its
	// own annotation, so that two placements with the same object do not overwrite each other's mark.
	epochMark = "epoch.slipway.dev/"
	// appliedLabel is a label that earlier versions applied. The next apply removes it, because it is
	// no longer part of the applied fields. Until then it counts as written by a placement. A
	// connection to a member with policies may apply it, see backend/kube/member.FenceManifests.
	appliedLabel = "slipway.dev/applied"
)

// reserved reports whether an object is the namespace of the ledgers or in it.
func reserved(id snapshot.ID) bool {
	return id.Namespace == LedgerNamespace || isNamespace(id) && id.Name == LedgerNamespace
}

func isNamespace(id snapshot.ID) bool {
	return id.Group == "" && id.Kind == "Namespace" && id.Namespace == ""
}

// marked returns obj with the marks of the placement. It removes other marks, and the label of
// earlier versions, which obj may have because a placement applied it on its source cluster.
func marked(obj *unstructured.Unstructured, placement, digest string) *unstructured.Unstructured {
	out, meta := editMetadata(obj)
	annotations := cloneStrings(meta["annotations"])
	maps.DeleteFunc(annotations, func(k string, _ any) bool {
		return strings.HasPrefix(k, digestMark) || strings.HasPrefix(k, epochMark)
	})
	annotations[digestMark+placement] = digest
	meta["annotations"] = annotations
	if labels, _ := meta["labels"].(map[string]any); labels[appliedLabel] != nil {
		labels = maps.Clone(labels)
		delete(labels, appliedLabel)
		meta["labels"] = labels
	}
	return out
}

// editMetadata returns a copy of obj, and the metadata of the copy. The caller may replace fields
// of the metadata; all nested values are shared with obj.
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

// onlyName returns an object with identity only; applying it sets no field.
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

// annotation returns an annotation of an object on a member, or "" if it is missing or not a
// string.
func annotation(obj *unstructured.Unstructured, key string) string {
	v, _ := annotationsOf(obj)[key].(string)
	return v
}

func annotationsOf(obj *unstructured.Unstructured) map[string]any {
	meta, _ := obj.Object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations
}

// digestOn returns the placement's digest on obj, or "" if there is none.
func digestOn(obj *unstructured.Unstructured, placement string) string {
	digest, _ := strings.CutSuffix(annotation(obj, digestMark+placement), adoptedMark)
	return digest
}

// created reports whether obj carries the proof that a placement created it. The
// proof can be forged only by a client that may write the object and so could delete it itself.
func created(obj *unstructured.Unstructured, placement string) bool {
	return carries(obj, placement) && !strings.HasSuffix(annotation(obj, digestMark+placement), adoptedMark)
}

// adopted returns obj, which has the marks of a placement, with a mark that the placement did not
// create it.
func adopted(obj *unstructured.Unstructured, placement, digest string) *unstructured.Unstructured {
	out, meta := editMetadata(obj)
	annotations := cloneStrings(meta["annotations"])
	annotations[digestMark+placement] = digest + adoptedMark
	meta["annotations"] = annotations
	return out
}

// bears reports whether obj has anything that the placement wrote: a mark, the label of earlier
// versions, or fields.
func bears(obj *unstructured.Unstructured, placement string) bool {
	if carries(obj, placement) || annotation(obj, epochMark+placement) != "" {
		return true
	}
	meta, _ := obj.Object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if _, ok := labels[appliedLabel]; ok {
		return true
	}
	fields, _ := meta["managedFields"].([]any)
	return slices.ContainsFunc(fields, func(f any) bool {
		m, _ := f.(map[string]any)
		return m["manager"] == manager(placement) || m["manager"] == marker(placement)
	})
}

// carries reports whether obj has the digest of the placement.
func carries(obj *unstructured.Unstructured, placement string) bool {
	_, ok := annotationsOf(obj)[digestMark+placement]
	return ok
}

// otherPlacements returns the other placements whose digest is on obj, sorted.
func otherPlacements(obj *unstructured.Unstructured, placement string) []string {
	var others []string
	for k := range annotationsOf(obj) {
		if name, ok := strings.CutPrefix(k, digestMark); ok && name != placement {
			others = append(others, guard.Clip(name))
		}
	}
	slices.Sort(others)
	return others
}

// marksOf returns the marks that the placement must remove when it releases obj.
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

// covers reports whether live has every field of want with an equal value: maps by key, lists
// element by element, numbers by value. Other fields of live are ignored. Null and empty maps in
// want demand nothing.
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

// mark is the promise of a leader that takes over an open intent: from now on, no earlier leader
// writes the object. It is the value of an annotation, which has its own field manager and is no
// part of the applied fields.
//
// The order is essential. The new leader marks every existing object that the intent names, and
// only then writes the ledger. A write of the older leader carries the uid and the resourceVersion
// that it read. So the write either lands before the mark, when the member does not know the newer
// epoch yet, or it fails: the older leader then reads the object again, finds a mark newer than its
// own, and stops. If the older leader writes its ledger first, the newer leader finds that ledger
// and begins again. Therefore, once a ledger has an epoch, no older leader changes, deletes or
// releases an object that existed at the takeover.
//
// A missing object cannot be marked. Therefore every write also carries a fence, which demands that
// the ledger has not changed since the leader decided on the write, see session.asLed. A member
// that checks the fence atomically with the write accepts nothing from an older leader after the
// ledger was written, not even creations and marks. It also accepts nothing from a leader that was
// replaced before it wrote the ledger.
//
// On a member without fences, two kinds of writes by an older leader can land later. Neither does
// harm.
//
// First, the older leader may create an object that was missing: there is nothing to mark, and the
// precondition that the object does not exist holds. A leader has only one call in flight to a
// cluster. Once Options.Recheck has passed since it read the ledger, as after a pause that
// outlasted its lease, it reads the ledger before every creation. So it creates one object per
// cluster, and the objects whose creation was not answered before, see session.ofOne. A leader that
// lost its lease without a pause may create objects for at most Options.Recheck. The newer leader
// finds such an object: if it wants the object, it updates it. If not, it lists the object as
// suspect, and removes it at its next read: see ledger.Suspects.
//
// Second, a leader may set its mark after it was replaced and before it wrote the ledger, although
// the leader that it wanted to follow has closed the ledger since. The mark changes nothing but the
// annotation. Its epoch is older than the ledger's, so that no leader heeds it, and there is at
// most one such mark per cluster.
//
// A writer that removes or refuses the annotation removes the promise for that object; the fence
// remains.
type mark struct {
	epoch int64
	// generation is the ledger's number of the takeover. It orders leaders of the same epoch,
	// because one run may hand a cluster to the next.
	generation int64
	// ledger is the uid of the ledger that is taken over. The mark has no meaning for another ledger:
	// either the object was copied, or the ledger was deleted and created again.
	ledger string
}

// String returns the value of the annotation.
func (m mark) String() string { return fmt.Sprintf("%d.%d.%s", m.epoch, m.generation, m.ledger) }

// markOn returns the mark that a takeover for the placement left on an object, or the zero mark if
// there is none or it is malformed.
func markOn(obj *unstructured.Unstructured, placement string) mark {
	epoch, rest, _ := strings.Cut(annotation(obj, epochMark+placement), ".")
	generation, ledger, _ := strings.Cut(rest, ".")
	m := mark{ledger: ledger}
	var errs [2]error
	m.epoch, errs[0] = strconv.ParseInt(epoch, 10, 64)
	m.generation, errs[1] = strconv.ParseInt(generation, 10, 64)
	if errors.Join(errs[:]...) != nil {
		return mark{}
	}
	return m
}

// on returns an object that sets the mark on an object and nothing else.
func (m mark) on(id snapshot.ID, placement string) *unstructured.Unstructured {
	obj := onlyName(id)
	obj.SetAnnotations(map[string]string{epochMark + placement: m.String()})
	return obj
}

// marker is the field manager of a placement's marks. It differs from the manager of the applied
// fields, because that manager would lose every field that the write of a mark omits.
func marker(placement string) string { return "slipway-epoch/" + placement }

// manager is the field manager of the fields that a placement applies.
func manager(placement string) string { return "slipway/" + placement }
