package apply

import "github.com/slipway-dev/slipway/snapshot"

// FailingReason says why an object fails.
type FailingReason string

// Reasons why an object fails.
const (
	// NotApplied: the object could not be applied, or was changed or removed since.
	NotApplied FailingReason = "NotApplied"
	// NoSuchKind: the cluster does not serve the kind of the object.
	NoSuchKind FailingReason = "NoSuchKind"
	// NotHealthy: the object was applied, and is not healthy or not healthy yet.
	NotHealthy FailingReason = "NotHealthy"
	// HeldDrifted: the object drifted, and the strategy does not restore it.
	HeldDrifted FailingReason = "HeldDrifted"
	// HeldForeign: the object was there before or belongs to another placement, and is not taken
	// over.
	HeldForeign FailingReason = "HeldForeign"
)

// FailingObject is an object that is not on a cluster in the state that an update wants.
type FailingObject struct {
	snapshot.ID
	Reason FailingReason
	// Generation is metadata.generation of the object on the cluster, at the last read; 0 if it
	// does not exist.
	Generation int64
	// Message is the problem, for people. It may quote the status of the object, never another
	// part of it, and is cut at 256 characters.
	Message string
	// Envelope is the envelope that contains the object if no cluster gets it, see
	// snapshot.Unplaced; nil otherwise. The Reason of such an object is the reason of the Unplaced, or
	// NotApplied if it has no name.
	Envelope *snapshot.ID
}

// StatusReport has the status of the objects of a placement on a cluster that has been brought to a
// revision.
type StatusReport struct {
	Placement, Cluster, Revision string
	// Objects are the objects of the revision that exist, belong to the placement and have a
	// status, in the order of application.
	Objects []ObjectStatus
}

// ObjectStatus is the status of one object of a [StatusReport].
type ObjectStatus struct {
	snapshot.ID
	// Status is the status of the object as the cluster reports it. It is untrusted input. The
	// receiver may keep and change it.
	Status map[string]any
	// Enveloped reports whether an envelope brought the object.
	Enveloped bool
}
