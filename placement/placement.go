// Package placement answers WHERE: it picks the clusters of a workload, and adapts its objects to
// each of them.
//
// [Resolve] picks the clusters of a [Policy] from the [Cluster] inventory and returns a
// [Selection]; [Decide] also respects the clusters of the last selection. An [Override] changes
// the objects for the clusters that it selects, unless a [Restriction] of the host forbids the
// change: see [Render]. Everything here is a pure function of its arguments: no I/O, no clock, no
// randomness.
//
// Neighbours: package snapshot holds the objects, package stages the order of clusters, and
// package fleet records selections and carries them out.
package placement

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Cluster is a member of the fleet as the inventory reports it.
type Cluster struct {
	// Name is unique in the fleet and a DNS label (RFC 1123).
	Name string `json:"name"`
	// UID identifies the cluster behind the name, for example the UID of its kube-system namespace.
	// Empty means that the inventory does not know it. A cluster that was recreated under the same
	// name has another UID.
	UID string `json:"uid,omitempty"`
	// Labels are matched by policies, stages and overrides.
	Labels map[string]string `json:"labels,omitempty"`
	// Properties are measurements of the inventory under names of its choice, for example the number
	// of nodes or the available CPU. Policies compare them.
	Properties map[string]resource.Quantity `json:"properties,omitempty"`
	// Namespaces are the namespaces of the cluster, or nil if the inventory does not report them. A
	// placement of a namespace picks no further cluster without it, see [Previous].
	Namespaces []string `json:"namespaces,omitempty"`
	// Taints keep a policy from picking the cluster, unless the policy tolerates them. Objects that
	// are placed there stay.
	Taints []Taint `json:"taints,omitempty"`
	// Leaving reports whether the cluster is about to leave the fleet: no policy picks it any more,
	// and its placed objects are removed.
	Leaving bool `json:"leaving,omitempty"`
	// Unhealthy says in a few words why the cluster accepts nothing new, for example "no heartbeat
	// for 5 minutes". Empty means that it is healthy. Objects that are placed there stay.
	Unhealthy string `json:"unhealthy,omitempty"`
}

// Type says how a [Policy] picks clusters. The terms are KubeFleet's.
type Type string

// The types of a placement policy.
const (
	// PickAll picks every cluster that matches. It is the default.
	PickAll Type = "PickAll"
	// PickFixed picks the named clusters.
	PickFixed Type = "PickFixed"
	// PickN picks a number of the clusters that match.
	PickN Type = "PickN"
)

// Policy says which clusters to pick. The zero value picks every cluster.
type Policy struct {
	// Type is PickAll when empty.
	Type Type `json:"placementType,omitempty"`
	// ClusterNames are the clusters of a PickFixed policy, each once. A name that is not in the
	// inventory is picked as soon as it is. Without names the policy picks nothing.
	ClusterNames []string `json:"clusterNames,omitempty"`
	// NumberOfClusters is the number of clusters that a PickN policy picks, if enough clusters
	// qualify. It is not part of the policy's digest.
	NumberOfClusters *int `json:"numberOfClusters,omitempty"`
	// Required restricts a PickAll or PickN policy to clusters that match at least one of these
	// terms. Without terms there is no restriction.
	Required []Term `json:"required,omitempty"`
	// Preferred ranks the clusters for a PickN policy. The weights of all preferences that match a
	// cluster add up to its affinity.
	Preferred []Preference `json:"preferred,omitempty"`
	// Spread distributes the clusters of a PickN policy over domains.
	Spread []SpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Tolerations are the taints that do not keep a PickAll or PickN policy away from a cluster.
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// Selection is the result of a policy for one inventory.
type Selection struct {
	// Index counts the policies of a placement, from 0. It belongs to the policy, not to the
	// clusters: a cluster that joins changes Digest, an edited policy changes Index too.
	Index int `json:"index"`
	// PolicyDigest is the sha256 of the policy's canonical JSON, in hex. The
	// number of clusters does not count.
	PolicyDigest string `json:"policyDigest"`
	// Clusters are the names of the picked clusters, ascending.
	Clusters []string `json:"clusters"`
	// Digest is the sha256 over PolicyDigest and Clusters, in hex.
	Digest string `json:"digest"`
}
