// Package member connects to member clusters: a connection ([NewConn]) reads, applies, deletes and watches the objects of one,
// and [NewDialer] opens them.
//
// A connection has a transport of its own and applies by server-side apply with force. Preconditions are
// checked by the API server in the same request. It learns of kinds when it needs them, also of those that were
// defined a moment ago. What was applied is watched by one watch of metadata for each kind in each namespace, or
// of the whole kind where those would be many.
//
// # Limits
//
// A member is not trusted. What it returns is bounded before it is decoded, see [Limits], requests by
// [Options].RequestTimeout; a watch keeps nothing of what it tells; nothing of it is quoted in an error.
//
// # Addresses and credentials
//
// Where a cluster is reached comes from a [ConfigFunc]: [KubeconfigDirectory], [KubeconfigContexts] or
// [KubeconfigSecrets]. What a kubeconfig may do beyond naming an address, certificates and a token, such as
// run a program, is refused unless [Allow] says so; [Trusted] is for files of the operator. A cluster of
// which the inventory knows the uid of the namespace kube-system is compared with that before anything is
// written, see [PinnedUID].
//
// # Rights
//
// [RBACManifests] is what the engine needs on a member: its ledgers, which are ConfigMaps named after the
// placements in the namespace slipway-system, and the kinds that placements carry. A namespace that a placement took over
// is deleted with it only where the engine may list all kinds that are served, to see that nothing of others is in it:
// that is the right to read all Secrets, too, so it is for the host to grant. [FenceManifests] are policies
// by which the member itself refuses an older epoch, with [Options].Fenced also the creation of an object by a
// leader that was paused right before it. Without them such a creation may come late, one of each cluster; the
// engine has it in doubt and removes it when it next reads the cluster.
package member
