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

// What an object on a member carries.
const (
	// digestMark begins the annotation that holds the object's digest; the
	// placement follows. It is written in one step with the object, and is what
	// proves that the placement created it: see created.
	digestMark = "digest.slipway.dev/"
	// adoptedMark follows the digest where the placement did not create the object.
	// It stands on the object and not in the ledger alone, so that a ledger which
	// says otherwise does not have the object deleted.
	adoptedMark = ",adopted"
	// epochMark begins the annotation that holds a mark; the placement follows.
	// Two placements on one object must not take it from each other, so each
	// has its own.
	epochMark = "epoch.slipway.dev/"
	// appliedLabel is on what earlier versions applied: it goes with the next apply, since it is not applied any
	// more, and counts until then as what a placement wrote. A connection to a member with policies may apply it,
	// see backend/kube/member.FenceManifests.
	appliedLabel = "slipway.dev/applied"
)

// reserved reports whether an object is where the ledgers are.
func reserved(id snapshot.ID) bool {
	return id.Namespace == LedgerNamespace || isNamespace(id) && id.Name == LedgerNamespace
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
	if labels, _ := meta["labels"].(map[string]any); labels[appliedLabel] != nil {
		labels = maps.Clone(labels)
		delete(labels, appliedLabel)
		meta["labels"] = labels
	}
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

// digestOn returns the digest that obj carries of a placement, empty for none.
func digestOn(obj *unstructured.Unstructured, placement string) string {
	digest, _ := strings.CutSuffix(annotation(obj, digestMark+placement), adoptedMark)
	return digest
}

// created reports whether obj carries the proof that a placement created it. The
// proof can be forged by a writer of the object, which could delete it as well.
func created(obj *unstructured.Unstructured, placement string) bool {
	return carries(obj, placement) && !strings.HasSuffix(annotation(obj, digestMark+placement), adoptedMark)
}

// adopted returns obj, which has the marks of a placement, with the mark of one that
// the placement did not create.
func adopted(obj *unstructured.Unstructured, placement, digest string) *unstructured.Unstructured {
	out, meta := editMetadata(obj)
	annotations := cloneStrings(meta["annotations"])
	annotations[digestMark+placement] = digest + adoptedMark
	meta["annotations"] = annotations
	return out
}

// bears reports whether obj has anything that a placement wrote: a mark, or fields.
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

// carries reports whether obj has the digest of a placement.
func carries(obj *unstructured.Unstructured, placement string) bool {
	_, ok := annotationsOf(obj)[digestMark+placement]
	return ok
}

// otherPlacements returns the other placements whose digest obj carries.
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

// covers reports whether live has every field of want with an equal value: maps
// by key, lists element by element, numbers by value. What live has besides is
// not compared; null and empty maps in want ask for nothing.
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

// mark is the promise of a leader that takes over an open intent: no leader before
// it writes the object any more. It is the value of an annotation, which has a
// field manager of its own and is no part of what is applied.
//
// The order is what counts. The new leader marks every object that exists and
// that the intent names, and only then writes the ledger. A write of the older
// leader carries the uid and the resourceVersion that it read, so it lands
// before the mark, when the member does not know the newer epoch yet, or never:
// a leader that reads the object again finds the mark, and stops at one that is newer than
// its own. Should the older leader write its ledger first, the newer one finds
// that and begins again. So once a ledger has an epoch, no older leader changes,
// deletes or releases an object that existed when it was taken over.
//
// What is missing has nothing to mark. Every write therefore carries a fence, too:
// that the ledger still is as it was when the write was decided, see session.asLed. A
// member that heeds fences in the step of the write accepts nothing of an older
// leader once the ledger was written, creations and marks included, and of one that
// was replaced before it wrote the ledger neither.
//
// On a member that knows no fences two writes of an older leader can land later,
// and do no harm.
//
// One is to create an object that was missing: there is nothing to mark, and
// the demand that it does not exist holds. A leader has one call at a time on its
// way to a cluster. Once Options.Recheck has passed since it read the
// ledger, as it has for one that was paused past its lease, it reads again before
// every object that it creates, so it is one object of each cluster, and those whose
// creation was not answered before, see session.ofOne; one that
// lost its lease and was not paused creates for that long at most. The newer
// leader finds the object where it wants it itself, and makes it what it is to
// be; where it does not, it has it in doubt, and removes it at its next read:
// see ledger.Doubtful.
//
// The other is the mark of a leader that was replaced before it wrote the ledger,
// where the leader that it wanted to follow has closed the ledger meanwhile. It
// changes nothing but the annotation, to an epoch that is older than the ledger's
// and heeded by no leader, and is one of each cluster likewise.
//
// A writer that removes the annotation, or refuses it, takes the promise away for that
// object; the fence remains.
type mark struct {
	epoch int64
	// touch is the ledger's number of the takeover: a leader may follow another
	// of the same epoch, where a run gives a cluster up to the next.
	touch int64
	// ledger is the uid of the ledger that is taken over. The mark means nothing
	// to another one: the object was copied, or the ledger deleted.
	ledger string
}

// String returns the value of the annotation.
func (m mark) String() string { return fmt.Sprintf("%d.%d.%s", m.epoch, m.touch, m.ledger) }

// markOn returns the mark that a takeover for a placement left on an object. What
// is not one, or stands in no relation to a ledger, is none.
func markOn(obj *unstructured.Unstructured, placement string) mark {
	epoch, rest, _ := strings.Cut(annotation(obj, epochMark+placement), ".")
	touch, ledger, _ := strings.Cut(rest, ".")
	m := mark{ledger: ledger}
	var errs [2]error
	m.epoch, errs[0] = strconv.ParseInt(epoch, 10, 64)
	m.touch, errs[1] = strconv.ParseInt(touch, 10, 64)
	if errors.Join(errs[:]...) != nil {
		return mark{}
	}
	return m
}

// on returns what sets the mark on an object and nothing else.
func (m mark) on(id snapshot.ID, placement string) *unstructured.Unstructured {
	obj := onlyName(id)
	obj.SetAnnotations(map[string]string{epochMark + placement: m.String()})
	return obj
}

// marker owns the marks of a placement. It is not the manager of what is
// applied, which would lose all that it does not apply beside the mark.
func marker(placement string) string { return "slipway-epoch/" + placement }

// manager owns the fields that a placement applies.
func manager(placement string) string { return "slipway/" + placement }
