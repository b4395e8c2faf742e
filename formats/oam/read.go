package oam

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/formats/problem"
)

// MaxBytes is the greatest size of an input of [Read].
const MaxBytes = yamldoc.MaxBytes

// group is the API group of the supported kinds.
const group = "core.oam.dev"

// Read reads YAML documents, or JSON, which is YAML, in the form that kubectl apply accepts. Errors
// use the name for the input.
//
// The error is a [problem.List] with all problems of all documents, or the error of r. A document
// with a problem is left out; the others are returned with the error.
func Read(r io.Reader, name string) (Documents, error) {
	docs, err := yamldoc.Read(r, name)
	if err != nil {
		return Documents{}, err
	}
	rd := &reader{seen: map[string]int{}}
	for d := range docs {
		if !d.IsEmpty() {
			rd.document(d)
		}
		rd.problems.Include(&d.Report)
	}
	return rd.out, rd.problems.Err()
}

// reader collects the documents of one input.
type reader struct {
	out      Documents
	problems yamldoc.Report
	// seen has the lines of the documents by their identity.
	seen map[string]int
}

func (r *reader) document(d *document) {
	d.Identify()
	if isObject(d) {
		r.identify(d)
		r.kind(d)
	}
}

// identify reports a duplicate document.
func (r *reader) identify(d *document) {
	of, _, _ := strings.Cut(d.APIVersion, "/")
	id := strings.Join([]string{of, d.Kind, d.Namespace, d.Name}, "\x00")
	if line, ok := r.seen[id]; ok && d.Name != "" {
		d.Tell(d.Root().Line(), "metadata.name", fmt.Sprintf("is there already, in the document on line %d; names are unique in their kind", line))
		return
	}
	r.seen[id] = d.Root().Line()
}

func (r *reader) kind(d *document) {
	m, _ := d.Root().Tree().(map[string]any)
	obj := &unstructured.Unstructured{Object: m}
	switch {
	case groupOf(d) != group && d.Name == "":
		d.Root().Place("metadata.name").Fail("must be a string, and not empty")
	case groupOf(d) != group:
		take(d, &r.out.Objects, obj)
	case d.Kind == "Application":
		take(d, &r.out.Applications, application(d))
	case d.Kind == "Policy":
		take(d, &r.out.Policies, policyObject(d))
	case d.Kind == "Workflow":
		take(d, &r.out.Workflows, workflow(d))
	default:
		d.Root().Place("kind").Fail("this kind is not supported; supported are Application, Policy and Workflow")
	}
	take(d, &r.out.All, obj)
}

// take appends the value of a document without problems.
func take[T any](d *document, list *[]T, x T) {
	if d.OK() {
		*list = append(*list, x)
	}
}

// ApplicationOf reads an Application from an API server, like [Read] reads a document. The error
// is a [problem.List] without files and lines.
func ApplicationOf(obj *unstructured.Unstructured) (Application, error) {
	return one(obj, "Application", application)
}

// PolicyOf reads a Policy, like [ApplicationOf] reads an application.
func PolicyOf(obj *unstructured.Unstructured) (Policy, error) {
	return one(obj, "Policy", policyObject)
}

// WorkflowOf reads a Workflow, like [ApplicationOf] reads an application.
func WorkflowOf(obj *unstructured.Unstructured) (Workflow, error) {
	return one(obj, "Workflow", workflow)
}

func one[T any](obj *unstructured.Unstructured, kind string, read func(*document) T) (x T, err error) {
	if obj == nil || obj.GetKind() != kind || obj.GroupVersionKind().Group != group {
		return x, problem.List{{Text: "must be an object of kind " + kind + " of " + group}}
	}
	tree := yamldoc.Plain(obj.Object)
	if tree == nil {
		return x, problem.List{{Kind: kind, Name: obj.GetName(), Text: "has no JSON form"}}
	}
	d := yamldoc.New("")
	if d.Open(yamldoc.NodeOf(tree), ""); d.IsEmpty() {
		return x, d.Err()
	}
	d.Identify()
	if got := read(d); d.OK() {
		return got, nil
	}
	return x, d.Err()
}
