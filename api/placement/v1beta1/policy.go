package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlacementPolicy picks clusters.
type PlacementPolicy struct {
	// How clusters are picked: all that match, a number of them, or by name.
	// +kubebuilder:default=PickAll
	PlacementType PlacementType `json:"placementType,omitempty"`
	// The names of the clusters of PickFixed. An empty list picks no cluster.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="cluster names must be unique for policy type PickFixed"
	ClusterNames []string `json:"clusterNames,omitempty"`
	// How many clusters PickN picks.
	// +kubebuilder:validation:Minimum=0
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`
	// Which clusters are picked, or preferred.
	Affinity *Affinity `json:"affinity,omitempty"`
	// How PickN spreads over the values of labels.
	// +kubebuilder:validation:MaxItems=100
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// The taints of clusters that the placement tolerates.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="tolerations must be unique"
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// PlacementType is how a policy picks clusters.
//
// +kubebuilder:validation:Enum=PickAll;PickN;PickFixed
type PlacementType string

// The types of a policy.
const (
	// PickAllPlacementType picks all clusters that match.
	PickAllPlacementType PlacementType = "PickAll"
	// PickNPlacementType picks a number of the clusters that match, the best ones first.
	PickNPlacementType PlacementType = "PickN"
	// PickFixedPlacementType picks clusters by their names.
	PickFixedPlacementType PlacementType = "PickFixed"
)

// Affinity says which clusters are picked, or preferred.
type Affinity struct {
	// Which clusters are picked, or preferred.
	ClusterAffinity *ClusterAffinity `json:"clusterAffinity,omitempty"`
}

// ClusterAffinity says which clusters are picked, or preferred.
type ClusterAffinity struct {
	// The clusters that can be picked.
	RequiredDuringSchedulingIgnoredDuringExecution *ClusterSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Preferences, which add to the score of a cluster or subtract from it.
	// +kubebuilder:validation:MaxItems=100
	PreferredDuringSchedulingIgnoredDuringExecution []PreferredClusterSelector `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// ClusterSelector matches the clusters that at least one of its terms matches.
type ClusterSelector struct {
	// The terms. A cluster must match at least one of them.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:XValidation:rule="!has(self.propertySorter)",message="PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity"
	ClusterSelectorTerms []ClusterSelectorTerm `json:"clusterSelectorTerms"`
}

// PreferredClusterSelector is a preference for clusters.
type PreferredClusterSelector struct {
	// How much a match adds to the score of a cluster.
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// The clusters that are preferred.
	// +kubebuilder:validation:XValidation:rule="!has(self.propertySelector)",message="PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity"
	Preference ClusterSelectorTerm `json:"preference"`
}

// ClusterSelectorTerm matches the clusters that meet everything in it.
type ClusterSelectorTerm struct {
	// Matches clusters by their labels.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Matches clusters by the properties that they report.
	PropertySelector *PropertySelector `json:"propertySelector,omitempty"`
	// Orders clusters by a property. A preference may have it.
	PropertySorter *PropertySorter `json:"propertySorter,omitempty"`
}

// PropertySelector matches clusters by the properties that they report.
type PropertySelector struct {
	// Requirements. A cluster must meet all of them.
	// +kubebuilder:validation:MaxItems=20
	MatchExpressions []PropertySelectorRequirement `json:"matchExpressions"`
}

// PropertySelectorRequirement compares a property of a cluster with a quantity.
//
// +kubebuilder:validation:XValidation:rule="size(self.values) == 1",message="requires exactly one value"
type PropertySelectorRequirement struct {
	// The name of the property.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('resources.kubernetes-fleet.io/') || self.substring(30).contains('-')",message="invalid resource property name",messageExpression="'invalid resource property name ' + self + ', expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('resources.kubernetes-fleet.io/') || !self.substring(30).contains('-') || self.substring(30).startsWith('allocatable-') || self.substring(30).startsWith('available-') || self.substring(30).startsWith('total-')",message="invalid capacity type in resource property name",messageExpression="'invalid capacity type in resource property name ' + self + ', supported values are [allocatable available total]'"
	Name string `json:"name"`
	// How the property must compare with the value.
	Operator PropertySelectorOperator `json:"operator"`
	// One quantity.
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isQuantity(self)",message="is not a valid resource.Quantity",messageExpression=`'value "' + self + '" is not a valid resource.Quantity'`
	Values []string `json:"values"`
}

// PropertySelectorOperator compares a property with a quantity.
//
// +kubebuilder:validation:Enum=Gt;Ge;Eq;Ne;Lt;Le
type PropertySelectorOperator string

// The comparisons of a property with a quantity.
const (
	PropertySelectorGreaterThan          PropertySelectorOperator = "Gt"
	PropertySelectorGreaterThanOrEqualTo PropertySelectorOperator = "Ge"
	PropertySelectorEqualTo              PropertySelectorOperator = "Eq"
	PropertySelectorNotEqualTo           PropertySelectorOperator = "Ne"
	PropertySelectorLessThan             PropertySelectorOperator = "Lt"
	PropertySelectorLessThanOrEqualTo    PropertySelectorOperator = "Le"
)

// PropertySorter orders clusters by a property.
type PropertySorter struct {
	// The name of the property.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('resources.kubernetes-fleet.io/') || self.substring(30).contains('-')",message="invalid resource property name",messageExpression="'invalid resource property name ' + self + ', expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('resources.kubernetes-fleet.io/') || !self.substring(30).contains('-') || self.substring(30).startsWith('allocatable-') || self.substring(30).startsWith('available-') || self.substring(30).startsWith('total-')",message="invalid capacity type in resource property name",messageExpression="'invalid capacity type in resource property name ' + self + ', supported values are [allocatable available total]'"
	Name string `json:"name"`
	// Whether the greatest or the smallest value comes first.
	SortOrder PropertySortOrder `json:"sortOrder"`
}

// PropertySortOrder is the direction in which clusters are ordered.
//
// +kubebuilder:validation:Enum=Descending;Ascending
type PropertySortOrder string

// The orders.
const (
	Descending PropertySortOrder = "Descending"
	Ascending  PropertySortOrder = "Ascending"
)

// TopologySpreadConstraint spreads the clusters of PickN over the values of a label.
type TopologySpreadConstraint struct {
	// By how much the numbers of picked clusters may differ between two values.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew *int32 `json:"maxSkew,omitempty"`
	// The label whose values are spread over.
	// +kubebuilder:validation:MinLength=1
	TopologyKey string `json:"topologyKey"`
	// Whether a cluster that violates the constraint is picked.
	// +kubebuilder:default=DoNotSchedule
	WhenUnsatisfiable UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`
}

// UnsatisfiableConstraintAction is whether a cluster that violates a constraint is picked.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableConstraintAction string

// The actions on a violated constraint.
const (
	// DoNotSchedule does not pick the cluster.
	DoNotSchedule UnsatisfiableConstraintAction = "DoNotSchedule"
	// ScheduleAnyway picks it with a lower score.
	ScheduleAnyway UnsatisfiableConstraintAction = "ScheduleAnyway"
)

// Toleration tolerates a taint of a cluster.
//
// +kubebuilder:validation:XValidation:rule="self.operator != 'Exists' || !has(self.value) || self.value == \"\"",message="value must be empty when operator is Exists"
// +kubebuilder:validation:XValidation:rule="self.operator == 'Exists' || (has(self.key) && self.key != \"\")",message="operator must be Exists when key is empty"
type Toleration struct {
	// The key of the taint; empty for all keys.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([^/]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/]*/)?[^/]{0,63}$') || self.matches('/.*/')",message="name part must be no more than 63 bytes"
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/')",message="prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
	Key string `json:"key,omitempty"`
	// How the value is compared.
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`
	// The value of the taint.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
	Value string `json:"value,omitempty"`
	// The effect of the taint; empty for all effects.
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator compares the value of a toleration with that of a taint.
//
// +kubebuilder:validation:Enum=Equal;Exists
type TolerationOperator string

// The comparisons of a toleration.
const (
	TolerationOpEqual  TolerationOperator = "Equal"
	TolerationOpExists TolerationOperator = "Exists"
)

// TaintEffect is the effect of a taint on placements that do not tolerate it.
//
// +kubebuilder:validation:Enum=NoSchedule
type TaintEffect string

// TaintEffectNoSchedule keeps placements away that are not on the cluster yet.
const TaintEffectNoSchedule TaintEffect = "NoSchedule"
