// Package member connects to member clusters: a connection ([NewConn]) reads, applies, deletes
// and watches the objects of a cluster, and [NewDialer] opens connections.
//
// A connection has its own transport and applies by server-side apply with force. The API server
// checks preconditions in the same request. A connection discovers kinds when it needs them,
// including kinds that were just defined. It watches the applied objects by one watch of metadata
// for each kind in each namespace, or of the whole kind if those would be many.
//
// # Limits
//
// A member is not trusted. Its answers are bounded before they are decoded, see [Limits], and
// requests by [Options].RequestTimeout; a watch keeps no data of the member, and no error quotes
// it.
//
// # Addresses and credentials
//
// A [ConfigFunc] provides the address of a cluster: [KubeconfigDirectory], [KubeconfigContexts]
// or [KubeconfigSecrets]. A kubeconfig may name an address, certificates and a token; everything
// beyond, such as running a program, is refused unless [Allow] permits it. [Trusted] is for files
// of the operator. If the inventory knows the uid of a cluster's namespace kube-system, the
// connection compares it before anything is written, see [PinnedUID].
//
// # Rights
//
// [RBACManifests] are the rights that the engine needs on a member: its ledgers, which are
// ConfigMaps named after the placements in the namespace slipway-system, and the kinds that
// placements carry. The engine deletes an adopted namespace together with its placement only if
// it may list all served kinds, to verify that it contains no objects of others. That includes
// the right to read all Secrets, so the host must decide about it.
//
// A starting API server refuses every request, because it has not read the roles yet. If a member
// refuses a request for a missing right, the client therefore reads /readyz, and /api if /readyz is
// refused too; by default every user may read both. The refusal counts if the member is ready.
//
// [FenceManifests] are policies
// by which the member itself refuses an older epoch and, with [Options].Fenced, the creation of
// an object by a leader that was paused right before it. Without them such a creation may come
// late, one for each cluster; the engine keeps the object as suspect in the ledger and removes it
// when it next reads the cluster.
package member
