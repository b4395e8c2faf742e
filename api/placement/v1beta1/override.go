package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterResourceOverride changes placed objects on some clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceoverrides,scope=Cluster,shortName=cro,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceOverride struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects, the clusters and the changes.
	Spec ClusterResourceOverrideSpec `json:"spec"`
}

// ClusterResourceOverrideList is a list of ClusterResourceOverrides.
//
// +kubebuilder:object:root=true
type ClusterResourceOverrideList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceOverride `json:"items"`
}

// ClusterResourceOverrideSpec has the changes of a ClusterResourceOverride.
//
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",message="The placement field is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || !has(self.placement.scope) || self.placement.scope == 'Cluster'",message="clusterResourceOverride placement reference cannot be Namespaced scope"
// +kubebuilder:validation:XValidation:rule="self.clusterResourceSelectors.all(s, self.clusterResourceSelectors.exists_one(t, t == s))",message="clusterResourceSelectors must be unique"
type ClusterResourceOverrideSpec struct {
	// Of two overrides that change the same field, the one with the higher priority wins. The default is 0. Not in
	// KubeFleet.
	Priority int32 `json:"priority,omitempty"`
	// The only placement whose objects are changed. If absent, the override changes the objects of all placements.
	Placement *PlacementRef `json:"placement,omitempty"`
	// The objects to change. A Namespace stands for everything in it, too.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:XValidation:rule="!has(self.labelSelector)",message="label selector is not supported for resource selection"
	// +kubebuilder:validation:items:XValidation:rule="has(self.name) && size(self.name) > 0",message="resource name is required for resource selection"
	ClusterResourceSelectors []ResourceSelectorTerm `json:"clusterResourceSelectors"`
	// The clusters and the changes.
	Policy *OverridePolicy `json:"policy"`
}

// ResourceOverride changes placed objects of its namespace on some clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceoverrides,scope=Namespaced,shortName=ro,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceOverride struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects, the clusters and the changes.
	Spec ResourceOverrideSpec `json:"spec"`
}

// ResourceOverrideList is a list of ResourceOverrides.
//
// +kubebuilder:object:root=true
type ResourceOverrideList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceOverride `json:"items"`
}

// ResourceOverrideSpec has the changes of a ResourceOverride.
//
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",message="The placement field is immutable"
// +kubebuilder:validation:XValidation:rule="self.resourceSelectors.all(s, self.resourceSelectors.exists_one(t, t == s))",message="resourceSelectors must be unique"
type ResourceOverrideSpec struct {
	// Of two overrides that change the same field, the one with the higher priority wins. The default is 0. Not in
	// KubeFleet.
	Priority int32 `json:"priority,omitempty"`
	// The only placement whose objects are changed. If absent, the override changes the objects of all placements.
	Placement *PlacementRef `json:"placement,omitempty"`
	// The objects of the same namespace to change.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`
	// The clusters and the changes.
	Policy *OverridePolicy `json:"policy"`
}

// PlacementRef names a placement.
type PlacementRef struct {
	// The name of the placement.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// Whether it is a ClusterResourcePlacement or a ResourcePlacement. Without it, it is a ClusterResourcePlacement
	// and, in a ResourceOverride, the ResourcePlacement of the namespace, too.
	Scope ResourceScope `json:"scope,omitempty"`
}

// ResourceScope is whether a placement is in a namespace.
//
// +kubebuilder:validation:Enum=Cluster;Namespaced
type ResourceScope string

// The scopes of a placement.
const (
	// ClusterScoped is a ClusterResourcePlacement.
	ClusterScoped ResourceScope = "Cluster"
	// NamespaceScoped is a ResourcePlacement.
	NamespaceScoped ResourceScope = "Namespaced"
)

// ResourceSelector names an object of the namespace of a ResourceOverride.
type ResourceSelector struct {
	// The API group; empty for the core group.
	Group string `json:"group"`
	// The version of the group.
	// +kubebuilder:validation:MinLength=1
	Version string `json:"version"`
	// The kind.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// The name.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// OverridePolicy has the rules of an override.
type OverridePolicy struct {
	// The rules. They are applied one after the other.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	OverrideRules []OverrideRule `json:"overrideRules"`
}

// OverrideRule changes objects on some clusters, or leaves them out there.
//
// +kubebuilder:validation:XValidation:rule="self.overrideType != 'Delete' || !has(self.jsonPatchOverrides) || size(self.jsonPatchOverrides) == 0",message="jsonPatchOverrides must be empty when overrideType is Delete"
// +kubebuilder:validation:XValidation:rule="self.overrideType != 'JSONPatch' || (has(self.jsonPatchOverrides) && size(self.jsonPatchOverrides) > 0)",message="jsonPatchOverrides must not be empty when overrideType is JSONPatch"
type OverrideRule struct {
	// The clusters. An empty selector matches all clusters, and a missing one matches none.
	ClusterSelector *OverrideClusterSelector `json:"clusterSelector,omitempty"`
	// Whether the objects are patched or left out.
	// +kubebuilder:default=JSONPatch
	OverrideType OverrideType `json:"overrideType,omitempty"`
	// The operations of a JSON patch (RFC 6902).
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	JSONPatchOverrides []JSONPatchOverride `json:"jsonPatchOverrides,omitempty"`
}

// OverrideClusterSelector matches the clusters that at least one of its terms matches by labels.
type OverrideClusterSelector struct {
	// The terms. A cluster must match at least one of them.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:XValidation:rule="!has(self.propertySelector) && !has(self.propertySorter)",message="only labelSelector is supported"
	// +kubebuilder:validation:items:XValidation:rule="has(self.labelSelector)",message="labelSelector is required"
	ClusterSelectorTerms []ClusterSelectorTerm `json:"clusterSelectorTerms"`
}

// OverrideType is whether an override patches objects or leaves them out.
//
// +kubebuilder:validation:Enum=JSONPatch;Delete
type OverrideType string

// The types of a rule.
const (
	// JSONPatchOverrideType patches the objects.
	JSONPatchOverrideType OverrideType = "JSONPatch"
	// DeleteOverrideType leaves the objects out.
	DeleteOverrideType OverrideType = "Delete"
)

// JSONPatchOverride is an operation of a JSON patch (RFC 6902).
//
// +kubebuilder:validation:XValidation:rule="self.path != '/kind' && !self.path.startsWith('/kind/')",message="cannot override typeMeta fields"
// +kubebuilder:validation:XValidation:rule="self.path != '/apiVersion' && !self.path.startsWith('/apiVersion/')",message="cannot override typeMeta fields"
// +kubebuilder:validation:XValidation:rule="self.path != '/status' && !self.path.startsWith('/status/')",message="cannot override status fields"
// +kubebuilder:validation:XValidation:rule="!self.path.matches('^/metadata(/|$)') || self.path.matches('^/metadata/(annotations|labels)(/|$)')",message="cannot override metadata fields except annotations and labels"
// +kubebuilder:validation:XValidation:rule="!self.path.contains('//') && !self.path.endsWith('/')",message="path cannot contain empty string"
type JSONPatchOverride struct {
	// The operation.
	Operator JSONPatchOverrideOperator `json:"op"`
	// The field to change, as a JSON pointer (RFC 6901).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path"`
	// The value of add and replace. A remove has none.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value JSON `json:"value,omitzero"`
}

// JSONPatchOverrideOperator is an operation of a JSON patch.
//
// +kubebuilder:validation:Enum=add;remove;replace
type JSONPatchOverrideOperator string

// The operations.
const (
	JSONPatchOverrideOpAdd     JSONPatchOverrideOperator = "add"
	JSONPatchOverrideOpRemove  JSONPatchOverrideOperator = "remove"
	JSONPatchOverrideOpReplace JSONPatchOverrideOperator = "replace"
)

// JSON is a JSON value of any kind.
type JSON struct {
	// Raw is the text of the value. It is empty if there is none.
	Raw []byte `json:"-"`
}

// MarshalJSON returns the text of the value, or null if there is none.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON keeps the text of the value; null stands for no value.
func (j *JSON) UnmarshalJSON(data []byte) error {
	j.Raw = nil
	if string(data) != "null" {
		j.Raw = append(j.Raw, data...)
	}
	return nil
}

// IsZero reports whether there is no value.
func (j JSON) IsZero() bool { return len(j.Raw) == 0 }

// ClusterResourceOverrideSnapshot has a ClusterResourceOverride at a point in time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceoverridesnapshots,scope=Cluster,shortName=cros,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Override",type=string,JSONPath=`.metadata.labels.kubernetes-fleet\.io/parent-resource-override`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.metadata.labels.kubernetes-fleet\.io/is-latest-snapshot`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceOverrideSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The override.
	Spec ClusterResourceOverrideSnapshotSpec `json:"spec"`
}

// ClusterResourceOverrideSnapshotList is a list of ClusterResourceOverrideSnapshots.
//
// +kubebuilder:object:root=true
type ClusterResourceOverrideSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceOverrideSnapshot `json:"items"`
}

// ClusterResourceOverrideSnapshotSpec is a ClusterResourceOverride at a point in time.
type ClusterResourceOverrideSnapshotSpec struct {
	// The spec of the override.
	OverrideSpec ClusterResourceOverrideSpec `json:"overrideSpec"`
	// The digest of the spec.
	OverrideHash []byte `json:"overrideHash"`
}

// ResourceOverrideSnapshot has a ResourceOverride at a point in time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceoverridesnapshots,scope=Namespaced,shortName=ros,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Override",type=string,JSONPath=`.metadata.labels.kubernetes-fleet\.io/parent-resource-override`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.metadata.labels.kubernetes-fleet\.io/is-latest-snapshot`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceOverrideSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The override.
	Spec ResourceOverrideSnapshotSpec `json:"spec"`
}

// ResourceOverrideSnapshotList is a list of ResourceOverrideSnapshots.
//
// +kubebuilder:object:root=true
type ResourceOverrideSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceOverrideSnapshot `json:"items"`
}

// ResourceOverrideSnapshotSpec is a ResourceOverride at a point in time.
type ResourceOverrideSnapshotSpec struct {
	// The spec of the override.
	OverrideSpec ResourceOverrideSpec `json:"overrideSpec"`
	// The digest of the spec.
	OverrideHash []byte `json:"overrideHash"`
}
