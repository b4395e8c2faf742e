package upgrade

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/placement"
)

// Provider upgrades clusters. It represents a cloud, or software that runs clusters. Its methods
// may be called concurrently, even for the same cluster. They must return when ctx ends, and within
// seconds; longer work must continue in the background. They may use only Name and UID of a
// cluster.
//
// An error is backend.ErrNotFound if there is no such cluster, and backend.ErrPermanent if a retry
// does not help until something is changed. Otherwise it is transient, for example because a region
// is not available. Errors are shown to people.
type Provider interface {
	// Describe returns the current state of a cluster. The caller may change the result. If the result
	// says that an operation has Succeeded, the rest of the result must include the effects of that
	// operation.
	Describe(ctx context.Context, c placement.Cluster) (Cluster, error)
	// Begin begins a change and does not wait for it: from then on Describe reports it. If the last
	// change begun on the cluster has the same ID, Begin returns nil and does nothing, whatever the
	// outcome of that change.
	//
	// After some errors nothing was begun. backend.ErrConflict: something else is under way on the
	// cluster, or nothing can begin now. backend.ErrFenced: a change of the same placement with a
	// greater epoch was requested before. backend.ErrPermanent or ErrNotFound: the change is refused.
	// After any other error the change may or may not have begun, and the caller repeats it with the
	// same ID.
	Begin(ctx context.Context, c placement.Cluster, change Change) error
}

// Watcher is a [Provider] that announces when to describe a cluster. Other providers are polled.
type Watcher interface {
	Provider
	// Watch yields once when it begins, and then whenever the result of Describe may have changed. It
	// ends with ctx or with an error; then the caller watches again.
	Watch(ctx context.Context, c placement.Cluster) iter.Seq2[struct{}, error]
}

// Cluster is the description of a cluster. Versions are semantic versions such as 1.30.2 or
// v1.30.2; the v makes no difference.
type Cluster struct {
	Region string `json:"region,omitempty"`
	// ControlPlane is the current version of the control plane.
	ControlPlane string `json:"controlPlane"`
	// Pools are the node pools; there may be none.
	Pools []Pool `json:"pools,omitempty"`
	// Versions are the Kubernetes versions that the cluster can be upgraded to now, in any order; they
	// may include its current version. Nil means that the provider does not know.
	Versions []string `json:"versions"`
	// Operation is the last change that Begin has begun on the cluster, with its state, even if others
	// have changed the cluster since; nil if there is none.
	Operation *Operation `json:"operation,omitempty"`
	// Busy describes an operation of another operator because of which no change can begin now; empty
	// if there is none.
	Busy string `json:"busy,omitempty"`
	// Healthy reports whether the control plane and all nodes work; Message names the part that does
	// not.
	Healthy bool   `json:"healthy"`
	Message string `json:"message,omitempty"`
}

// Pool is a node pool.
type Pool struct {
	// Name is unique in the cluster.
	Name string `json:"name"`
	// Version is the version of the oldest node, or the version that the pool is being upgraded to.
	Version string `json:"version"`
	// Image is the image of its nodes; empty if it is unknown.
	Image string `json:"image,omitempty"`
	// Family distinguishes the images of different kinds of nodes, for example by the operating
	// system; empty if all nodes are of one kind.
	Family string `json:"family,omitempty"`
	// Images are the images of its family that the pool can use in its region, newest first.
	Images []string `json:"images,omitempty"`
}

// OperationState is the state of an operation.
type OperationState string

// States of an operation.
const (
	Running   OperationState = "Running"
	Succeeded OperationState = "Succeeded"
	Failed    OperationState = "Failed"
)

// Operation is a change that was begun.
type Operation struct {
	// Change is the change that Begin received.
	Change Change         `json:"change"`
	State  OperationState `json:"state"`
	// Message describes the progress, or why the operation failed.
	Message string `json:"message,omitempty"`
}

// Part is a part of a cluster.
type Part string

// Parts of a cluster, in the order of their upgrades.
const (
	ControlPlane Part = "ControlPlane"
	Nodes        Part = "Nodes"
)

// Change is one operation that a provider is asked to perform. A provider keeps all of it with the
// operation and returns it.
type Change struct {
	// ID identifies a change of a cluster: at most 128 characters, letters, digits, dots and hyphens.
	ID string `json:"id"`
	// Placement and Epoch are for fencing: if a change arrives after a change of the same placement
	// with a greater epoch, it is refused. A provider that cannot store the epoch of the last change
	// ignores it.
	Placement string `json:"placement,omitempty"`
	Epoch     int64  `json:"epoch,omitempty"`
	// Part is the part to change now, according to Goal. If nodes get a version and an image, the
	// provider must change both at once, or the version first.
	Part Part `json:"part,omitempty"`
	// Goal is the run's goal for the whole cluster, for this change and others.
	Goal Goal `json:"goal,omitzero"`
}

// Goal is the desired state of a cluster, completely resolved.
type Goal struct {
	// ControlPlane is the version that the control plane gets; if empty, it is unchanged.
	ControlPlane string `json:"controlPlane,omitempty"`
	// Pools are the node pools to change; others are unchanged.
	Pools []PoolGoal `json:"pools,omitempty"`
}

// PoolGoal is the desired state of a node pool; empty fields are left unchanged.
type PoolGoal struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
}
