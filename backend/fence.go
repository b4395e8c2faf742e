package backend

import "github.com/slipway-dev/slipway/snapshot"

// Fence guards a write on a member by another object there: the ledger, which
// says who may write for a placement. It is what a write needs beside its
// [Precondition] because the creation of an object has nothing else that a newer
// leader could have changed. The zero value demands nothing.
//
// A connection that does not know fences ignores them; see [Fencing].
type Fence struct {
	// Ledger names the object that has to exist with exactly this UID and this
	// ResourceVersion. Neither is empty in a fence that demands something.
	Ledger          snapshot.ID
	UID             string
	ResourceVersion string
	// Annotation and Mark say the same for a member that compares by a policy of
	// its own and so sees only what is written: the key and the value of an
	// annotation, which has the writer's epoch. See package backend/kube.
	Annotation, Mark string
}

// Demands reports whether the fence demands anything.
func (f Fence) Demands() bool { return f.UID != "" }

// Fencing is how a connection heeds a [Fence].
type Fencing int

const (
	// FencingNone ignores fences. Then the create of a leader that was paused
	// right before it may come late, one of each cluster.
	FencingNone Fencing = iota
	// FencingEventual refuses creations under a fence whose epoch is older than the
	// ledger's, from the moment when the member has noticed what the ledger says,
	// which may be a little later than it was written.
	FencingEventual
	// FencingAtomic compares the fence in the same step as every write is made.
	// None is accepted once the ledger is another.
	FencingAtomic
)

// ConnFencer is a [Conn] that heeds fences, or may. A fence that does not hold is
// ErrConflict, or ErrFenced from a member that knows of a newer epoch; nothing is
// written then, whatever else would have come of the call.
type ConnFencer interface {
	Conn
	// Fencing says how. It is the same for as long as the connection lasts.
	Fencing() Fencing
}

// FencingOf says how a connection heeds fences: as it says, or not at all.
func FencingOf(c Conn) Fencing {
	if f, ok := c.(ConnFencer); ok {
		return f.Fencing()
	}
	return FencingNone
}
