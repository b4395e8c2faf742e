package placement

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Term is a requirement on the labels and properties of a cluster; all of them must match. An
// empty term matches every cluster. Its JSON is a label selector with an optional list of
// properties.
type Term struct {
	// LabelSelector matches every cluster when empty.
	metav1.LabelSelector
	// Properties must all hold.
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
	// Sorter gives clusters a share of the weight by a property. Without a sorter they get all of
	// it.
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

// Measures reports whether the clusters that the policy picks, or their scores, depend on
// properties of clusters.
func (p Policy) Measures() bool {
	return slices.ContainsFunc(p.Required, func(t Term) bool { return len(t.Properties) > 0 }) ||
		slices.ContainsFunc(p.Preferred, func(f Preference) bool { return f.Sorter != nil })
}

// terms returns a function that reports whether a cluster matches the Required terms of a valid
// policy.
func (p Policy) terms() (func(*Cluster) bool, error) {
	if len(p.Required) == 0 {
		return func(*Cluster) bool { return true }, nil
	}
	compiled := make([]labels.Selector, len(p.Required))
	for i := range p.Required {
		s, err := metav1.LabelSelectorAsSelector(&p.Required[i].LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("required[%d]: %w", i, err)
		}
		compiled[i] = s
	}
	return func(c *Cluster) bool {
		for i, s := range compiled {
			if s.Matches(labels.Set(c.Labels)) && c.has(p.Required[i].Properties) {
				return true
			}
		}
		return false
	}, nil
}

func selectorOrAll(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

func (c *Cluster) has(requirements []PropertyRequirement) bool {
	return !slices.ContainsFunc(requirements, func(r PropertyRequirement) bool { return !r.holds(c) })
}

func (r PropertyRequirement) holds(c *Cluster) bool {
	q, ok := c.property(r.Name)
	if !ok {
		return false
	}
	order := q.Cmp(r.Value)
	switch r.Operator {
	case Gt:
		return order > 0
	case Ge:
		return order >= 0
	case Eq:
		return order == 0
	case Ne:
		return order != 0
	case Lt:
		return order < 0
	case Le:
		return order <= 0
	}
	return false
}

// affinities returns the sum of the preferences for each cluster.
func (p Policy) affinities(clusters []*Cluster) ([]int, error) {
	sums := make([]int, len(clusters))
	for _, pref := range p.Preferred {
		match, err := selectorOrAll(pref.LabelSelector)
		if err != nil {
			return nil, err
		}
		share := pref.shares(clusters)
		for i, c := range clusters {
			if match.Matches(labels.Set(c.Labels)) {
				sums[i] += share(c)
			}
		}
	}
	return sums, nil
}

// shares returns the points of a cluster that the label selector matches.
func (p Preference) shares(clusters []*Cluster) func(*Cluster) int {
	if p.Sorter == nil {
		return func(*Cluster) int { return p.Weight }
	}
	low, high := p.Sorter.span(clusters)
	return func(c *Cluster) int {
		q, ok := c.property(p.Sorter.Name)
		if !ok {
			return 0
		}
		part := 1.0
		if high > low {
			part = (q.AsApproximateFloat64() - low) / (high - low)
			if p.Sorter.Order == Ascending {
				part = 1 - part
			}
		}
		return int(math.Round(float64(p.Weight) * part))
	}
}

// span returns the least and the greatest value of the property.
func (s PropertySorter) span(clusters []*Cluster) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range clusters {
		if q, ok := c.property(s.Name); ok {
			v := q.AsApproximateFloat64()
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}
