// Package inventory lists the clusters of a fleet: the MemberClusters ([NewMemberClusters]) or
// ClusterProfiles ([NewClusterProfiles]) of a hub, or the contexts of a kubeconfig
// ([KubeconfigClusters]).
//
// The objects are read as maps and not as Go types, because members write parts of their status
// themselves, and one value of another form must not hide the rest.
//
// Reading a hub needs the right to list and watch memberclusters or clusterprofiles. If the right
// is missing, or the hub does not have the kind, calls return [backend.ErrPermanent] with the right
// to grant or the kind to install.
package inventory
