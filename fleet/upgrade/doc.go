// Package upgrade makes runs of package fleet upgrade clusters: the Kubernetes
// version of control planes and node pools, and the images of nodes.
//
// A [Target] says what a run is about. [Resolve] freezes what has to be the same
// for all clusters of a run, and [Source] yields the target as the one object of a
// snapshot, so that everything that a run of package fleet does for objects, it does
// for upgrades: the plan names the target by its digest, and a run that catches up
// has the same. The placement of such runs has [Selector] as its one selector.
//
// A [Provider] does the work: it describes clusters and begins changes. Package
// embedded has one in memory and package clusterapi one that asks Cluster API; a host
// writes its own for its cloud. [NewUpdater] makes it the Updater of an engine.
//
// # What a run does to a cluster
//
// The updater looks first. A cluster that is where the target wants it is skipped,
// and so is one that a Consistent image does not exist for. Otherwise it is the
// control plane's turn, where that is not there, and then that of the node pools:
// each is one [Change], which the provider is told again, under the same ID, for as
// long as it is not known to have begun. What Latest means for a cluster is decided
// when the first change of a run begins there, and stays with the change, so that an
// image that is published later is taken by clusters that start later. The cluster is
// done when it is described as being there, and as healthy.
//
// While another operator's operation is under way on a cluster, or its region is not
// available, or does not offer yet what the target says, nothing is sent and the
// cluster is Pending: others go first.
//
// No upgrade goes down or skips a minor version, be it of a control plane or of a node
// pool, and no node is newer than its control plane or more than three minor versions
// older. [Check] finds this out for all clusters before a plan is recorded, and the
// updater again for each when it starts.
//
// # Profiles
//
// A [Profile] says which releases are followed with no person asking, and [AutoUpgrade] what that comes to for a
// fleet: it is the source of the placement and the revision of a trigger of package trigger, which creates the runs.
// Clusters that do not answer when a run is created are skipped by it, and named with that reason.
package upgrade
