// Package upgrade lets runs of package fleet upgrade clusters: the Kubernetes version of control
// planes and node pools, and the images of nodes.
//
// A [Target] is the goal of a run. [Resolve] fixes the parts that must be the same for all clusters
// of a run. [Source] yields the target as the only object of a snapshot, so that a run treats an
// upgrade as it treats other objects: the plan names the target by its digest, and a catch-up run
// has the same target. The placement of such runs has [Selector] as its only selector.
//
// A [Provider] does the work: it describes clusters and begins changes. Package embedded has a
// provider in memory, package clusterapi a provider for Cluster API; a host writes its own for its
// cloud. [NewUpdater] turns a provider into the Updater of an engine.
//
// # How a run upgrades a cluster
//
// The updater first describes the cluster. It skips a cluster that is already at the target, or
// that is offered no Consistent image. Otherwise it upgrades the control plane if necessary, and
// then the node pools. Each of the two is one [Change]. The updater sends a change to the provider
// again, with the same ID, until it knows that the change has begun. If the target has the image
// Latest, the updater chooses the image when the first change of a run begins on a cluster, and
// records it in the change. So only clusters that start later use an image that is published later.
// The cluster is done when it is described as being at the target and healthy.
//
// While another operator's operation is under way on a cluster, or its region is not available or
// does not offer the target yet, the updater sends nothing and the cluster is Pending: other
// clusters go first.
//
// No upgrade of a control plane or a node pool lowers the version or skips a minor version. No node
// is newer than its control plane, or more than three minor versions older. [Check] verifies this
// for all clusters before a plan is recorded, and the updater verifies it again when each cluster
// starts.
//
// # Profiles
//
// A [Profile] selects the releases that clusters follow without a request by a person.
// [AutoUpgrade] determines the target of a fleet from a profile. It serves as the source of the
// placement, and provides the revision for a trigger of package trigger, which creates the runs. A
// run skips clusters that did not answer when it was created, and names them with that reason.
package upgrade
