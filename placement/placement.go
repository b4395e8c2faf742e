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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Properties are values that the inventory has measured, under names of its choice, for example
	// the number of nodes or the available CPU. Policies compare them.
	Properties map[string]resource.Quantity `json:"properties,omitempty"`
	// Namespaces are the namespaces of the cluster, or nil if the inventory does not report them. A
	// placement that needs a namespace picks no further cluster without that namespace, see
	// [Previous].
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

// Taint keeps policies that do not tolerate it away from a cluster.
type Taint struct {
	// Key has the form of a label key.
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule; a taint with another effect is ignored.
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is the effect of a taint. The term is Kubernetes'.
type TaintEffect string

// NoSchedule keeps new placements away and does not affect existing ones.
const NoSchedule TaintEffect = "NoSchedule"

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

// Term is a requirement on a cluster: its labels and all Properties must match. An empty term
// matches every cluster. Its JSON is a label selector with an optional list of properties.
type Term struct {
	// LabelSelector matches every cluster when empty.
	metav1.LabelSelector
	// Properties are requirements that must all be met.
	Properties []PropertyRequirement `json:"properties,omitempty"`
}

// PropertyRequirement compares a property of a cluster, on the left, with a value. It fails on a
// cluster without the property.
type PropertyRequirement struct {
	// Name is the name of a property, in the form of a label key.
	Name     string            `json:"name"`
	Operator PropertyOperator  `json:"operator"`
	Value    resource.Quantity `json:"value"`
}

// PropertyOperator is a comparison. The words are KubeFleet's.
type PropertyOperator string

// The operators of a [PropertyRequirement].
const (
	Gt PropertyOperator = "Gt"
	Ge PropertyOperator = "Ge"
	Eq PropertyOperator = "Eq"
	Ne PropertyOperator = "Ne"
	Lt PropertyOperator = "Lt"
	Le PropertyOperator = "Le"
)

// Preference adds to the affinity of clusters. It has a label selector, a sorter, or both.
type Preference struct {
	// Weight is from -100 to 100. A negative weight makes clusters less preferred.
	Weight int `json:"weight"`
	// LabelSelector selects the clusters that get the weight; nil selects all.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Sorter gives each cluster a share of the weight according to a property. Without a sorter each
	// cluster gets the whole weight.
	Sorter *PropertySorter `json:"sorter,omitempty"`
}

// PropertySorter ranks clusters by a property. The shares of the weight are interpolated linearly
// between the least and the greatest value in the inventory and rounded to whole points. If all
// values are equal, each cluster gets the whole weight. A cluster without the property gets
// nothing.
type PropertySorter struct {
	// Name is the name of a property, in the form of a label key.
	Name string `json:"name"`
	// Order says whether the greatest or the least value of the property gets the whole weight.
	// The value at the other end gets none.
	Order SortOrder `json:"order"`
}

// SortOrder says which value of a property comes first. The words are
// KubeFleet's.
type SortOrder string

// The orders of a [PropertySorter].
const (
	// Ascending gives the whole weight to the least value.
	Ascending SortOrder = "Ascending"
	// Descending gives the whole weight to the greatest value.
	Descending SortOrder = "Descending"
)

// SpreadConstraint distributes the clusters that a policy picks over domains: clusters with the
// same value of a label. It considers only domains that have a cluster that is placed or may be
// picked.
type SpreadConstraint struct {
	// MaxSkew is the maximum difference in picked clusters between a domain and the emptiest
	// domain; 0 means 1.
	MaxSkew int `json:"maxSkew,omitempty"`
	// TopologyKey is the key of the label. DoNotSchedule excludes a cluster without the label; under
	// ScheduleAnyway such a cluster violates the constraint.
	TopologyKey string `json:"topologyKey"`
	// WhenUnsatisfiable is DoNotSchedule when empty.
	WhenUnsatisfiable WhenUnsatisfiable `json:"whenUnsatisfiable,omitempty"`
}

// WhenUnsatisfiable says how a [SpreadConstraint] treats clusters that would violate it. The terms
// are Kubernetes'.
type WhenUnsatisfiable string

// The ways in which a [SpreadConstraint] treats clusters that would violate it.
const (
	// DoNotSchedule picks none, even if fewer clusters are picked than wanted.
	DoNotSchedule WhenUnsatisfiable = "DoNotSchedule"
	// ScheduleAnyway picks them last.
	ScheduleAnyway WhenUnsatisfiable = "ScheduleAnyway"
)

// Toleration says which taints a policy tolerates.
type Toleration struct {
	// Key is the key of the taints. If it is empty, the operator must be Exists, and every key
	// matches.
	Key string `json:"key,omitempty"`
	// Operator is Equal when empty.
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value is the value of the taints for the operator Equal.
	Value string `json:"value,omitempty"`
	// Effect is the effect of the taints; empty means every effect.
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator says how a toleration compares a taint's value. The terms are Kubernetes'.
type TolerationOperator string

// The operators of a [Toleration].
const (
	// Equal tolerates taints with the key and the value.
	Equal TolerationOperator = "Equal"
	// Exists tolerates taints with the key, whatever their value.
	Exists TolerationOperator = "Exists"
)

// Selection is the result of a policy for one inventory.
type Selection struct {
	// Index is the number of the policy among the policies that the placement has had, from 0. If the
	// clusters change, only Digest changes; if the policy is edited, Index changes too.
	Index int `json:"index"`
	// PolicyDigest is the sha256 of the policy's canonical JSON, in hex. The
	// number of clusters does not count.
	PolicyDigest string `json:"policyDigest"`
	// Clusters are the names of the picked clusters, ascending.
	Clusters []string `json:"clusters"`
	// Digest is the sha256 over PolicyDigest and Clusters, in hex.
	Digest string `json:"digest"`
}

// Previous is the last selection of a placement. The zero value means a new placement.
type Previous struct {
	// PolicyDigest is the digest of the policy that picked the clusters.
	PolicyDigest string
	// Clusters has the names of the placed clusters; the value reports whether the cluster was ever
	// updated.
	Clusters map[string]bool
	// HeldOut maps clusters that no policy may pick to the reason.
	HeldOut map[string]string
	// Namespace is a namespace that the placed objects need and do not include; empty means none.
	// Unless the policy is PickFixed, a cluster that is known not to have the namespace is not newly
	// picked. Placed clusters stay.
	Namespace string
}

// Evaluation explains a selection for one cluster.
type Evaluation struct {
	// Cluster is the name of a cluster of the inventory, or a name in a PickFixed policy that the
	// inventory does not have.
	Cluster string `json:"cluster"`
	// Picked reports whether the selection has the cluster.
	Picked bool `json:"picked"`
	// Score is the rank of a cluster under a PickN policy.
	Score Score `json:"score"`
	// Kept reports whether the cluster is picked because it has the placement already, and would not
	// be barred as a new cluster, for example by a taint.
	Kept bool `json:"kept,omitempty"`
	// Reason is the text for people that says why the cluster is picked or not.
	Reason string `json:"reason"`
}

// Score ranks clusters: the greater Spread is better, then the greater Affinity, then the name
// that is later in the alphabet.
type Score struct {
	// Spread is 0 if the picked clusters are spread evenly over the domains. Each constraint subtracts
	// 1 for every cluster that the domain has more than the emptiest domain, and 1000 if the
	// constraint does not hold. For a cluster that was picked or dropped, it is the value at that
	// moment, otherwise the final value.
	Spread int `json:"spread"`
	// Affinity is the sum of the cluster's points from all preferences.
	Affinity int `json:"affinity"`
}

// DeletePolicy says whether objects are deleted or released when a placement or a cluster no
// longer has them.
type DeletePolicy string

const (
	// DeleteCreated is the default: it deletes the objects that the placement created and releases
	// the objects that it adopted, which are mainly namespaces.
	DeleteCreated DeletePolicy = "DeleteCreated"
	// DeleteAll deletes adopted objects, too. It releases only objects that others may need: an object
	// that another placement applies, an object that has an owner, and an adopted namespace that
	// contains objects of others. It also releases an adopted namespace if its content is unknown,
	// because the connection is no backend.ConnLister or lacks the right to list.
	DeleteAll DeletePolicy = "Delete"
	// Abandon acts like DeleteAll until the placement is deleted, and then releases everything.
	Abandon DeletePolicy = "Abandon"
)
