package drift

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// The limits of an object of either side. Beyond them Compile returns an error
// that says where, and Compare does where what is beyond would be a difference.
const (
	// MaxDepth is how many maps and lists may lie in each other.
	MaxDepth = 128
	// MaxNodes is how many values an object may have altogether.
	MaxNodes = 1_000_000
)

// bounded checks an object against the limits.
func bounded(o map[string]any) error {
	left := MaxNodes
	if measure(o, MaxDepth, &left) {
		return nil
	}
	if left < 0 {
		return fmt.Errorf("it has more than %d values", MaxNodes)
	}
	path, kind := offender(o, MaxDepth)
	if kind != "" {
		return fmt.Errorf("%s: a %s is no JSON value", placeOf(path), kind)
	}
	return fmt.Errorf("%s: it is nested more than %d levels deep", placeOf(path), MaxDepth)
}

// measure tells whether a value is of JSON, at most depth levels deep, and has no
// more than left values.
func measure(v any, depth int, left *int) bool {
	switch v := v.(type) {
	case map[string]any:
		if *left -= len(v); depth == 0 || *left < 0 {
			return false
		}
		for _, e := range v {
			switch e.(type) {
			case string, nil, bool, int64:
			default:
				if !measure(e, depth-1, left) {
					return false
				}
			}
		}
		return true
	case []any:
		if *left -= len(v); depth == 0 || *left < 0 {
			return false
		}
		for _, e := range v {
			if !measure(e, depth-1, left) {
				return false
			}
		}
		return true
	default:
		return plain(v)
	}
}

// plain tells whether a value is null, true or false, a text or a number.
func plain(v any) bool {
	switch f := v.(type) {
	case nil, bool, string, int64:
		return true
	case float64:
		return !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	return number(v)
}

// offender returns the path of the first value, in the order of names, that
// measure refuses, and its type where that is the reason.
func offender(v any, depth int) ([]step, string) {
	left := MaxNodes
	if measure(v, depth, &left) {
		return nil, ""
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedNames(v) {
			if left = MaxNodes; depth > 0 && !measure(v[name], depth-1, &left) {
				path, kind := offender(v[name], depth-1)
				return append([]step{{name: name}}, path...), kind
			}
		}
	case []any:
		for i, e := range v {
			if left = MaxNodes; depth > 0 && !measure(e, depth-1, &left) {
				path, kind := offender(e, depth-1)
				return append([]step{{item: true, hub: i, member: i}}, path...), kind
			}
		}
	default:
		return nil, fmt.Sprintf("%T", v)
	}
	return nil, ""
}

// copied returns a deep copy of a value that is bounded.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, e := range v {
			c[name] = copied(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = copied(e)
		}
		return c
	}
	return v
}

func sortedNames(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
