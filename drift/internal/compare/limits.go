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

// trustedValues is the number of values of a member that may differ before the walk counts all
// values of the member's object.
const trustedValues = 1 << 16

// extent bounds the values that findings hold, so that it measures a member's whole object only
// if they could exceed the limits.
type extent struct {
	// left is the number of values that may still be found before the whole object is measured.
	// After that measured is true, and refused is the reason to refuse the object, if any.
	left     int
	measured bool
	refused  error
}

// allows measures a finding's value on the member. If that is too deep, no JSON, or so large that
// the object may exceed the limits, it measures all of the member. It returns false if the object
// is refused.
func (e *extent) allows(f *Finding, member map[string]any) bool {
	if e.measured {
		return true
	}
	e.left--
	if e.left >= 0 && value.Measure(f.Member, value.MaxDepth-len(f.Path), &e.left) {
		return true
	}
	e.measured, e.refused = true, CheckLimits(member)
	return e.refused == nil
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
