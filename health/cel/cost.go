package celhealth

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// deepCost charges calls that read all of a text, a list or a map for what is in it, at any depth: CEL charges those of
// values whose type it does not know as calls with numbers. Of a value at most limit nodes are counted.
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
		dear := c.limit + 1 // it is stopped before another call reads all of the text
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

// textsOf returns how many bytes the arguments have that are texts.
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

// count returns how many nodes a value has, at most about limit.
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
