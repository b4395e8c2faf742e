// Package kube is the backends that are Kubernetes API servers: a [Store] that
// keeps the state of the engine on a hub, and on the other side inventories and
// connections to the clusters that it works on.
//
// # Records
//
// A record is a Secret of type slipway.dev/record, since records hold what
// snapshots hold, and that may be Secrets: whoever may not read Secrets may not
// read records, and a server that encrypts Secrets encrypts them. All are in one
// namespace, slipway-system if nothing else is said, and all labels and annotations
// begin with slipway.dev/.
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
// The revision of a record is the resourceVersion and the uid of its Secret. Each
// write changes the former, also one of the same value, because of its random
// mark. A write names both, so that a record that was deleted and created again,
// or restored, is another one.
//
// A request may be sent more than once, by client-go when a server asks for that or
// by a proxy. A write that is refused for a conflict is looked up therefore: where
// the record has the mark of the write, it has happened. Where it has another one
// and the request was sent more than once, nobody knows, and the error is
// transient. So ErrConflict and ErrNotFound always mean that nothing was written.
//
// # Rights
//
// A store needs these rights in its namespace, and where the namespace is not there
// before, to create it:
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
// Nobody else should have the right to write Secrets there: a record whose labels
// somebody takes away is not listed any more, and one who writes records gives
// orders to the engine.
//
// # Connections
//
// A connection to a member ([NewConn], [NewDialer]) has a transport of its own and applies by server-side
// apply with force. Preconditions are checked by the API server in the same request. It learns of kinds
// when it needs them, also of those that were defined a moment ago. What was applied is watched by one
// watch of metadata for each kind, by the label slipway.dev/applied. What a member returns is bounded
// before it is decoded, see [Limits], and is never quoted in an error.
//
// Where a cluster is reached comes from a [ConfigFunc]: [KubeconfigDirectory], [KubeconfigContexts] or
// [KubeconfigSecrets]. What a kubeconfig may do beyond naming an address, certificates and a token, such as
// run a program, is refused unless [Allow] says so; [Trusted] is for files of the operator. A cluster of
// which the inventory knows the uid of the namespace kube-system is compared with that before anything is
// written, see [PinnedUID].
//
// [MemberRBAC] is what the engine needs on a member: its ledgers, which are ConfigMaps named after the
// placements in the namespace slipway-system, and the kinds that placements carry. [MemberFence] are policies by
// which the member itself refuses an older epoch, with [ConnOptions].Fenced also the creation of an object by a
// leader that was paused right before it. Without them such a creation may come late, one of each cluster; the
// engine has it in doubt and removes it when it looks again.
//
// # Inventories and sources
//
// [NewMemberClusters], [NewClusterProfiles] and [KubeconfigClusters] list the clusters of a fleet. [NewSource]
// reads what placements select on the hub and tells when that changes, by one watch of metadata for each kind;
// it needs to get, list and watch every kind that can be selected, and in the namespaces that are selected
// all kinds: what it may not read is an error and never left out. All of them need to list and watch
// CustomResourceDefinitions or the objects that they are made of.
//
// # Errors
//
// Errors are those of package backend. What a server says in one is shortened, and
// freed of what it quotes: values of fields, and whatever it says of a Secret beyond
// names.
//
// An answer that there are no Secrets, ConfigMaps or Namespaces at all is none of an
// API server, but of a proxy whose server is starting, for example: it is transient, and
// tells of no record and no ledger that it does not exist.
package kube
