package fieldpath

// Trail is a path with the values at each step.
type Trail []Location

// Location is a step of a trail.
type Location struct {
	Step
	InHub, InMember any
}

// Follow appends the trail of a path through two objects. Missing values are nil.
func Follow(t Trail, path []Step, hub, member any) Trail {
	for _, s := range path {
		hub, member = s.valueIn(hub, s.Hub), s.valueIn(member, s.Member)
		t = append(t, Location{s, hub, member})
	}
	return t
}

// valueIn returns the value at a step from v.
func (s Step) valueIn(v any, index int) any {
	if !s.Item {
		m, _ := v.(map[string]any)
		return m[s.Name]
	}
	l, _ := v.([]any)
	if index < 0 || index >= len(l) {
		return nil
	}
	return l[index]
}

// Matches reports whether a pattern matches the whole trail.
func (t Trail) Matches(p Pattern) bool {
	for i, g := range p {
		if !g.Matches(t[i].Step, t[i].InHub, t[i].InMember) {
			return false
		}
	}
	return true
}

// Within reports whether a pattern matches the trail or a prefix of it.
func (t Trail) Within(p Pattern) bool { return len(p) <= len(t) && t.Matches(p) }

// Without returns a value without the parts that patterns match. The value is not changed. It
// returns false if nothing is left.
func Without(v any, patterns []Pattern) (any, bool) {
	if len(patterns) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			if left, ok := withoutBelow(e, Step{Name: name}, patterns); ok {
				out[name] = left
			}
		}
		return out, len(out) > 0 || len(v) == 0
	case []any:
		out := make([]any, 0, len(v))
		for i, e := range v {
			if left, ok := withoutBelow(e, Step{Item: true, Hub: i, Member: i}, patterns); ok {
				out = append(out, left)
			}
		}
		return out, len(out) > 0 || len(v) == 0
	}
	return v, true
}

func withoutBelow(v any, s Step, patterns []Pattern) (any, bool) {
	var below []Pattern
	for _, p := range patterns {
		if !p[0].Matches(s, v, v) {
			continue
		}
		if len(p) == 1 {
			return nil, false
		}
		below = append(below, p[1:])
	}
	return Without(v, below)
}
