package drift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Limits of what is read.
const (
	maxFile     = 256 << 20
	maxDocument = 10 << 20
	maxProblems = 20
)

// object is one object of a file, and where it is there.
type object struct {
	*unstructured.Unstructured

	at place
}

// place is where a document begins: file:line: document n, both from 1.
type place struct {
	file           string
	line, document int
}

func (p place) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: document %d: %w", p.file, p.line, p.document, fmt.Errorf(format, args...))
}

// reader reads one file. Documents are read as kubectl reads them, by YAML 1.1 and with the numbers that
// Kubernetes has; but a key that is there twice is an error.
type reader struct {
	at       place
	objects  []object
	problems []error
}

// readFile reads all objects of a file, none where it is empty or a list without items. The error is all that
// is wrong with it.
func readFile(file string, in io.Reader) ([]object, error) {
	r := &reader{at: place{file: fileName(file), line: 1}}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: is longer than %d MiB", r.at.file, maxFile>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	start, offset, line := 0, 0, 1
	for text := range bytes.Lines(data) {
		// YAML has no such line inside of a document, not even in a block of text, and JSON has none.
		if mark := string(bytes.TrimRight(text[:min(4, len(text))], " \t\r\n")); mark == "---" || mark == "..." {
			r.read(data[start:offset])
			start, r.at.line = offset+3, line
		}
		offset += len(text)
		line++
	}
	r.read(data[start:])
	return r.objects, first20(r.problems)
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// read reads what is between two marks: a document of YAML, or values of JSON one after the other.
func (r *reader) read(text []byte) {
	for line := range bytes.Lines(text) { // comments, directives and blank lines in front
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' && l[0] != '%' {
			break
		}
		text = text[len(line):]
		r.at.line++
	}
	if len(text) == 0 || len(r.problems) > maxProblems {
		return
	}
	r.at.document++
	switch {
	case len(text) > maxDocument:
		r.report("is longer than %d MiB", maxDocument>>20)
		return
	case !utf8.Valid(text):
		r.report("is not UTF-8")
		return
	case bytes.TrimSpace(text)[0] == '{' && r.stream(text):
		return
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil { // once more where it is in the file, for the line in the error
		_, err = yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), r.at.line-1), text...))
		r.report("%w", err)
		return
	}
	r.value(converted)
}

// stream reads values of JSON. It reports false where there is none: YAML may begin in the same way.
func (r *reader) stream(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	for first := true; len(r.problems) <= maxProblems; first = false {
		var one json.RawMessage
		err := d.Decode(&one)
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil && first:
			return false
		case !first:
			r.at.document++
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
	r.objects = append(r.objects, object{u, r.at})
}

// report reports what is wrong with the document, on one line and without long values of it.
func (r *reader) report(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Errorf(format, args...).Error()), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	r.problems = append(r.problems, r.at.errorf("%s", text))
}

// first20 is an error of the first problems.
func first20(problems []error) error {
	if len(problems) > maxProblems {
		problems = append(slices.Clone(problems[:maxProblems]), errors.New("and more"))
	}
	return errors.Join(problems...)
}
