// Package snapshot answers WHAT: it freezes the objects that are rolled out.
//
// [Select] reads the objects that a placement's selectors name from a [Source], if [Rules] allow
// them. [Capture] strips the fields that a server owns (see [Clean]) and takes objects out of
// envelopes. [NewSet] sorts them, gives each its canonical JSON and digest, and digests the
// whole. A [Snapshot] names such a set under a placement and an index. Sets are
// content-addressed: two snapshots that share an object share its bytes.
//
// A set is stored as its bodies, its pages of items and one root that names the pages. The end of a
// page depends only on the names in it, so if one object in ten thousand changes, one body, one
// page and one root are stored anew. A reader checks each of them with [Verify] first. The digests
// form a chain: [Snapshot].Digest covers the digest of the root, which is [Set].Digest; the root
// has the digests of the pages, and a page has the digests of its bodies.
//
// The host implements [Source] and the read function of [ReadItems]. Everything else is a pure
// function, safe for concurrent use while its arguments are not changed. Neighbours: package
// placement picks the clusters; package fleet stores snapshots and assigns their indexes.
package snapshot

import (
	"context"
	"iter"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Selector picks objects, in the terms of a ClusterResourcePlacement's resourceSelectors. Version
// and Kind are required. At most one of Name and LabelSelector may be set; with neither, every
// object of the kind is picked. Scope says which objects a picked Namespace brings along. Namespace
// restricts the selector to the objects of one namespace, and so to namespaced kinds.
type Selector struct {
	Group         string                `json:"group"`
	Version       string                `json:"version"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	Scope         Scope                 `json:"selectionScope,omitempty"`
}

// Scope says which objects come along with a Namespace that a [Selector] picks. Empty is
// [NamespaceWithResources]. A selector of another kind brings no further objects, and other
// scopes are errors for it, see [ValidateSelectors].
type Scope string

// The scopes of a selector.
const (
	// NamespaceWithResources brings every object in the namespace. It is the
	// default.
	NamespaceWithResources Scope = "NamespaceWithResources"
	// NamespaceOnly brings the Namespace alone.
	NamespaceOnly Scope = "NamespaceOnly"
	// NamespaceWithResourceSelectors brings the Namespace and the objects in it that the other
	// selectors pick; objects in other namespaces are left out. The selector must name the
	// Namespace, which must exist, and must be the only selector of Namespaces.
	NamespaceWithResourceSelectors Scope = "NamespaceWithResourceSelectors"
)

// Rules say which objects may be placed, whatever the selectors pick. Each rule restricts the
// objects that [Propagates] allows; the zero value restricts nothing. For example, a host whose
// hub runs its own workloads lists PersistentVolumeClaim in Never, because the volume behind a
// claim is on the hub.
//
// If an excluded object is picked by a label or because its Namespace is picked, the snapshot omits
// it. If an earlier snapshot had it, the next rollout removes it from clusters. If a selector names
// an excluded object, or an envelope contains it, that is an error.
type Rules struct {
	// Reserved are namespaces that are never placed, and neither are the objects in them.
	Reserved []string
	// Never are kinds that are never placed.
	Never []GroupKind
	// Only lists the kinds that are placed; empty means all kinds.
	Only []GroupKind
}

// GroupKind names a kind in all its versions. Without a Kind it names every kind of its group,
// which then must not be the core group.
type GroupKind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// Query selects the objects that [Select] reads from a [Source]. With an empty Kind and a Namespace
// it matches every namespaced object in that namespace. With an empty Name it matches every object
// of the kind. An empty Namespace restricts nothing.
type Query struct {
	Group, Version, Kind string
	Namespace, Name      string
}

// Source is the place from which a snapshot's objects are read: a hub cluster, files, a
// repository.
//
// Objects yields every object that matches the query, in any order; no match is not an error.
// After an error it yields nothing more. The caller does not change the objects, and may keep
// them. Objects may be called concurrently.
type Source interface {
	Objects(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error]
}

// SourceFunc makes a function a [Source].
type SourceFunc func(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error]

// Objects calls f.
func (f SourceFunc) Objects(ctx context.Context, q Query) iter.Seq2[*unstructured.Unstructured, error] {
	return f(ctx, q)
}

// ID names an object in a cluster. Group, Kind, Namespace and Name identify the object; Version
// only says in which version it is written.
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
	// Envelope names the envelope of the object; nil if there was none, or if it is unknown. Neither
	// pages nor digests cover it: see [Set.Origins].
	Envelope *ID `json:"envelope,omitempty"`
}

// Unplaced is an object of an envelope that no cluster gets, while the others are placed. It is
// part of a set so that every cluster can report it.
type Unplaced struct {
	// ID has a Name, otherwise GenerateName is set.
	ID
	GenerateName string         `json:"generateName,omitempty"`
	Reason       UnplacedReason `json:"reason,omitempty"`
	// Envelope is the envelope that the object is in.
	Envelope ID `json:"envelope"`
	// First is set for the reason Duplicated: the envelope whose object is placed instead, or nil if a
	// selector picks the object that is placed.
	First *ID `json:"first,omitempty"`
}

// UnplacedReason says why an object of an envelope is not placed.
type UnplacedReason string

// The reasons of an [Unplaced] object.
const (
	// NoName is the reason for an object with a generateName and no name: a server would create
	// another object on each apply.
	NoName UnplacedReason = ""
	// Duplicated is the reason for an object that a selector picks, too, or that an earlier envelope
	// contains.
	Duplicated UnplacedReason = "Duplicated"
	// WrongScope is the reason for a namespaced object in a ClusterResourceEnvelope, and for an
	// object in a ResourceEnvelope that is cluster-scoped or in another namespace.
	WrongScope UnplacedReason = "WrongScope"
)

// Omission counts the objects of one kind that a capture left out for one reason, or the placed
// objects of one kind from which it left out a field.
type Omission struct {
	GroupKind
	Reason OmissionReason `json:"reason"`
	// Field is the path of the field, for example spec.replicas; empty for whole objects.
	Field string `json:"field,omitempty"`
	// Count is the number of objects. It is 0 if the rules exclude the kind and the source therefore
	// reads no objects of it in a picked Namespace. The kind * means all kinds that [Rules].Only does
	// not name.
	Count int `json:"count"`
	// Names are the first names of the objects, ascending, at most MaxOmitted.
	Names []string `json:"names,omitempty"`
}

// OmissionReason says why a capture left out an object or a field.
type OmissionReason string

// The reasons of an [Omission].
const (
	// EveryCluster is the reason for objects that every cluster makes itself, or that are the state
	// of the hub: see [Propagates].
	EveryCluster OmissionReason = "EveryCluster"
	// BeingDeleted is the reason for objects with a deletionTimestamp.
	BeingDeleted OmissionReason = "BeingDeleted"
	// Reserved is the reason for reserved namespaces and for the objects in them.
	Reserved OmissionReason = "Reserved"
	// Excluded is the reason for kinds that the rules of the host exclude.
	Excluded OmissionReason = "Excluded"
	// OwnedOnHub is the reason for objects that a controller of the hub made for a selected object,
	// because each cluster's controller makes its own.
	OwnedOnHub OmissionReason = "OwnedOnHub"
	// BoundOnHub is the reason for fields, and for objects, that controllers of the hub wrote for the
	// hub only: Secrets with tokens of ServiceAccounts, and owned Jobs, ReplicaSets and
	// ControllerRevisions.
	BoundOnHub OmissionReason = "BoundOnHub"
	// NoWorkload is the reason for Pods that no controller made. A workload that makes them can be
	// placed.
	NoWorkload OmissionReason = "NoWorkload"
	// NotSet is the reason for fields that nobody set and that the API server of the hub filled in.
	NotSet OmissionReason = "NotSet"
	// Missing is the reason for objects that a selector names although they do not exist or are being
	// deleted. The next rollout removes them from clusters.
	Missing OmissionReason = "Missing"
	// More stands for all omissions beyond the limit of a snapshot.
	More OmissionReason = "More"
)

// MaxOmissions is the maximum number of omissions in a snapshot, and MaxOmitted is the maximum
// number of objects that each of them names.
const (
	MaxOmissions = 12
	MaxOmitted   = 3
)

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
	// Envelopes is the number of envelopes that the capture unpacked. It is not part of the set: a
	// stored set has 0.
	Envelopes int
	// Omitted lists the omissions of the capture, at most MaxOmissions, unexpected ones first. It is
	// not part of the set.
	Omitted []Omission
}

// Snapshot is the record of a frozen [Set], which belongs to a placement and has an index there.
type Snapshot struct {
	Placement string `json:"placement"`
	// Index starts at 0 and is never reused, even after the snapshot is deleted.
	Index int `json:"index"`
	// Set is the digest of the objects, before overrides.
	Set string `json:"set"`
	// Overrides is the digest of the overrides when the snapshot was taken; empty if there were
	// none. A rollback restores them.
	Overrides string `json:"overrides,omitempty"`
	// Digest covers Set and Overrides: see [New].
	Digest string `json:"digest"`
	// Objects is the number of objects in Set. Envelopes is the number of envelopes from which some of
	// them came.
	Objects   int `json:"objects"`
	Envelopes int `json:"envelopes,omitempty"`
	// Enveloped exists to read records of earlier versions, and is not used.
	Enveloped []GroupKind `json:"enveloped,omitempty"`
	// Origins is the digest of the document that maps objects to their envelopes, see [Set.Origins];
	// empty if there were no envelopes. Older snapshots have Envelopes and no Origins. Digest does
	// not cover it.
	Origins string `json:"origins,omitempty"`
	// Unplaced are the Unplaced objects of Set, at most [MaxUnplaced].
	Unplaced []Unplaced `json:"unnamed,omitempty"`
	// Omitted are the omissions of Set when the snapshot was taken, at most [MaxOmissions]. Digest
	// does not cover them.
	Omitted []Omission `json:"omitted,omitempty"`
	// Repeats is the number of the placement's snapshots, up to and including this one, that differ
	// from the snapshot before them in overrides alone: see [Snapshot.ObjectsIndex]. Digest does not
	// cover it.
	Repeats int       `json:"repeats,omitempty"`
	TakenAt time.Time `json:"takenAt"`
}

// ObjectsIndex is the index of the objects before overrides. It starts at 0, and consecutive
// snapshots that differ in overrides alone share it. The Fleet API calls it the index of a
// resource snapshot.
func (s Snapshot) ObjectsIndex() int { return s.Index - s.Repeats }

// Name returns the name of the snapshot in the notation of the Fleet API, for example
// example-placement-0-snapshot.
func (s Snapshot) Name() string {
	return s.Placement + "-" + strconv.Itoa(s.Index) + "-snapshot"
}
