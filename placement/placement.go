// Package placement answers WHERE: which clusters a workload is placed on, and
// what differs on each of them.
//
// A [Policy] is resolved against the [Cluster] inventory into a [Decision]; an
// [Override] changes the objects for the clusters it selects. Everything here
// is a pure function of its arguments: no I/O, no clock, no randomness.
//
// Neighbours: package snapshot says what is placed, package stages in which
// order, package fleet records decisions and carries them out.
package placement

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
}

// Type says how a [Policy] picks clusters. The words are KubeFleet's.
type Type string

// The types of a placement policy.
const (
	// PickAll picks every cluster that matches. It is the default.
	PickAll Type = "PickAll"
	// PickFixed picks the clusters that are named.
	PickFixed Type = "PickFixed"
)

// Policy says which clusters to pick. The zero value picks every cluster.
type Policy struct {
	// Type is PickAll when empty.
	Type Type `json:"placementType,omitempty"`
	// ClusterNames are the clusters of a PickFixed policy, each once.
	ClusterNames []string `json:"clusterNames,omitempty"`
	// Required restricts a PickAll policy to clusters that match at least one
	// of these selectors. None means no restriction; an empty selector
	// matches every cluster.
	Required []metav1.LabelSelector `json:"required,omitempty"`
}

// Decision is what a policy came to for one inventory.
type Decision struct {
	// Index counts the policies of a placement, from 0. It belongs to the
	// policy, not to the clusters: a cluster that joins changes Digest, an
	// edited policy changes Index too.
	Index int `json:"index"`
	// PolicyDigest is the sha256 of the policy's canonical JSON, in hex.
	PolicyDigest string `json:"policyDigest"`
	// Clusters are the names that were picked, ascending.
	Clusters []string `json:"clusters"`
	// Digest is the sha256 over PolicyDigest and Clusters, in hex.
	Digest string `json:"digest"`
}
