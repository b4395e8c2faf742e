// Package manifest reads Kubernetes objects from YAML and JSON files, including several documents
// and lists of objects. A host uses it to read the desired objects from files, to compare them
// with a cluster by package drift or to roll them out.
//
// Documents are read like kubectl reads them, as YAML 1.1 and with the numbers of Kubernetes,
// which are exact to 64 bits. Some input that kubectl accepts is mostly a mistake and is refused:
// a duplicate key, an object without a name, and a duplicate object.
//
// An input is not trusted: its length and the number of reported problems are limited, and a
// problem repeats no long value of it.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The limits of an input.
const (
	// MaxBytes is the greatest length of an input: 256 MiB.
	MaxBytes = 256 << 20
	// MaxDocumentBytes is the greatest length of a document: 10 MiB.
	MaxDocumentBytes = 10 << 20
	// MaxProblems is the greatest number of problems in an error.
	MaxProblems = 20
)

// Object is one object of an input, with its place.
type Object struct {
	*unstructured.Unstructured

	Place Place
}

// Place is the beginning of a document.
type Place struct {
	// File stands for the input in problems.
	File string
	// Line and Document are counted from 1.
	Line, Document int
}

// String returns the place in the form of problems: file:line: document n.
func (p Place) String() string { return fmt.Sprintf("%s:%d: document %d", p.File, p.Line, p.Document) }

// Read reads all objects of an input, in their order, with the items of lists one by one. An
// empty input, or one with only empty lists, has no objects. The name stands for the input in
// errors.
//
// The error is the error of r, or lists the problems of the input, up to [MaxProblems], each on a
// line that begins with its [Place]. No objects come with an error.
func Read(r io.Reader, name string) ([]Object, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("%s: is longer than %d MiB", name, MaxBytes>>20)
	}
	rd := &reader{at: Place{File: name, Line: 1}, seen: map[identity]Place{}}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	start, offset, line := 0, 0, 1
	for text := range bytes.Lines(data) {
		// YAML never contains such a line inside a document, not even in a block of text, and neither
		// does JSON.
		if mark := string(bytes.TrimRight(text[:min(4, len(text))], " \t\r\n")); mark == "---" || mark == "..." {
			rd.document(data[start:offset])
			start, rd.at.Line = offset+len(mark), line
		}
		offset += len(text)
		line++
	}
	rd.document(data[start:])
	switch n := len(rd.problems); {
	case n > MaxProblems:
		return nil, errors.Join(append(slices.Clone(rd.problems[:MaxProblems]), errors.New("and more"))...)
	case n > 0:
		return nil, errors.Join(rd.problems...)
	}
	return rd.objects, nil
}

// reader reads one input.
type reader struct {
	// at is the place of the current document.
	at       Place
	objects  []Object
	seen     map[identity]Place
	problems []error
}

// identity is unique for each object of an input.
type identity struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// document reads the text between two markers: a document of YAML, or consecutive values of JSON.
func (r *reader) document(text []byte) {
	for line := range bytes.Lines(text) { // comments, directives and blank lines in front
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' && l[0] != '%' {
			break
		}
		text = text[len(line):]
		r.at.Line++
	}
	if len(text) == 0 || len(r.problems) > MaxProblems {
		return
	}
	r.at.Document++
	switch {
	case len(text) > MaxDocumentBytes:
		r.report("is longer than %d MiB", MaxDocumentBytes>>20)
		return
	case !utf8.Valid(text):
		r.report("is not UTF-8")
		return
	case bytes.TrimSpace(text)[0] == '{' && r.stream(text):
		return
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil { // parses again at its place, for the line in the error
		_, err = yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), r.at.Line-1), text...))
		r.report("%w", err)
		return
	}
	r.value(converted)
}

// stream reads values of JSON. It returns false if there are none, because YAML may begin in the
// same way.
func (r *reader) stream(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	for first := true; len(r.problems) <= MaxProblems; first = false {
		var one json.RawMessage
		err := d.Decode(&one)
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil && first:
			return false
		case !first:
			r.at.Document++
		}
		if err != nil {
			r.report("is not JSON: %w", err)
			return true
		}
		r.value(one)
	}
	return true
}

// value reads a document that is JSON.
func (r *reader) value(text []byte) {
	var v any
	strict, err := kjson.UnmarshalStrict(text, &v)
	if err := errors.Join(append(strict, err)...); err != nil {
		r.report("%w", err)
		return
	}
	r.take(v, "")
}

// take adds an object, or a list of them; item is its position in the document.
func (r *reader) take(v any, item string) {
	o, is := v.(map[string]any)
	u := &unstructured.Unstructured{Object: o}
	items, list := o["items"]
	switch {
	case v == nil:
		return
	case list && strings.HasSuffix(u.GetKind(), "List") && u.GetName() == "":
		all, is := items.([]any)
		if !is && items != nil {
			r.report("%sitems must be a list", item)
		}
		for i := range all {
			r.take(all[i], fmt.Sprintf("%sitems[%d]: ", item, i))
		}
		return
	case !is:
		r.report("%smust be an object with apiVersion, kind and metadata", item)
		return
	}
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		if s, _, err := unstructured.NestedString(o, path...); err != nil || s == "" {
			r.report("%s%s must be text, and not empty", item, strings.Join(path, "."))
			return
		}
	}
	if _, err := schema.ParseGroupVersion(u.GetAPIVersion()); err != nil {
		r.report("%sapiVersion: %w", item, err)
		return
	}
	if namespace, _, _ := unstructured.NestedFieldNoCopy(o, "metadata", "namespace"); namespace != nil && u.GetNamespace() == "" {
		r.report("%smetadata.namespace must be text, and not empty", item)
		return
	}
	id := identity{u.GroupVersionKind(), u.GetNamespace(), u.GetName()}
	if other, twice := r.seen[id]; twice {
		name := strings.TrimPrefix(id.namespace+"/"+id.name, "/")
		r.report("%s%s %s is there already, in document %d on line %d", item, u.GetKind(), name, other.Document, other.Line)
		return
	}
	r.seen[id] = r.at
	r.objects = append(r.objects, Object{u, r.at})
}

// report reports a problem of the document, on one line and without long values of it.
func (r *reader) report(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Errorf(format, args...).Error()), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", r.at, text))
}
