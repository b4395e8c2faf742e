package arch

import (
	"go/ast"
	"reflect"
	"strings"
	"testing"
)

// durations reports fields of documents with the type time.Duration, which encoding/json writes in
// nanoseconds.
func (c *checker) durations() {
	if c.test {
		return
	}
	ast.Inspect(c.ast, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if !ok || f.Tag == nil {
			return true
		}
		name, ok := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Lookup("json")
		if ok && name != "-" && c.hasDuration(f.Type) {
			c.report(f, "json:%q is a time.Duration; use metav1.Duration, which is a text such as 10s in JSON and YAML", name)
		}
		return true
	})
}

// hasDuration reports whether a type is or contains time.Duration.
func (c *checker) hasDuration(t ast.Expr) (found bool) {
	ast.Inspect(t, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Duration" {
			id, ok := s.X.(*ast.Ident)
			found = found || ok && c.imported(id.Name) == "time"
		}
		_, inner := n.(*ast.StructType) // its fields have tags of their own
		return !inner
	})
	return found
}

func TestNoDocumentHasNanoseconds(t *testing.T) {
	const nanoseconds = "is a time.Duration"
	meta := "import metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n"
	for _, p := range []planted{
		{"fleet/x.go", "package x\nimport \"time\"\ntype T struct { Wait time.Duration `json:\"wait\"` }\n", nanoseconds},
		{"fleet/x.go", "package x\nimport \"time\"\ntype T struct { Wait []*time.Duration `yaml:\"w\" json:\"wait,omitempty\"` }\n", nanoseconds},
		{"stages/x.go", "package x\nimport clock \"time\"\ntype t struct { Wait map[string]clock.Duration `json:\"wait\"` }\n", nanoseconds},
		{"fleet/x.go", "package x\nimport \"time\"\ntype T struct { Wait time.Duration `json:\"-\"` }\n", ""},
		{"fleet/x.go", "package x\nimport \"time\"\ntype T struct { Wait time.Duration }\n", ""},
		{"fleet/x_test.go", "package x\nimport \"time\"\ntype T struct { Wait time.Duration `json:\"wait\"` }\n", ""},
		{"fleet/x.go", "package x\n" + meta + "type T struct { Wait metav1.Duration `json:\"wait\"` }\n", ""},
	} {
		p.check(t)
	}
}
