package oam

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// document is one document while it is read.
type document struct {
	file string
	root *yaml.Node

	apiVersion, kind, namespace, name string

	problems Problems
}

// newDocument looks at who the document is, without reporting anything.
func newDocument(file string, root *yaml.Node) *document {
	d := &document{file: file, root: root}
	d.apiVersion, d.kind = d.peek("apiVersion"), d.peek("kind")
	d.namespace, d.name = d.peek("metadata", "namespace"), d.peek("metadata", "name")
	return d
}

func (d *document) value() value { return value{doc: d, node: d.root} }

// group is the API group that the document says.
func (d *document) group() string {
	g, _, found := strings.Cut(d.apiVersion, "/")
	if !found {
		return ""
	}
	return g
}

// peek returns the string at a path, or "".
func (d *document) peek(names ...string) string {
	v := d.value()
	for _, name := range names {
		next, ok := v.get(name)
		if !ok {
			return ""
		}
		v = next
	}
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!str" {
		return ""
	}
	return v.node.Value
}

func (d *document) report(line int, path, text string) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: line, Kind: clip(d.kind), Name: clip(d.name), Field: path, Text: text,
	})
}

// reportAt reports what is wrong at a path, with the line of the last part of it
// that is there.
func (d *document) reportAt(path, text string) {
	v := d.value()
	line := v.node.Line
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, ok := v.get(name)
		if i, err := strconv.Atoi(name); err == nil && v.node.Kind == yaml.SequenceNode && i >= 0 && i < len(v.node.Content) {
			next, ok = v.at(v.node.Content[i], ""), true
		}
		if !ok {
			break
		}
		v, line = next, next.node.Line
	}
	d.report(line, path, text)
}

// maxDepth bounds how deep a document is nested.
const maxDepth = 64

// isPlain tells that the document has neither aliases, which would let a few bytes
// stand for many, nor tags, and is not too deep.
func (d *document) isPlain() bool {
	return d.plain(d.root, 0)
}

func (d *document) plain(n *yaml.Node, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.report(n.Line, "", "anchors and aliases are not read; write the value out")
		return false
	case depth > maxDepth:
		d.report(n.Line, "", "is nested too deeply; at most "+strconv.Itoa(maxDepth)+" levels are read")
		return false
	}
	for _, c := range n.Content {
		if !d.plain(c, depth+1) {
			return false
		}
	}
	return true
}

// isObject tells that the document is an object that says what it is.
func (d *document) isObject() bool {
	if d.root.Kind != yaml.MappingNode {
		d.value().fail("must be an object with apiVersion and kind, not %s; separate documents by ---", d.value().describe())
		return false
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if d.peek(name) == "" {
			d.reportAt(name, "must be a string, and not empty")
		}
	}
	return len(d.problems) == 0
}

// version reports a version that is not the kind's.
func (d *document) version(want string) {
	if d.apiVersion != group+"/"+want {
		d.reportAt("apiVersion", "must be "+group+"/"+want+", not "+clip(d.apiVersion))
	}
}

// metadata reads who an object is; annotations may be nil.
func (v value) metadata(annotations func(map[string]string)) {
	v.object(fields{
		"name":      func(v value) { v.named(validation.IsDNS1123Subdomain) },
		"namespace": func(v value) { v.label() },
		"labels":    func(v value) { v.stringMap() },
		"annotations": func(v value) {
			if m := v.stringMap(); annotations != nil {
				annotations(m)
			}
		},
		"creationTimestamp": ignore, "deletionTimestamp": ignore, "deletionGracePeriodSeconds": ignore,
		"finalizers": ignore, "generation": ignore, "managedFields": ignore, "ownerReferences": ignore,
		"resourceVersion": ignore, "selfLink": ignore, "uid": ignore,
	}, "name", "namespace")
}
