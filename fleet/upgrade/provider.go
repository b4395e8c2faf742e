package upgrade

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/placement"
)

// Provider is what upgrades clusters: a cloud, or software that runs clusters. Its
// methods may be called concurrently, also for the same cluster, return when ctx
// ends, and take seconds at most: what takes longer goes on by itself. Of a cluster,
// Name and UID are set, and nothing else is to be relied on.
//
// An error is backend.ErrNotFound where there is no such cluster, backend.ErrPermanent
// where trying again does not help until something is changed, and otherwise
// transient, for example because a region is not available. Errors are shown to people.
type Provider interface {
	// Describe says how a cluster is now. What it returns is the caller's. Where it calls
	// an operation Succeeded, the rest is not older than that.
	Describe(ctx context.Context, c placement.Cluster) (Cluster, error)
	// Begin begins a change and does not wait for it: Describe tells of it from then on.
	// Where the last change that was begun on the cluster has the same ID, it returns nil
	// and does nothing else, whatever became of that.
	//
	// Nothing was begun where the error is backend.ErrConflict: something else is under
	// way on the cluster, or nothing can begin now; backend.ErrFenced: a change of the same
	// placement with a greater epoch was asked for before; backend.ErrPermanent or
	// ErrNotFound: the change is refused. After any other error the change may have
	// begun or not, and the caller asks again with the same ID.
	Begin(ctx context.Context, c placement.Cluster, change Change) error
}

// Watcher is a [Provider] that can tell when to describe a cluster. Others are asked
// at intervals.
type Watcher interface {
	Provider
	// Watch yields once at its beginning and then whenever Describe may return something
	// else. It ends with ctx or with an error, after which the caller watches again.
	Watch(ctx context.Context, c placement.Cluster) iter.Seq2[struct{}, error]
}

// Cluster is how a cluster was described. Versions are semantic ones, as 1.30.2 or
// v1.30.2, and the v makes no difference.
type Cluster struct {
	Region string `json:"region,omitempty"`
	// ControlPlane is the version that the control plane has.
	ControlPlane string `json:"controlPlane"`
	// Pools are the node pools; there may be none.
	Pools []Pool `json:"pools,omitempty"`
	// Versions are the Kubernetes versions that the cluster can be given now, in any
	// order, with the one that it has or without; nil where the provider does not know.
	Versions []string `json:"versions"`
	// Operation is the last change that Begin has begun on the cluster, and what became of
	// it, whatever others have done since; nil for none.
	Operation *Operation `json:"operation,omitempty"`
	// Busy is what another operator is doing to the cluster now, so that no change can
	// begin; empty for nothing.
	Busy string `json:"busy,omitempty"`
	// Healthy reports whether the control plane and all nodes work; Message says what does
	// not.
	Healthy bool   `json:"healthy"`
	Message string `json:"message,omitempty"`
}

// Pool is a node pool.
type Pool struct {
	// Name is unique in the cluster.
	Name string `json:"name"`
	// Version is that of the oldest node, or the one that the pool is on its way to.
	Version string `json:"version"`
	// Image is what its nodes were made from; empty where that is not known.
	Image string `json:"image,omitempty"`
	// Family tells the images of one kind of node from those of another, for example by
	// the operating system; empty where all nodes are of one kind.
	Family string `json:"family,omitempty"`
	// Images are those of its family that the pool can be given in its region, newest
	// first.
	Images []string `json:"images,omitempty"`
}

// OperationState is how far an operation is.
type OperationState string

// The states of an operation.
const (
	Running   OperationState = "Running"
	Succeeded OperationState = "Succeeded"
	Failed    OperationState = "Failed"
)

// Operation is a change that was begun.
type Operation struct {
	// Change is what Begin was given.
	Change Change         `json:"change"`
	State  OperationState `json:"state"`
	// Message says what is being done, or why it failed.
	Message string `json:"message,omitempty"`
}

// Part is a part of a cluster.
type Part string

// The parts of a cluster, in the order in which they are upgraded.
const (
	ControlPlane Part = "ControlPlane"
	Nodes        Part = "Nodes"
)

// Change is one operation that a provider is asked for. A provider keeps it with the
// operation and gives back all of it.
type Change struct {
	// ID tells changes of a cluster apart: at most 128 characters, letters, digits, dots
	// and hyphens.
	ID string `json:"id"`
	// Placement and Epoch are for fencing: of two changes of a placement, the one with
	// the greater epoch is right, and the other is refused if it comes later. A provider
	// that cannot keep the epoch of the last change ignores it.
	Placement string `json:"placement,omitempty"`
	Epoch     int64  `json:"epoch,omitempty"`
	// Part is what is to be changed now, to what Goal says of it. Nodes that get a
	// version and an image get both at once or the version first.
	Part Part `json:"part,omitempty"`
	// Goal is where the run wants the whole cluster, in this change and others.
	Goal Goal `json:"goal,omitzero"`
}

// Goal is where a cluster is to be, everything resolved.
type Goal struct {
	// ControlPlane is the version that the control plane gets; empty leaves it.
	ControlPlane string `json:"controlPlane,omitempty"`
	// Pools are the node pools that are concerned; others are left.
	Pools []PoolGoal `json:"pools,omitempty"`
}

// PoolGoal is where a node pool is to be; what is empty is left as it is.
type PoolGoal struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
}
