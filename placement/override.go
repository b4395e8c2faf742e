package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Override changes objects, or leaves them out, for the clusters that its rules select. The terms
// are those used by KubeFleet's ClusterResourceOverride and ResourceOverride.
type Override struct {
	// Name is a DNS label, unique among the overrides of its namespace.
	Name string `json:"name"`
	// Namespace is the namespace of a namespaced override, which selects objects of that namespace
	// only. Empty makes the override cluster-wide: it selects cluster-scoped objects, and with a
	// Namespace also every object in it.
	Namespace string `json:"namespace,omitempty"`
	// Priority orders overrides that select the same object: a higher priority is applied later.
	// With the same priority, cluster-wide overrides come before namespaced ones, and the rest is
	// ordered by namespace and name.
	Priority int32 `json:"priority,omitempty"`
	// Selectors name the objects, 1 to 20.
	Selectors []ObjectSelector `json:"resourceSelectors"`
	// Rules are applied in order, each to the result of the rule before; 1 to 20.
	Rules []Rule `json:"overrideRules"`
}

// String returns the override's name as errors print it: namespace/name, or
// only the name if it is cluster-wide.
func (o Override) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// SelectsObject reports whether the override selects an object, either directly or because it
// selects the object's Namespace. The group is empty for the core API group, the namespace for a
// cluster-scoped object.
func (o Override) SelectsObject(group, version, kind, namespace, name string) bool {
	return slices.ContainsFunc(o.Selectors, func(s ObjectSelector) bool {
		itself := s == ObjectSelector{Group: group, Version: version, Kind: kind, Name: name} && namespace == o.Namespace
		return itself || s.isNamespace() && s.Name == namespace
	})
}

// SelectsCluster reports whether a rule of the override selects a cluster. An invalid selector is
// an error. For many clusters use [Override.Clusters].
func (o Override) SelectsCluster(c Cluster) (bool, error) {
	selects, err := o.Clusters()
	return err == nil && selects(c), err
}

// Clusters returns a function that reports whether a rule of the override selects a cluster. An
// invalid selector is an error.
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

// sortOverrides returns the overrides in the order in which they apply.
func sortOverrides(overrides []Override) []Override {
	sorted := slices.Clone(overrides)
	slices.SortFunc(sorted, func(a, b Override) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// ObjectSelector names one object.
type ObjectSelector struct {
	// Group is empty for the core API group.
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
}

func (s ObjectSelector) isNamespace() bool { return s.Group == "" && s.Kind == "Namespace" }

// RuleType says how a [Rule] affects the objects.
type RuleType string

// The types of a rule.
const (
	// JSONPatch changes the objects. It is the default.
	JSONPatch RuleType = "JSONPatch"
	// Delete leaves the objects out.
	Delete RuleType = "Delete"
)

// Rule is a change that an override makes on the clusters that it selects.
type Rule struct {
	// ClusterSelector selects the clusters: nil selects none, an empty selector all.
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`
	// Type is JSONPatch when empty.
	Type RuleType `json:"overrideType,omitempty"`
	// Patches are the operations of a JSONPatch rule, 1 to 20, in order.
	Patches []Patch `json:"jsonPatchOverrides,omitempty"`
}

// ClusterSelector selects the clusters that match at least one of its terms; without terms it
// selects all.
type ClusterSelector struct {
	Terms []ClusterTerm `json:"clusterSelectorTerms"`
}

// ClusterTerm selects clusters by their labels or by their names. An empty label selector selects
// all clusters.
type ClusterTerm struct {
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// ClusterNames are the selected clusters if LabelSelector is nil, each at most once. KubeFleet
	// has no such field.
	ClusterNames []string `json:"clusterNames,omitempty"`
}

func compileSelector(s *ClusterSelector) (func(*Cluster) bool, error) {
	if s == nil {
		return func(*Cluster) bool { return false }, nil
	}
	if len(s.Terms) == 0 {
		return func(*Cluster) bool { return true }, nil
	}
	var selectors []metav1.LabelSelector
	names := map[string]bool{}
	for _, t := range s.Terms {
		if t.LabelSelector != nil {
			selectors = append(selectors, *t.LabelSelector)
		}
		for _, name := range t.ClusterNames {
			names[name] = true
		}
	}
	match, err := matchAny(selectors)
	if err != nil || len(names) == 0 {
		return match, err
	}
	return func(c *Cluster) bool { return names[c.Name] || match(c) }, nil
}

// matchAny compiles selectors to a function that reports whether a cluster
// matches at least one of them.
func matchAny(selectors []metav1.LabelSelector) (func(*Cluster) bool, error) {
	compiled := make([]labels.Selector, len(selectors))
	for i := range selectors {
		s, err := metav1.LabelSelectorAsSelector(&selectors[i])
		if err != nil {
			return nil, fmt.Errorf("label selector %d: %w", i, err)
		}
		compiled[i] = s
	}
	return func(c *Cluster) bool {
		return slices.ContainsFunc(compiled, func(s labels.Selector) bool { return s.Matches(labels.Set(c.Labels)) })
	}, nil
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
	// Path is a JSON pointer (RFC 6901). It cannot lead to kind, apiVersion, status, or metadata
	// other than labels and annotations.
	Path string `json:"path"`
	// Value is JSON, and absent for remove. In its strings and in names of fields,
	// ${MEMBER-CLUSTER-NAME} stands for the cluster's name and ${MEMBER-CLUSTER-LABEL-KEY-<key>} for
	// the value of one of its labels. A cluster without the label is an error. Substituted text is
	// not expanded again, and variables do not nest.
	Value json.RawMessage `json:"value,omitempty"`
}
