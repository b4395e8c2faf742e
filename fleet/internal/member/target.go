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

// target is one object of an update.
type target struct {
	id    snapshot.ID
	phase snapshot.Phase
	// want is the desired object; nil for an object that must be removed.
	want *revisionItem
	// entry is the object's entry in the list of the ledger that has it.
	entry ledgerObject
	in    ledgerList

	// live is the object on the member; nil if it does not exist.
	live *unstructured.Unstructured
	// ended is how the object ended, if it did its work once and is gone. Then it must not be applied
	// again.
	ended once.End
	// adopted is decided from entry and live. disowned reports that the ledger had the object as
	// created, and that it is no longer proven.
	adopted, disowned bool
	// failed is the last call that failed for this object only.
	failed failedCall
	// unmarked is why the member does not have the mark of the takeover on the object.
	unmarked error
	// fate is what the update did to the object.
	fate fate
	// dropped are the paths of the parts that were dropped from the object, see package lenient.
	dropped []string
	// definition is the progress of a CustomResourceDefinition.
	definition definitionState
}

// ledgerList is the list of a ledger that has an object.
type ledgerList int

const (
	inNoList ledgerList = iota
	inObjects
	inSuspects // and not in Objects
)

// listed reports whether the ledger has the object in Objects.
func (t *target) listed() bool { return t.in == inObjects }

// isSuspect reports whether the ledger has the object in Suspects only.
func (t *target) isSuspect() bool { return t.in == inSuspects }

// kind is the kind that a CustomResourceDefinition defines, in all its versions.
type kind struct{ group, kind string }

// definitionState is the progress of a CustomResourceDefinition in an update.
type definitionState int

const (
	isAwaited  definitionState = iota
	isServed                   // the definition is established
	isHopeless                 // the wait for it ended without success
)

// targetsOf returns the objects of a revision, which may be nil, and of a ledger, in the order of
// application.
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
		t.entry, t.in = o, inObjects
	}
	for _, o := range l.Suspects {
		if t := add(o.ID); !t.listed() {
			t.entry, t.in = o, inSuspects
		}
	}
	slices.SortStableFunc(all, func(a, b *target) int { return cmp.Or(cmp.Compare(a.phase, b.phase), a.id.Compare(b.id)) })
	return all
}

// recorded returns the entry of an object whose entry stays in the ledger. An object that was once
// adopted never counts as created again.
func (t *target) recorded() ledgerObject {
	o := t.entry
	o.Adopted = o.Adopted || t.adopted
	return o
}

// digest returns the digest of the desired version, or "" if the object is undesired.
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

// owned reports whether an object on a member belongs to the placement: because of its digest, or
// because it has the uid in the ledger.
func owned(t *target, placement string) bool {
	if t.live == nil {
		return false
	}
	return carries(t.live, placement) || t.listed() && t.entry.UID != "" && t.entry.UID == uidOf(t.live)
}

// precondition returns the precondition that an object is unchanged since it was read.
func (t *target) precondition() backend.Precondition {
	if t.live == nil {
		return backend.Precondition{Absent: true}
	}
	return backend.Precondition{UID: string(t.live.GetUID()), ResourceVersion: t.live.GetResourceVersion()}
}

// refusal returns an error if other placements apply the object already and it must not be shared.
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

// settled reports whether an update has nothing to do for an object.
func (t *target) settled(a *Assignment) bool {
	switch {
	case t.want != nil:
		return t.listed() && (t.ended != "" || t.live != nil && t.asDesired(a))
	case t.listed():
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

// desired returns the object to apply. It omits ignored fields, which stay with their other
// writers, and marks an object that the placement did not create as adopted.
func (t *target) desired(a *Assignment) *unstructured.Unstructured {
	obj := drift.Strip(t.want.obj, t.live, a.Strategy.Ignore, manager(a.Placement))
	if t.adopted {
		obj = adopted(obj, a.Placement, t.want.Digest)
	}
	return obj
}

// stale returns how an object differs from the state that the ledger proves; "" if it does not.
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

// lingers reports whether an object was deleted and is not gone yet. Objects that its deletion
// needs, such as the workload that removes its finalizer, must stay until then.
func (t *target) lingers(placement string) bool {
	return t.live != nil && isTerminating(t.live) && carries(t.live, placement) && (!isNamespace(t.id) || terminationBlocker(t.live) != "")
}

// remains says that an object is still there, with the reason if it is known.
func (t *target) remains() string {
	text := t.id.String() + " is still there"
	switch {
	case t.live == nil: // it could not be read
		return t.id.String() + " may still be there"
	case !isTerminating(t.live):
		return text
	case terminationBlocker(t.live) == "":
		return text + ", it is being deleted"
	}
	return text + ", its deletion waits for " + terminationBlocker(t.live)
}

// terminationBlocker returns why an object that is being deleted is still there; "" if no reason is
// known. A namespace without a known reason counts as removed: its controller empties it, however
// long that takes.
func terminationBlocker(obj *unstructured.Unstructured) string {
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
			if c["status"] == "True" && slices.Contains(blockingConditions, kind) {
				reasons = append(reasons, guard.Clip(message))
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// conditionsOf returns the entries of status.conditions that are maps.
func conditionsOf(obj *unstructured.Unstructured) (out []map[string]any) {
	field, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	conditions, _ := field.([]any)
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// blockingConditions are the conditions that the namespace controller sets if a namespace cannot
// go.
var blockingConditions = []string{ //nolint:gochecknoglobals // a constant table
	"NamespaceFinalizersRemaining", "NamespaceContentRemaining", "NamespaceDeletionContentFailure",
	"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
}

// unread returns the error of the first object that could not be read. Callers that compare need
// all objects.
func unread(targets []*target) error {
	for _, t := range targets {
		if t.unread() {
			return t.failed.err
		}
	}
	return nil
}

// JoinProblems joins errors and bounds how many problems the result names.
func JoinProblems(problems []error) error {
	const most = 5
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Errorf("and %d more objects: %w", more, backend.ErrPermanent))
	}
	return errors.Join(problems...)
}
