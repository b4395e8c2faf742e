package oam

import (
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

type (
	document = yamldoc.Doc
	value    = yamldoc.Value
	fields   = yamldoc.Fields
)

// groupOf is the API group that the document says.
func groupOf(d *document) string {
	g, _, found := strings.Cut(d.APIVersion, "/")
	if !found {
		return ""
	}
	return g
}

// anchored returns what has an anchor or is an alias of one, which are not read here;
// nil where there is none.
func anchored(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, child := range n.Content {
		if found := anchored(child); found != nil {
			return found
		}
	}
	return nil
}

// isObject reports whether the document is an object that says what it is.
func isObject(d *document) bool {
	v := d.Root()
	if n := anchored(v.Node); n != nil {
		d.Tell(n.Line, "", "anchors and aliases are not read; write the value out")
		return false
	}
	if !v.IsObject() {
		v.Fail("must be an object with apiVersion and kind, not %s; separate documents by ---", v.Describe())
		return false
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if v.Peek(name) == "" {
			v.Place(name).Fail("must be a string, and not empty")
		}
	}
	return d.OK()
}

// version reports a version that is not the kind's.
func version(d *document, want string) {
	if d.APIVersion != group+"/"+want {
		d.Root().Place("apiVersion").Fail("must be %s/%s, not %s", group, want, yamldoc.Clip(d.APIVersion))
	}
}

// metadata reads who an object is; annotations may be nil.
func metadata(v value, annotations func(map[string]string)) {
	v.Object(yamldoc.Metadata(fields{
		"name":      func(v value) { v.Named(validation.IsDNS1123Subdomain) },
		"namespace": func(v value) { label(v) },
		"labels":    func(v value) { v.StringMap() },
		"annotations": func(v value) {
			if m := v.StringMap(); annotations != nil {
				annotations(m)
			}
		},
	}), "name", "namespace")
}

// unsupported reads a field that asks for something Slipway does not do.
func unsupported(v value) { v.Fail("is not supported; leave it out") }

func label(v value) string { return v.Named(validation.IsDNS1123Label) }

// distinct reads a list of strings of which each is there once.
func distinct(v value) (list []string) {
	seen := sets.New[string]()
	v.Each(func(v value) {
		s := v.NonEmpty()
		if s != "" && seen.Has(s) {
			v.Fail("%q is there already; leave one of the two", yamldoc.Clip(s))
			return
		}
		seen.Insert(s)
		list = append(list, s)
	})
	return list
}
