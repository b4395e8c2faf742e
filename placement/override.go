package placement

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Override changes objects, or leaves them out, for the clusters that its
// rules select. The words are those of KubeFleet's ClusterResourceOverride and
// ResourceOverride.
type Override struct {
	// Name is a DNS label, unique among the overrides of its namespace.
	Name string `json:"name"`
	// Namespace is where a namespaced override stands; it selects objects of
	// that namespace only. Empty makes the override cluster-wide: it selects
	// cluster-scoped objects, and a Namespace that it selects stands for
	// itself and every object in it.
	Namespace string `json:"namespace,omitempty"`
	// Priority says which override has the last word where several select an
	// object: the one with the higher priority is applied later. With the same
	// priority, cluster-wide overrides come before namespaced ones, and among
	// those the order is that of namespace and name.
	Priority int32 `json:"priority,omitempty"`
	// Selectors name the objects, 1 to 20.
	Selectors []ObjectSelector `json:"resourceSelectors"`
	// Rules are applied in order, each to the outcome of the one before; 1 to
	// 20.
	Rules []Rule `json:"overrideRules"`
}

// SelectsObject reports whether the override selects an object, by itself or by its
// Namespace; group is empty for the core API group, namespace for an object that is
// in none.
func (o Override) SelectsObject(group, version, kind, namespace, name string) bool {
	return slices.ContainsFunc(o.Selectors, func(s ObjectSelector) bool {
		itself := s == ObjectSelector{Group: group, Version: version, Kind: kind, Name: name} && namespace == o.Namespace
		return itself || s.isNamespace() && s.Name == namespace
	})
}

// SelectsCluster reports whether a rule of the override selects a cluster. The error
// is that of a rule whose selector is wrong. See [Override.Clusters] for many clusters.
func (o Override) SelectsCluster(c Cluster) (bool, error) {
	selects, err := o.Clusters()
	return err == nil && selects(c), err
}

// Clusters returns what reports whether a rule of the override selects a cluster. The error is that of a rule whose
// selector is wrong.
func (o Override) Clusters() (func(Cluster) bool, error) {
	rules := make([]func(*Cluster) bool, len(o.Rules))
	for i, r := range o.Rules {
		var err error
		if rules[i], err = compileSelector(r.ClusterSelector); err != nil {
			return nil, fmt.Errorf("override %s: overrideRules[%d]: %w", o, i, err)
		}
	}
	return func(c Cluster) bool {
		return slices.ContainsFunc(rules, func(match func(*Cluster) bool) bool { return match(&c) })
	}, nil
}

// ObjectSelector names one object.
type ObjectSelector struct {
	// Group is empty for the core API group.
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
}

// RuleType says what a [Rule] does to the objects.
type RuleType string

// The types of a rule.
const (
	// JSONPatch changes the objects. It is the default.
	JSONPatch RuleType = "JSONPatch"
	// Delete leaves the objects out.
	Delete RuleType = "Delete"
)

// Rule says what an override does on the clusters it selects.
type Rule struct {
	// ClusterSelector picks the clusters: nil none, one without terms all.
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`
	// Type is JSONPatch when empty.
	Type RuleType `json:"overrideType,omitempty"`
	// Patches are the operations of a JSONPatch rule, 1 to 20, in order.
	Patches []Patch `json:"jsonPatchOverrides,omitempty"`
}

// ClusterSelector picks the clusters that match at least one of its terms; one
// without terms picks all.
type ClusterSelector struct {
	Terms []ClusterTerm `json:"clusterSelectorTerms"`
}

// ClusterTerm picks clusters by their labels, a nil selector none, an empty one
// all, or by their names.
type ClusterTerm struct {
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// ClusterNames are those that are picked where there is no LabelSelector, each
	// once. KubeFleet does not have it.
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// PatchOp is the operation of a [Patch].
type PatchOp string

// The operations of RFC 6902 that an override may use.
const (
	OpAdd     PatchOp = "add"
	OpRemove  PatchOp = "remove"
	OpReplace PatchOp = "replace"
)

// Patch is an operation of RFC 6902.
type Patch struct {
	Op PatchOp `json:"op"`
	// Path is a JSON pointer (RFC 6901). It cannot lead to kind, apiVersion,
	// status, or metadata other than labels and annotations.
	Path string `json:"path"`
	// Value is JSON, and absent for remove. In its strings, the names of fields included,
	// ${MEMBER-CLUSTER-NAME} stands for the cluster's name and ${MEMBER-CLUSTER-LABEL-KEY-<key>} for the
	// value of one of its labels; a cluster without the label is an error. Substituted text is not expanded
	// again, and variables do not nest.
	Value json.RawMessage `json:"value,omitempty"`
}
