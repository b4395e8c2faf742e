// Package placement answers WHERE: which clusters a workload is placed on, and
// what differs on each of them.
//
// A [Policy] is resolved against the [Cluster] inventory into a [Selection], by
// [Resolve], or by [Decide] with what is placed already; an [Override] changes
// the objects for the clusters it selects, as far as no [Restriction] of the host
// forbids it: see [Render]. Everything here is a pure function
// of its arguments: no I/O, no clock, no randomness.
//
// Neighbours: package snapshot says what is placed, package stages in which
// order, package fleet records selections and carries them out.
package placement

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Cluster is a member of the fleet as the inventory reports it.
type Cluster struct {
	// Name is unique in the fleet and a DNS label (RFC 1123).
	Name string `json:"name"`
	// UID identifies the cluster behind the name, for example the UID of its
	// kube-system namespace. Empty means that the inventory does not know it.
	// A cluster that was made again under the same name has another UID.
	UID string `json:"uid,omitempty"`
	// Labels are matched by policies, stages and overrides.
	Labels map[string]string `json:"labels,omitempty"`
	// Properties are what the inventory measures, by a name that it chooses,
	// for example the number of nodes or the CPU that is available. Policies
	// compare them.
	Properties map[string]resource.Quantity `json:"properties,omitempty"`
	// Namespaces are the namespaces of the cluster, where the inventory measures them; nil where it does not. A placement of
	// a namespace picks no further cluster without it, see [Previous].
	Namespaces []string `json:"namespaces,omitempty"`
	// Taints keep a policy that does not tolerate them from picking the
	// cluster. What is placed there stays.
	Taints []Taint `json:"taints,omitempty"`
	// Leaving reports whether the cluster is about to leave the fleet: no policy
	// picks it any more, and what is placed there goes.
	Leaving bool `json:"leaving,omitempty"`
	// Unhealthy says in a few words why the cluster takes nothing new, for
	// example "no heartbeat for 5 minutes". Empty means that it is healthy.
	// What is placed there stays.
	Unhealthy string `json:"unhealthy,omitempty"`
}

// Type says how a [Policy] picks clusters. The words are KubeFleet's.
type Type string

// The types of a placement policy.
const (
	// PickAll picks every cluster that matches. It is the default.
	PickAll Type = "PickAll"
	// PickFixed picks the clusters that are named.
	PickFixed Type = "PickFixed"
	// PickN picks a number of the clusters that match.
	PickN Type = "PickN"
)

// Policy says which clusters to pick. The zero value picks every cluster.
type Policy struct {
	// Type is PickAll when empty.
	Type Type `json:"placementType,omitempty"`
	// ClusterNames are the clusters of a PickFixed policy, each once. Those that are not in the inventory
	// are picked once they are; without any the policy picks nothing.
	ClusterNames []string `json:"clusterNames,omitempty"`
	// NumberOfClusters is how many clusters a PickN policy picks, where there
	// are so many that it may pick. It is not part of the policy's digest.
	NumberOfClusters *int `json:"numberOfClusters,omitempty"`
	// Required restricts a PickAll or PickN policy to clusters that match at
	// least one of these. None means no restriction.
	Required []Term `json:"required,omitempty"`
	// Preferred is what the clusters of a PickN policy are chosen by. The
	// weights of those that a cluster matches add up to its affinity.
	Preferred []Preference `json:"preferred,omitempty"`
	// Spread is how the clusters of a PickN policy are distributed.
	Spread []SpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Tolerations are the taints that do not keep a PickAll or PickN policy
	// away from a cluster.
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// Selection is what a policy came to for one inventory.
type Selection struct {
	// Index counts the policies of a placement, from 0. It belongs to the
	// policy, not to the clusters: a cluster that joins changes Digest, an
	// edited policy changes Index too.
	Index int `json:"index"`
	// PolicyDigest is the sha256 of the policy's canonical JSON, in hex. The
	// number of clusters does not count.
	PolicyDigest string `json:"policyDigest"`
	// Clusters are the names that were picked, ascending.
	Clusters []string `json:"clusters"`
	// Digest is the sha256 over PolicyDigest and Clusters, in hex.
	Digest string `json:"digest"`
}
