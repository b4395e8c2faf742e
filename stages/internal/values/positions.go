package values

import "slices"

// Positions are the indexes of groups by their names.
type Positions map[string]int

// PositionsOf returns the positions of groups with these names.
func PositionsOf(names []string) Positions {
	p := make(Positions, len(names))
	for i, name := range names {
		if _, twice := p[name]; !twice {
			p[name] = i
		}
	}
	return p
}

// Of returns the indexes of the groups that have one of the names, ascending.
func (p Positions) Of(names []string) []int {
	var out []int
	for _, name := range names {
		if i, ok := p[name]; ok {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
