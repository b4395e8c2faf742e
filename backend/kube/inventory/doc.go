// Package inventory lists the clusters of a fleet: the MemberClusters ([NewMemberClusters]) or
// ClusterProfiles ([NewClusterProfiles]) of a hub, or the contexts of a kubeconfig
// ([KubeconfigClusters]).
//
// Reading a hub takes the right to list and watch memberclusters or clusterprofiles. Without it,
// and on a hub that does not have the kind, calls return [backend.ErrPermanent] and say what to
// grant or to install.
package inventory
