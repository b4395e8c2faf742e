package value

import (
	"maps"
	"math"
	"slices"
)

// The limits of a compared object.
const (
	// MaxDepth is the greatest depth of nested maps and lists.
	MaxDepth = 128
	// MaxNodes is the greatest number of values in an object.
	MaxNodes = 1_000_000
)

// Measure reports whether a value is JSON, at most depth levels deep, and has at most left
// values.
func Measure(v any, depth int, left *int) bool {
	switch v := v.(type) {
	case map[string]any:
		if *left -= len(v); depth == 0 || *left < 0 {
			return false
		}
		for _, e := range v {
			switch e.(type) {
			case string, nil, bool, int64:
			default:
				if !Measure(e, depth-1, left) {
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
			if !Measure(e, depth-1, left) {
				return false
			}
		}
		return true
	default:
		return IsScalar(v)
	}
}

// IsScalar reports whether a value is null, true or false, a text or a number.
func IsScalar(v any) bool {
	switch f := v.(type) {
	case nil, bool, string, int64:
		return true
	case float64:
		return !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	return IsNumber(v)
}

// Copy returns a deep copy of a value within the limits.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, e := range v {
			c[name] = Copy(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = Copy(e)
		}
		return c
	}
	return v
}

// SortedKeys returns the sorted keys of a map.
func SortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
