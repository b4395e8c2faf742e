// Package snapshot answers WHAT: the objects that are rolled out, frozen.
//
// [Select] reads the objects that a placement's selectors name from a
// [Source], as far as [Rules] allow them. [Capture] strips what a server owns (see
// [Clean]) and takes objects out of envelopes, and [NewSet] puts all in order,
// gives each its canonical JSON and digest, and digests the whole. A
// [Snapshot] names such a set under a placement and an index. Sets are content
// addressed: two snapshots that share an object share its bytes.
//
// A set is stored as its bodies, its pages of items and one root that names the pages. Where a page ends
// depends on the names in it alone, so one changed object in ten thousand costs one body, one page and one
// root. A reader checks each of them with [Verify] first: the digest of the root is [Set].Digest, the root
// names the digests of the pages, a page those of the bodies, and [Snapshot].Digest covers the first of them.
//
// [Source] and what [ReadItems] reads from are the host's. Everything else is a pure function, safe for
// concurrent use while its arguments are not changed. Neighbours: package placement says where the objects
// go; package fleet stores snapshots and hands out their indexes.
package snapshot

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Selector picks objects, in the words of a ClusterResourcePlacement's
// resourceSelectors. Version and Kind are required. Name and LabelSelector
// exclude each other; with neither, every object of the kind is picked. Scope
// says what a Namespace that is picked brings along. Namespace keeps the
// selector to the objects of one namespace, and so to kinds that are in one.
type Selector struct {
	Group         string                `json:"group"`
	Version       string                `json:"version"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	Scope         Scope                 `json:"selectionScope,omitempty"`
}

// Scope says what comes along with a Namespace that a [Selector] picks. Empty is
// [NamespaceWithResources]. A selector of another kind brings nothing along: for it the other scopes are an error, see
// [ValidateSelectors].
type Scope string

// The scopes of a selector.
const (
	// NamespaceWithResources brings every object in the namespace. It is the
	// default.
	NamespaceWithResources Scope = "NamespaceWithResources"
	// NamespaceOnly brings the Namespace alone.
	NamespaceOnly Scope = "NamespaceOnly"
	// NamespaceWithResourceSelectors brings the Namespace and what the other
	// selectors pick in it: what they pick in other namespaces is left out. The
	// selector names the Namespace, which must exist, and is the only one of Namespaces.
	NamespaceWithResourceSelectors Scope = "NamespaceWithResourceSelectors"
)

// Rules say what may be placed at all, whatever the selectors pick. Each of them
// takes something away from what [Propagates] allows; the zero value takes
// nothing. A host whose hub runs workloads of its own, for example, lists
// PersistentVolumeClaim in Never: the volume behind a claim is on the hub.
//
// What they exclude is left out of what a Namespace or a label brings, so that a
// snapshot without it replaces one that had it and its objects are removed from
// clusters; that a selector names it, or that it is in an envelope, is an error.
type Rules struct {
	// Reserved are namespaces that are never placed, nor anything in them.
	Reserved []string
	// Never are kinds that are not placed.
	Never []GroupKind
	// Only are the only kinds that are placed; empty does not restrict.
	Only []GroupKind
}

// GroupKind names a kind in all its versions. Without a Kind it stands for every
// kind of its group, which is not the core group then.
type GroupKind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// Query is what [Select] reads from a [Source]. An empty Kind with a Namespace matches every namespaced
// object in that namespace, an empty Name every object of the kind; an empty Namespace does not restrict.
type Query struct {
	Group, Version, Kind string
	Namespace, Name      string
}

// Source is where a snapshot's objects are read from: a hub cluster, files, a
// repository.
//
// Objects yields every object that matches the query, in any order; none is
// not an error. After an error it yields nothing more. The caller does not
// change the objects it gets, and may keep them. Objects may be called
// concurrently.
type Source interface {
	Objects(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error]
}

// SourceFunc makes a function a [Source].
type SourceFunc func(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error]

// Objects calls f.
func (f SourceFunc) Objects(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error] {
	return f(ctx, q)
}

// ID names an object in a cluster. Group, Kind, Namespace and Name identify the object; Version only says how
// it is written.
type ID struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Item is an object of a [Set]: its name and the sha256 of its canonical JSON,
// in hex.
type Item struct {
	ID
	Digest string `json:"digest"`
	// Envelope names the envelope that the object came in; nil where it came in none, or where that is not
	// known. No page has it, and so no digest: see [Set.Origins].
	Envelope *ID `json:"envelope,omitempty"`
}

// Unplaced is an object of an envelope that no cluster gets. It is part of a set for every cluster to report it: the
// other objects are placed.
type Unplaced struct {
	// ID has a Name, or else there is a GenerateName.
	ID
	GenerateName string         `json:"generateName,omitempty"`
	Reason       UnplacedReason `json:"reason,omitempty"`
	// Envelope is the envelope that the object is in.
	Envelope ID `json:"envelope"`
	// First is the envelope whose object is placed instead of a Duplicated one; nil if a selector picks that object.
	First *ID `json:"first,omitempty"`
}

// UnplacedReason says why an object of an envelope is not placed.
type UnplacedReason string

// Why an object of an envelope is not placed.
const (
	// NoName is the reason for an object with a generateName and no name, because a server makes another object of it
	// each time that it gets it.
	NoName UnplacedReason = ""
	// Duplicated is the reason for an object that a selector picks, too, or that an envelope before this one has.
	Duplicated UnplacedReason = "Duplicated"
	// WrongScope is the reason for an object with a namespace in a ClusterResourceEnvelope, and in a ResourceEnvelope for
	// an object that is in no namespace or in another one.
	WrongScope UnplacedReason = "WrongScope"
)

// String names the object for people, and the envelope.
func (u Unplaced) String() string { return u.ID.String() + " in " + u.Envelope.String() }

// Problem says why the object is not placed, and what would be right.
func (u Unplaced) Problem() string {
	switch u.Reason {
	case Duplicated:
		return "the placement has this object already, " + origin(u.First) + ", and places that one: remove it from one of the two"
	case WrongScope:
		return misplaced(u.Envelope, u.ID)
	case NoName:
	}
	return fmt.Sprintf("it has the generateName %q and no name, so that each time it is applied there would be one more: give it a name", u.GenerateName)
}

// Set is an ordered collection of cleaned objects in canonical form.
type Set struct {
	// Items are in the order of [ID.Compare].
	Items []Item
	// Bodies are the canonical JSON of the objects, parallel to Items.
	Bodies [][]byte
	// Unplaced are objects of envelopes that no cluster gets. The digest covers them.
	Unplaced []Unplaced
	// Digest identifies the set: the sha256 of its encoded [Root], in hex.
	Digest string
	// Envelopes is how many envelopes were taken apart when it was captured, which
	// is no part of it: a set that was stored has none.
	Envelopes int
	// Omitted is what the capture left out, at most MaxOmissions, those first that not everybody expects. It is no part of
	// the set.
	Omitted []Omission
}

// Snapshot is a frozen set under a placement and an index.
type Snapshot struct {
	Placement string `json:"placement"`
	// Index starts at 0 and is never used again, not even after the snapshot
	// is gone.
	Index int `json:"index"`
	// Set is the digest of the objects, before overrides.
	Set string `json:"set"`
	// Overrides is the digest of the overrides as they were when the snapshot
	// was taken; empty when there were none. A rollback brings them back.
	Overrides string `json:"overrides,omitempty"`
	// Digest covers Set and Overrides: see [New].
	Digest string `json:"digest"`
	// Objects counts the objects of Set, Envelopes the envelopes that some of them
	// came in.
	Objects   int `json:"objects"`
	Envelopes int `json:"envelopes,omitempty"`
	// Enveloped is in records of earlier versions, and is not used.
	Enveloped []GroupKind `json:"enveloped,omitempty"`
	// Origins is the digest of what says which of the objects came in which envelope, see [Set.Origins]; empty
	// where none did. Snapshots that were taken before that was recorded have Envelopes and no Origins. Digest
	// does not cover it.
	Origins string `json:"origins,omitempty"`
	// Unplaced are those of Set, at most [MaxUnplaced].
	Unplaced []Unplaced `json:"unnamed,omitempty"`
	// Omitted are those of Set when the snapshot was taken, at most [MaxOmissions]. Digest does not cover them.
	Omitted []Omission `json:"omitted,omitempty"`
	// Repeats counts the snapshots of the placement, this one and those before it, that hold the objects of the one
	// before them, and differ from it in overrides alone: see [Snapshot.ObjectsIndex]. Digest does not cover it.
	Repeats int       `json:"repeats,omitempty"`
	TakenAt time.Time `json:"takenAt"`
}

// ObjectsIndex is the index of what the snapshot holds before overrides: it starts at 0, and snapshots that follow each
// other and differ in overrides alone have the same one. It is what the Fleet API calls the index of a resource snapshot.
func (s Snapshot) ObjectsIndex() int { return s.Index - s.Repeats }

// Name returns the name of the snapshot as the Fleet API prints it, for
// example example-placement-0-snapshot.
func (s Snapshot) Name() string {
	return s.Placement + "-" + strconv.Itoa(s.Index) + "-snapshot"
}
