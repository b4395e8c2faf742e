package placement

import (
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
