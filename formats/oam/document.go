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

// groupOf returns the API group of the document.
func groupOf(d *document) string {
	g, _, found := strings.Cut(d.APIVersion, "/")
	if !found {
		return ""
	}
	return g
}

// anchored returns the first node with an anchor or an alias, because neither is supported here;
// nil if there is none.
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

// isObject reports whether the document is an object with apiVersion and kind.
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

// version reports an unknown version of the kind.
func version(d *document, want string) {
	if d.APIVersion != group+"/"+want {
		d.Root().Place("apiVersion").Fail("must be %s/%s, not %s", group, want, yamldoc.Clip(d.APIVersion))
	}
}

// metadata reads the metadata of an object; annotations may be nil.
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

// unsupported reads a field for a feature that Slipway does not have.
func unsupported(v value) { v.Fail("is not supported; leave it out") }

func label(v value) string { return v.Named(validation.IsDNS1123Label) }

// distinct reads a list of strings without duplicates.
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
