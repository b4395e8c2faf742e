// Package store keeps the state of the engine as Secrets of an API server. A [Store] is a
// [backend.Store] and a [backend.Watcher].
//
// # Records
//
// A record is a Secret of type slipway.dev/record, because records contain snapshots, and
// snapshots may contain Secrets: a user without the right to read Secrets cannot read records,
// and a server that encrypts Secrets encrypts them. All are in one namespace, slipway-system by
// default, and all labels and annotations begin with slipway.dev/.
//
//	name                r- and the key in base32hex, which keeps the order of keys; of
//	                    a key over 156 bytes the first 135, and a hash of all
//	annotation key      the key
//	annotation format   the version of this layout; a newer one is [ErrNewer]
//	annotation sum      half a SHA-256 over key and value; a record that does not have
//	                    it is [ErrDamaged]
//	annotation write    random for each write
//	labels record,      the first segment of the key; hashes of its first two and three,
//	under-2, under-3    by which a server selects what is under a prefix
//	data value          the value, at most 1 MiB: what a Secret can hold
//
// The revision of a record is the resourceVersion and the uid of its Secret. Because of its random
// mark, each write changes the resourceVersion, also a write of the same value. A write has both as
// preconditions, so that it does not change a record that was deleted and created again, or
// restored.
//
// A request may reach the server more than once, because client-go repeats it if a server asks for
// that, or because of a proxy. Therefore the store reads the record after a conflict: if the record
// has the mark of the write, the write succeeded. If it has another mark and the request was sent
// more than once, the outcome is unknown, and the error is transient. So ErrConflict and
// ErrNotFound always mean that nothing was written.
//
// # Rights
//
// A store needs these rights in its namespace and, if the namespace does not exist before, the
// right to create it:
//
//	kind: Role
//	rules:
//	- apiGroups: [""]
//	  resources: [secrets]
//	  verbs: [get, list, watch, create, update, delete]
//	---
//	kind: ClusterRole
//	rules:
//	- apiGroups: [""]
//	  resources: [namespaces]
//	  verbs: [create]
//
// No other user should have the right to write Secrets there: a record without its labels is not
// listed any more, and write access to records is control over the engine.
package store
