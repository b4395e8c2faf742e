package planner

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// pick describes how a stage or a group picks clusters.
type pick struct {
	selector *metav1.LabelSelector
	names    []string
	// new picks the clusters that have nothing of the placement, and leaves none of them to other
	// picks.
	new bool
}

// pickers finds the picks that match a cluster. Selectors for the value of one label, which are the
// most common, are found by a map, and so are names. The others are tried one by one.
type pickers struct {
	// new is 1 plus the index of the pick of new clusters; 0 if there is none.
	new    int
	names  map[string][]int
	equal  []equalTerms
	others []otherTerm
}

// equalTerms holds the selectors for the value of one label.
type equalTerms struct {
	key    string
	values map[string][]int
}

type otherTerm struct {
	index    int
	selector labels.Selector
}

// newPickers builds pickers from valid selectors.
func newPickers(picks []pick) pickers {
	var p pickers
	for i, pick := range picks {
		if pick.new {
			p.new = i + 1
		}
		p.name(i, pick.names)
		sel := pick.selector
		if sel == nil {
			continue
		}
		if len(sel.MatchLabels) == 1 && len(sel.MatchExpressions) == 0 {
			for key, value := range sel.MatchLabels {
				p.lookUp(i, key, value)
			}
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(sel)
		if err == nil {
			p.others = append(p.others, otherTerm{i, selector})
		}
	}
	return p
}

// name adds the names that a pick lists.
func (p *pickers) name(index int, names []string) {
	if p.names == nil && len(names) > 0 {
		p.names = map[string][]int{}
	}
	for _, n := range names {
		p.names[n] = append(p.names[n], index)
	}
}

func (p *pickers) lookUp(i int, key, value string) {
	for _, e := range p.equal {
		if e.key == key {
			e.values[value] = append(e.values[value], i)
			return
		}
	}
	p.equal = append(p.equal, equalTerms{key, map[string][]int{value: {i}}})
}

// pick returns the indexes of the picks that match, ascending. It reuses the memory of into.
func (p *pickers) pick(c *candidate, into []int) []int {
	if p.new > 0 && c.isNew {
		return append(into[:0], p.new-1)
	}
	set := c.Labels
	picked := append(into[:0], p.names[c.Name]...)
	for _, e := range p.equal {
		if value, ok := set[e.key]; ok {
			picked = append(picked, e.values[value]...)
		}
	}
	for _, o := range p.others {
		if o.selector.Matches(labels.Set(set)) {
			picked = append(picked, o.index)
		}
	}
	if len(picked) > 1 {
		slices.Sort(picked)
	}
	return picked
}
