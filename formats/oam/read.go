package oam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxBytes is how much [Read] reads at most.
const MaxBytes = 4 << 20

// group is the API group of the kinds that are read.
const group = "core.oam.dev"

// Read reads YAML documents, and JSON, which is YAML, as kubectl apply takes them.
// The name stands for the input in errors.
//
// The error, if there is one, is a [Problems] with everything that is wrong with
// every document, or that of r. A document with a problem is left out; the others
// are returned with the error. Where the input is no YAML, what is behind that
// place is not read.
func Read(r io.Reader, name string) (Documents, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return Documents{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return Documents{}, Problems{{File: name, Line: 1, Text: fmt.Sprintf("is longer than %d bytes; split it", MaxBytes)}}
	}
	rd := &reader{file: name, seen: map[string]int{}}
	nodes, err := parse(data)
	for _, n := range nodes {
		rd.document(newDocument(name, n))
	}
	if err != nil {
		rd.problems = append(rd.problems, syntaxProblem(name, err))
	}
	return rd.out, rd.problems.asError()
}

// parse returns the documents before the first syntax error, and that error.
func parse(data []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser is not ours, the input is anybody's
			err = errors.New("the parser cannot read this")
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, err
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
			docs = append(docs, n.Content[0])
		}
	}
}

func syntaxProblem(file string, err error) Problem {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return Problem{File: file, Line: line, Text: "is not YAML: " + clip(text)}
}

// reader collects what is read from one input.
type reader struct {
	file     string
	out      Documents
	problems Problems
	// seen are the lines of the documents by their identity.
	seen map[string]int
}

func (r *reader) document(d *document) {
	if d.value().isNull() {
		return
	}
	if d.isPlain() && d.isObject() {
		r.identify(d)
		r.kind(d)
	}
	r.problems = append(r.problems, d.problems...)
}

// identify reports a document that stands in the input twice.
func (r *reader) identify(d *document) {
	of, _, _ := strings.Cut(d.apiVersion, "/")
	id := strings.Join([]string{of, d.kind, d.namespace, d.name}, "\x00")
	if line, ok := r.seen[id]; ok && d.name != "" {
		d.report(d.root.Line, "metadata.name", fmt.Sprintf("is there already, in the document on line %d; names are unique in their kind", line))
		return
	}
	r.seen[id] = d.root.Line
}

func (r *reader) kind(d *document) {
	switch {
	case d.group() != group:
		r.object(d)
	case d.kind == "Application":
		take(d, &r.out.Applications, d.application())
	case d.kind == "Policy":
		take(d, &r.out.Policies, d.policy())
	case d.kind == "Workflow":
		take(d, &r.out.Workflows, d.workflow())
	default:
		d.reportAt("kind", "this kind is not supported; supported are Application, Policy and Workflow")
	}
}

// take appends what was read from a document without problems.
func take[T any](d *document, list *[]T, x T) {
	if len(d.problems) == 0 {
		*list = append(*list, x)
	}
}

// object reads a document of any other kind.
func (r *reader) object(d *document) {
	if d.name == "" {
		d.reportAt("metadata.name", "must be a string, and not empty")
		return
	}
	var m map[string]any
	if err := d.root.Decode(&m); err != nil {
		d.reportAt("", "is no object of an API: "+clip(err.Error()))
		return
	}
	b, err := json.Marshal(m)
	if err != nil {
		d.reportAt("", "has no JSON form: keys must be strings")
		return
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(b); err != nil {
		d.reportAt("", "is no object of an API: "+clip(err.Error()))
		return
	}
	take(d, &r.out.Objects, o)
}

// ApplicationOf reads an Application that an API server returned, as [Read] reads a
// document. The error is a [Problems] without files and lines.
func ApplicationOf(obj *unstructured.Unstructured) (Application, error) {
	return one(obj, "Application", (*document).application)
}

// PolicyOf reads a Policy, as [ApplicationOf] reads an application.
func PolicyOf(obj *unstructured.Unstructured) (Policy, error) {
	return one(obj, "Policy", (*document).policy)
}

// WorkflowOf reads a Workflow, as [ApplicationOf] reads an application.
func WorkflowOf(obj *unstructured.Unstructured) (Workflow, error) {
	return one(obj, "Workflow", (*document).workflow)
}

func one[T any](obj *unstructured.Unstructured, kind string, read func(*document) T) (x T, err error) {
	if obj == nil || obj.GetKind() != kind || obj.GroupVersionKind().Group != group {
		return x, Problems{{Text: "must be an object of kind " + kind + " of " + group}}
	}
	b, err := json.Marshal(obj.Object)
	if err != nil {
		return x, Problems{{Kind: kind, Name: obj.GetName(), Text: "has no JSON form"}}
	}
	nodes, err := parse(b)
	if err != nil || len(nodes) != 1 {
		return x, Problems{{Kind: kind, Name: obj.GetName(), Text: "cannot be read"}}
	}
	d := newDocument("", nodes[0])
	if got := read(d); len(d.problems) == 0 {
		return got, nil
	}
	for i := range d.problems {
		d.problems[i].Line = 0
	}
	return x, d.problems.asError()
}
