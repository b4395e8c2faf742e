package backend

import "github.com/slipway-dev/slipway/snapshot"

// Fence is the fencing token of a write on a member: the version of the ledger under which the
// write was decided. The ledger is the object on the member that names the engine that writes for a
// placement. A [Precondition] alone does not stop an old leader from creating an object, because a
// newer leader cannot mark an object that does not exist. The zero value demands nothing.
//
// A connection that does not support fences ignores them; see [Fencing].
type Fence struct {
	// Ledger names the object that has to exist with exactly this UID and this
	// ResourceVersion. Neither is empty in a fence that demands something.
	Ledger          snapshot.ID
	UID             string
	ResourceVersion string
	// Annotation and Mark are the key and the value of an annotation with the writer's epoch, for a
	// member that compares it by an admission policy and so sees only the object that is written.
	// See package backend/kube/member.
	Annotation, Mark string
}

// Demands reports whether the fence demands anything.
func (f Fence) Demands() bool { return f.UID != "" }

// Fencing is how strictly a connection checks a [Fence].
type Fencing int

const (
	// FencingNone ignores fences: a leader that was paused right before a create can still make
	// that one late create on each cluster.
	FencingNone Fencing = iota
	// FencingEventual refuses creations under a fence whose epoch is older than the ledger's, once
	// the member has observed the ledger, which may be a little after the ledger was written.
	FencingEventual
	// FencingAtomic compares the fence atomically with every write: none is accepted once the
	// ledger has changed.
	FencingAtomic
)

// ConnFencer is a [Conn] that may check fences. If a fence does not hold, the call writes nothing
// and returns ErrConflict, or ErrFenced if the member knows of a newer epoch, whatever it would
// have returned otherwise.
type ConnFencer interface {
	Conn
	// Fencing returns how fences are checked. It is the same for the lifetime of the connection.
	Fencing() Fencing
}

// FencingOf returns how a connection checks fences; FencingNone if it is no [ConnFencer].
func FencingOf(c Conn) Fencing {
	if f, ok := c.(ConnFencer); ok {
		return f.Fencing()
	}
	return FencingNone
}
