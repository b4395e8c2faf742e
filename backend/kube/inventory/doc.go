// Package inventory lists the clusters of a fleet: the MemberClusters ([NewMemberClusters]) or
// ClusterProfiles ([NewClusterProfiles]) of a hub, or the contexts of a kubeconfig
// ([KubeconfigClusters]).
//
// Reading a hub needs the right to list and watch memberclusters or clusterprofiles. If the right
// is missing, or the hub does not have the kind, calls return [backend.ErrPermanent] with the right
// to grant or the kind to install.
package inventory
