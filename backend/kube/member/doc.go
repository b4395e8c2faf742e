// Package member connects to member clusters: a connection ([NewConn]) reads, applies, deletes
// and watches the objects of a cluster, and [NewDialer] opens connections.
//
// A connection has its own transport and applies by server-side apply with force. The API server
// checks preconditions in the same request. A connection discovers kinds when it needs them,
// including kinds that were just defined. It watches the applied objects by one watch of metadata
// for each kind in each namespace, or for the whole kind if there would be many such watches.
//
// # Limits
//
// A member is not trusted. Its answers are limited before they are decoded, see [Limits], and the
// duration of requests by [Options].RequestTimeout. A watch keeps no data of the member, and no
// error quotes such data.
//
// # Addresses and credentials
//
// A [ConfigFunc] provides the address of a cluster: [KubeconfigDirectory], [KubeconfigContexts]
// or [KubeconfigSecrets]. A kubeconfig may name an address, certificates and a token; everything
// else, such as running a program, is refused unless [Allow] permits it. [Trusted] is for files
// that the operator wrote. If the inventory knows the uid of a cluster's namespace kube-system, the
// connection compares it before anything is written, see [PinnedUID].
//
// # Rights
//
// [RBACManifests] are the rights that the engine needs on a member. They are for the kinds that
// placements carry, and for the ledgers: ConfigMaps in the namespace slipway-system, one for each
// placement and named after it. The engine deletes an adopted namespace together with its placement
// only if it may list all served kinds, to verify that it contains no objects of others. That
// includes the right to read all Secrets, so the host must decide about it.
//
// A starting API server refuses every request, because it has not read the roles yet. If a member
// refuses a request for a missing right, the client therefore reads /readyz, and /api if /readyz is
// refused too; by default every user may read both. The client accepts the refusal as final only if
// the member is ready.
//
// [FenceManifests] are policies
// by which the member itself refuses an older epoch and, with [Options].Fenced, the creation of
// an object by a leader that was paused right before it. Without them such a leader may still
// create one object late on each cluster; the engine keeps the object as suspect in the ledger and
// removes it when it next reads the cluster.
package member
