package celhealth

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

// joinedMost is the greatest length of a result of join, in bytes.
const joinedMost = 64 << 10

// stringFunctions are the functions of ext.Strings whose result is not much larger than their
// arguments, because CEL counts the cost of a call afterwards: charAt, indexOf, lastIndexOf,
// lowerAscii, split, substring, trim and upperAscii. join is our own, with a limit; replace,
// format, quote and reverse are left out.
func stringFunctions() cel.EnvOption {
	list := cel.ListType(cel.StringType)
	library := ext.Strings(ext.StringsVersion(0))
	text := cel.StringType
	return func(e *cel.Env) (*cel.Env, error) {
		for _, o := range []cel.EnvOption{
			library,
			cel.Function("replace", cel.DisableDeclaration(true),
				cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text),
				cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, cel.IntType}, text)),
			cel.Function("join",
				cel.MemberOverload("list_join", []*cel.Type{list}, text, cel.UnaryBinding(func(l ref.Val) ref.Val {
					return join(l, types.String(""))
				})),
				cel.MemberOverload("list_join_string", []*cel.Type{list, text}, text, cel.BinaryBinding(join))),
		} {
			var err error
			if e, err = o(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}

// join returns the texts of a list with a separator between them.
func join(list, separator ref.Val) ref.Val {
	l, ok := list.(traits.Lister)
	sep, text := separator.(types.String)
	if !ok || !text {
		return types.MaybeNoSuchOverloadErr(list)
	}
	var out strings.Builder
	for it := l.Iterator(); it.HasNext() == types.True; {
		s, ok := it.Next().(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(list)
		}
		if out.Len() > 0 {
			out.WriteString(string(sep))
		}
		if out.WriteString(string(s)); out.Len() > joinedMost {
			return types.WrapErr(fmt.Errorf("the joined text has more than %d bytes", joinedMost))
		}
	}
	return types.String(out.String())
}
