package member

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/once"
	"github.com/slipway-dev/slipway/snapshot"
)

// target is one object that an update is about.
type target struct {
	id    snapshot.ID
	phase snapshot.Phase
	// want is the object as it is to be; nil for one that is to go.
	want *revisionItem
	// entry is what the ledger has, where listed. An object that is in the
	// ledger only as doubtful is doubted.
	entry           ledgerObject
	listed, doubted bool

	// live is the object as the member has it; nil if it does not exist.
	live *unstructured.Unstructured
	// ended is how it ended, if it did its work once and is gone since: then it is not applied again.
	ended once.End
	// adopted is what is decided from entry and live; held is why the strategy
	// forbids to apply it. disowned is that the ledger had it as created.
	adopted  bool
	disowned bool
	held     error
	// failed is the error of a call about it that says nothing of the others, unread
	// that this was the call which reads it: then live is not known.
	failed error
	unread bool
	// problem is why it could not be applied, illness what its health says, "" where
	// it is healthy or was not asked for.
	problem error
	illness string
	// served reports of a definition that it is established, hopeless that this was
	// waited for in vain.
	served, hopeless bool
	// unmarked is why the member does not have the mark of a takeover.
	unmarked error
	// applied reports that this update applied it, before what it was until then;
	// nil where it was created.
	applied bool
	before  *unstructured.Unstructured
	// left are the paths of what it was applied without, see package lenient.
	left []string
}

// kind is what a CustomResourceDefinition defines, in all its versions.
type kind struct{ group, kind string }

// targetsOf returns the objects of a revision, which may be nil, and of a
// ledger, in the order of application.
func targetsOf(rev *Revision, l *ledger) []*target {
	var all []*target
	byKey := map[snapshot.ID]*target{}
	add := func(id snapshot.ID) *target {
		t := byKey[objectKey(id)]
		if t == nil {
			t = &target{id: id, phase: id.Phase()}
			byKey[objectKey(id)], all = t, append(all, t)
		}
		return t
	}
	if rev != nil {
		for i := range rev.items {
			add(rev.items[i].ID).want = &rev.items[i]
		}
	}
	for _, o := range l.Objects {
		t := add(o.ID)
		t.entry, t.listed = o, true
	}
	for _, o := range l.Doubtful {
		if t := add(o.ID); !t.listed {
			t.entry, t.doubted = o, true
		}
	}
	slices.SortStableFunc(all, func(a, b *target) int { return cmp.Or(cmp.Compare(a.phase, b.phase), a.id.Compare(b.id)) })
	return all
}

// recorded is the entry of an object that stays in the ledger as it is there. What
// was given up is not counted as created again.
func (t *target) recorded() ledgerObject {
	o := t.entry
	o.Adopted = o.Adopted || t.adopted
	return o
}

// digest is that of the version that is to be there, empty where none is.
func (t *target) digest() string {
	if t.want == nil {
		return ""
	}
	return t.want.Digest
}

func uidOf(obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	return string(obj.GetUID())
}

// owned reports whether an object on a member is the placement's: by its mark, or
// because it is the very object that the ledger has.
func owned(t *target, placement string) bool {
	if t.live == nil {
		return false
	}
	return carries(t.live, placement) || t.listed && t.entry.UID != "" && t.entry.UID == uidOf(t.live)
}

// asLooked demands that an object still is as it was read.
func (t *target) asLooked() backend.Precondition {
	if t.live == nil {
		return backend.Precondition{Absent: true}
	}
	return backend.Precondition{UID: string(t.live.GetUID()), ResourceVersion: t.live.GetResourceVersion()}
}

// refusal says which other placement has the object, where that is not allowed.
func (t *target) refusal(a *Assignment) error {
	if t.want == nil || t.live == nil || a.shares() {
		return nil
	}
	others := otherPlacements(t.live, a.Placement)
	if len(others) == 0 {
		return nil
	}
	remedy := "take it out of one of them, or allow co-ownership"
	if a.Exclusive {
		remedy = "take it out of one of them"
	}
	return fmt.Errorf("cluster %s: %s is applied by placement %s already: %s: %w",
		a.Cluster.Name, t.id, strings.Join(others[:min(len(others), 3)], ", "), remedy, backend.ErrPermanent)
}

// settled reports whether nothing has to be done about an object.
func (t *target) settled(a *Assignment) bool {
	switch {
	case t.want != nil:
		return t.listed && (t.ended != "" || t.live != nil && t.asDesired(a))
	case t.listed:
		return false
	case t.live == nil || !carries(t.live, a.Placement):
		return true
	}
	return isTerminating(t.live)
}

func (t *target) asDesired(a *Assignment) bool {
	return !isTerminating(t.live) && digestOn(t.live, a.Placement) == t.want.Digest &&
		covers(t.live.Object, t.desired(a).Object)
}

// desired returns the object to apply: what the strategy ignores is left to its
// other writers, and an object that the placement did not create says so.
func (t *target) desired(a *Assignment) *unstructured.Unstructured {
	obj := drift.Strip(t.want.obj, t.live, a.Strategy.Ignore, manager(a.Placement))
	if t.adopted {
		obj = adopted(obj, a.Placement, t.want.Digest)
	}
	return obj
}

// stale says why an object is not what the ledger proves; empty if it is.
func (t *target) stale(placement string) string {
	switch {
	case t.want == nil && t.live != nil && isTerminating(t.live) && !t.lingers(placement):
		return "" // a namespace that its controller empties
	case t.want == nil && t.live != nil && carries(t.live, placement):
		return t.remains()
	case t.want == nil || t.ended != "":
		return ""
	case t.live == nil:
		return fmt.Sprintf("%s is missing", t.id)
	case digestOn(t.live, placement) != t.want.Digest:
		return fmt.Sprintf("%s was changed by another client", t.id)
	}
	return ""
}

// lingers reports whether an object was deleted and is not gone yet. What it needs to
// go, such as the workload that takes away its finalizer, has to stay until then.
func (t *target) lingers(placement string) bool {
	return t.live != nil && isTerminating(t.live) && carries(t.live, placement) && (!isNamespace(t.id) || heldBy(t.live) != "")
}

// remains says that an object is still there, and why if that is known.
func (t *target) remains() string {
	text := t.id.String() + " is still there"
	switch {
	case t.live == nil: // it could not be read
		return t.id.String() + " may still be there"
	case !isTerminating(t.live):
		return text
	case heldBy(t.live) == "":
		return text + ", it is being deleted"
	}
	return text + ", its deletion waits for " + heldBy(t.live)
}

// heldBy says why an object that is being deleted is still there; empty if nothing is known. A namespace that nothing is
// known to hold counts as removed: its controller empties it, however long that takes.
func heldBy(obj *unstructured.Unstructured) string {
	var reasons []string
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		reasons = append(reasons, "finalizer "+guard.Clip(strings.Join(finalizers, ", ")))
	}
	if isNamespace(snapshot.IDOf(obj)) {
		status, _ := obj.Object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			kind, _ := c["type"].(string)
			message, _ := c["message"].(string)
			if c["status"] == "True" && slices.Contains(namespaceHeld, kind) {
				reasons = append(reasons, guard.Clip(message))
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// namespaceHeld are the conditions by which the controller of namespaces says that one cannot go.
var namespaceHeld = []string{ //nolint:gochecknoglobals // a table that nothing writes
	"NamespaceFinalizersRemaining", "NamespaceContentRemaining", "NamespaceDeletionContentFailure",
	"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
}

// unread returns why an object could not be read, for a comparison, which needs all.
func unread(targets []*target) error {
	for _, t := range targets {
		if t.unread {
			return t.failed
		}
	}
	return nil
}

// JoinProblems bounds how many problems an error names.
func JoinProblems(problems []error) error {
	const most = 5
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Errorf("and %d more objects: %w", more, backend.ErrPermanent))
	}
	return errors.Join(problems...)
}
