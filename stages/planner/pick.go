package planner

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// pick is how a stage or a group picks clusters.
type pick struct {
	selector *metav1.LabelSelector
	names    []string
	// new picks the clusters that have nothing of the placement, and leaves none of them to the others.
	new bool
}

// pickers answers which of several selectors match a set of labels. Selectors that ask for one label's value,
// as most do, are found by a map; the others are tried one by one. Names are found by a map too.
type pickers struct {
	// new is 1 more than the index of the one that picks new clusters; 0 for none.
	new    int
	names  map[string][]int
	equal  []equalTerms
	others []otherTerm
}

// equalTerms is the selectors that ask for the value of one label.
type equalTerms struct {
	key    string
	values map[string][]int
}

type otherTerm struct {
	index    int
	selector labels.Selector
}

// newPickers takes selectors that have been validated.
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

// name takes in the names that are picked.
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

// pick returns the selectors that match, ascending, in the memory of into.
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
