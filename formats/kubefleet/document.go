package kubefleet

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// document is one document while it is read.
type document struct {
	file string
	// before counts the lines in front of the chunk the document is in.
	before int
	root   *yaml.Node

	apiVersion, kind, namespace, name string

	problems Problems
	// more counts the problems that are not kept.
	more int
	// broken are the paths that have a problem.
	broken map[string]bool
}

// newDocument looks at who the document is, without reporting anything.
func newDocument(file string, before int, root *yaml.Node) *document {
	d := &document{file: file, before: before, root: root, broken: map[string]bool{}}
	d.apiVersion, d.kind = d.peek("apiVersion"), d.peek("kind")
	d.namespace, d.name = d.peek("metadata", "namespace"), d.peek("metadata", "name")
	return d
}

func (d *document) value() value { return value{doc: d}.at(d.root, "") }

// peek returns the string at a path, or "".
func (d *document) peek(names ...string) string {
	v := d.value()
	for _, name := range names {
		var ok bool
		if v, ok = v.get(name); !ok {
			return ""
		}
	}
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!str" {
		return ""
	}
	return v.node.Value
}

// line turns a line of the chunk into one of the input.
func (d *document) line(n int) int { return d.before + n }

func (d *document) report(line int, path, text string) {
	if len(d.problems) >= maxProblems {
		d.more++
		return
	}
	d.broken[path] = true
	d.problems = append(d.problems, Problem{
		File: d.file, Line: d.line(line), Kind: clip(d.kind), Name: clip(d.name), Field: path, Text: text,
	})
}

// failed tells that a problem was reported at the path or above it.
func (d *document) failed(path string) bool {
	for {
		if d.broken[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// check reports what a noun says is wrong with itself, at the fields that it
// was read from: place turns a path in the noun into one in the document.
// Where something was reported already, the noun only sees what is left of it.
func (d *document) check(err error, place func(string) string) {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		return
	}
	for _, e := range agg.Errors() {
		var fe *field.Error
		if !errors.As(e, &fe) {
			continue
		}
		if path := place(fe.Field); !d.failed(path) {
			d.report(d.find(path), path, fe.ErrorBody())
		}
	}
}

// find returns the line of the path, or of the last part of it that is there.
func (d *document) find(path string) int {
	v := d.value()
	line := v.node.Line
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, ok := v.get(name)
		if i, err := strconv.Atoi(name); err == nil && v.node.Kind == yaml.SequenceNode && i < len(v.node.Content) {
			next, ok = v.at(v.node.Content[i], ""), true
		}
		if !ok {
			break
		}
		v, line = next, next.node.Line
	}
	return line
}

// metadata is what a kind has in its metadata.
type metadata struct {
	namespaced bool
	// name reads the name: value.subdomain, or value.dnsLabel where that is
	// nil.
	name func(value)
	// labels reads the labels, where that is not nil.
	labels func(value)
}

// read reads a document of one of KubeFleet's kinds: spec reads its spec.
func (d *document) read(m metadata, spec func(value), required ...string) {
	d.value().object(fields{
		"apiVersion": ignore,
		"kind":       ignore,
		"status":     ignore,
		"metadata":   func(v value) { v.metadata(m) },
		"spec":       spec,
	}, append(required, "metadata")...)
}

func (v value) metadata(m metadata) {
	if m.labels == nil {
		m.labels = func(v value) { v.stringMap() }
	}
	if m.name == nil {
		m.name = value.dnsLabel
	}
	required := []string{"name"}
	namespace := func(v value) { v.fail("a %s is cluster-scoped; leave it out", v.doc.kind) }
	if m.namespaced {
		required, namespace = append(required, "namespace"), value.dnsLabel
	}
	v.object(fields{
		"name": m.name, "namespace": namespace, "labels": m.labels,
		"annotations":       func(v value) { v.stringMap() },
		"creationTimestamp": ignore, "deletionTimestamp": ignore, "deletionGracePeriodSeconds": ignore,
		"finalizers": ignore, "generation": ignore, "managedFields": ignore, "ownerReferences": ignore,
		"resourceVersion": ignore, "selfLink": ignore, "uid": ignore,
	}, required...)
}

// dnsLabel reads a name and reports one that is no DNS label.
func (v value) dnsLabel() { v.named(validation.IsDNS1123Label) }

// subdomain reads a name and reports one that is no DNS subdomain.
func (v value) subdomain() { v.named(validation.IsDNS1123Subdomain) }

func (v value) named(check func(string) []string) {
	s := v.str()
	if v.doc.broken[v.path] {
		return
	}
	for _, msg := range check(s) {
		v.fail("%q: %s", clip(s), msg)
	}
}

// engineName is what the engine calls the document's object.
func (d *document) engineName(namespaced bool) string {
	if !namespaced {
		return EngineName("", d.name)
	}
	return EngineName(d.namespace, d.name)
}
