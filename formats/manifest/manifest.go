// Package manifest reads objects of Kubernetes from files of YAML and JSON: several documents of each, and lists of
// objects. A host reads with it what was asked for in files, to compare it with a cluster by package drift or to
// roll it out.
//
// Documents are read as kubectl reads them, by YAML 1.1 and with the numbers of Kubernetes, which are exact to 64
// bits. What kubectl accepts and is mostly a mistake is refused: a key that is there twice, an object without a
// name, and the same object twice.
//
// An input is not trusted: how long it is and how many problems are reported is bounded, and a problem repeats no
// long value of it.
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
	// MaxBytes, 256 MiB, is how long an input is at most.
	MaxBytes = 256 << 20
	// MaxDocumentBytes, 10 MiB, is how long each of its documents is at most.
	MaxDocumentBytes = 10 << 20
	// MaxProblems is how many problems an error has at most.
	MaxProblems = 20
)

// Object is one object of an input, and where it is there.
type Object struct {
	*unstructured.Unstructured

	Place Place
}

// Place is where a document begins.
type Place struct {
	// File is what stands for the input in problems.
	File string
	// Line and Document are counted from 1.
	Line, Document int
}

// String returns the place as problems begin: file:line: document n.
func (p Place) String() string { return fmt.Sprintf("%s:%d: document %d", p.File, p.Line, p.Document) }

// Read reads all objects of an input, in their order, with those of lists one by one; there are none where it is empty
// or has only lists without items. The name stands for the input in errors.
//
// The error is that of r, or has all that is wrong with the input, up to [MaxProblems], each on a line that begins with
// its [Place]. No objects come with an error.
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
		// YAML has no such line inside of a document, not even in a block of text, and JSON has none.
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
	// at is where the document is that is being read.
	at       Place
	objects  []Object
	seen     map[identity]Place
	problems []error
}

// identity is what an object may be in an input once.
type identity struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// document reads what is between two marks: a document of YAML, or values of JSON one after the other.
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
	if err != nil { // once more where it is in the file, for the line in the error
		_, err = yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), r.at.Line-1), text...))
		r.report("%w", err)
		return
	}
	r.value(converted)
}

// stream reads values of JSON. It reports false where there is none: YAML may begin in the same way.
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

// value takes what a document says as JSON.
func (r *reader) value(text []byte) {
	var v any
	strict, err := kjson.UnmarshalStrict(text, &v)
	if err := errors.Join(append(strict, err)...); err != nil {
		r.report("%w", err)
		return
	}
	r.take(v, "")
}

// take takes an object, or a list of them; item is where it is in the document.
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

// report reports what is wrong with the document, on one line and without long values of it.
func (r *reader) report(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Errorf(format, args...).Error()), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", r.at, text))
}
