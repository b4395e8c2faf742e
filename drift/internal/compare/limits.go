package compare

import (
	"fmt"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// CheckLimits checks an object against the limits.
func CheckLimits(o map[string]any) error {
	left := value.MaxNodes
	if value.Measure(o, value.MaxDepth, &left) {
		return nil
	}
	if left < 0 {
		return fmt.Errorf("it has more than %d values", value.MaxNodes)
	}
	path, kind := offender(o, value.MaxDepth)
	if kind != "" {
		return fmt.Errorf("%s: a %s is no JSON value", fieldpath.Describe(path), kind)
	}
	return fmt.Errorf("%s: it is nested more than %d levels deep", fieldpath.Describe(path), value.MaxDepth)
}

// offender returns the path of the first value, in the order of names, that Measure refuses, and
// its type if that is the reason.
func offender(v any, depth int) ([]fieldpath.Step, string) {
	left := value.MaxNodes
	if value.Measure(v, depth, &left) {
		return nil, ""
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range value.SortedKeys(v) {
			if left = value.MaxNodes; depth > 0 && !value.Measure(v[name], depth-1, &left) {
				path, kind := offender(v[name], depth-1)
				return append([]fieldpath.Step{{Name: name}}, path...), kind
			}
		}
	case []any:
		for i, e := range v {
			if left = value.MaxNodes; depth > 0 && !value.Measure(e, depth-1, &left) {
				path, kind := offender(e, depth-1)
				return append([]fieldpath.Step{{Item: true, Hub: i, Member: i}}, path...), kind
			}
		}
	default:
		return nil, fmt.Sprintf("%T", v)
	}
	return nil, ""
}
