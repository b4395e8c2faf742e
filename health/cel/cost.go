package celhealth

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// deepCost charges calls that read a whole text, list or map for its content, at any depth,
// because CEL charges calls with values of unknown type like calls with numbers. It counts at
// most limit nodes of a value.
type deepCost struct{ limit uint64 }

// CallCost returns nil for a call whose cost CEL knows.
func (c deepCost) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	deep := false
	switch function {
	case operators.Equals, operators.NotEquals, operators.In, operators.OldIn, operators.Add, "hasValue", "join":
		deep = true
	case operators.Index, operators.OptIndex, operators.OptSelect, overloads.Matches:
		return nil
	}
	if function == operators.Add && textsOf(args) > textMost {
		dear := c.limit + 1 // stopped before another call reads the whole text
		return &dear
	}
	total := uint64(0)
	for _, a := range args {
		switch a := a.(type) {
		case types.String:
			total += 1 + uint64(len(a)/10)
		case types.Bytes:
			total += 1 + uint64(len(a)/10)
		default:
			if t := a.Type(); deep && (t == types.ListType || t == types.MapType || t == types.OptionalType) {
				total += c.count(a, c.limit)
			}
		}
	}
	if total == 0 {
		return nil
	}
	return &total
}

// textsOf returns the total length of the texts among the arguments, in bytes.
func textsOf(args []ref.Val) (n int) {
	for _, a := range args {
		switch a := a.(type) {
		case types.String:
			n += len(a)
		case types.Bytes:
			n += len(a)
		}
	}
	return n
}

// count returns the number of nodes of a value, at most about limit.
func (c deepCost) count(v any, limit uint64) (n uint64) {
	if limit == 0 {
		return 1
	}
	n = 1
	inside := func(v any) bool {
		n += c.count(v, limit-min(n, limit))
		return n < limit
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !inside(e) {
				break
			}
		}
	case []any:
		for _, e := range v {
			if !inside(e) {
				break
			}
		}
	case []ref.Val:
		for _, e := range v {
			if !inside(e) {
				break
			}
		}
	case map[ref.Val]ref.Val:
		for _, e := range v {
			if !inside(e) {
				break
			}
		}
	case string:
		n += uint64(len(v) / 10)
	case *types.Optional:
		if v.HasValue() {
			inside(v.GetValue())
		}
	case ref.Val:
		inside(v.Value())
	}
	return n
}
