package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Limits of what is read.
const (
	maxFile      = 256 << 20
	maxDocuments = 100_000
	maxDocument  = 10 << 20
	maxValues    = 1_000_000
	maxLevels    = 1_000
	maxComments  = 100_000
	maxProblems  = 20
)

// place is where something stands in the input.
type place struct {
	file string
	// line and document count from 1.
	line, document int
	// item is the index in a list, -1 for none.
	item int
}

// problem is something that is wrong at a place.
type problem struct {
	place
	text string
}

// Error returns file:line: document n: what is wrong.
func (p problem) Error() string {
	text := fmt.Sprintf("%s:%d: document %d", p.file, p.line, p.document)
	if p.item >= 0 {
		text += fmt.Sprintf(", items[%d]", p.item)
	}
	return text + ": " + p.text
}

// object is one object of a file.
type object struct {
	*unstructured.Unstructured

	at place
}

// identity is what objects are matched by.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func (o object) identity() identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// reader reads one file.
type reader struct {
	file               string
	documents          int
	objects            []object
	warnings, problems []error
}

// readFile reads all objects of a file, none where it is empty or a list without
// items. The error is all that is wrong with it.
func readFile(name string, in io.Reader) (objects []object, warnings []error, err error) {
	r := &reader{file: name}
	if name == "-" {
		r.file = "standard input"
	}
	data, err := load(name, in)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.file, err)
	}
	for _, c := range chunks(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if r.documents >= maxDocuments && !c.blank() {
			r.documents++
			r.report(c.before+1, fmt.Sprintf("is one more than %d, which a file has at most", maxDocuments))
			break
		}
		if r.chunk(c); r.full() {
			break
		}
	}
	if r.full() {
		r.problems = append(r.problems[:maxProblems], fmt.Errorf("%s: and so on", r.file))
	}
	return r.objects, r.warnings, errors.Join(r.problems...)
}

// full reports whether there are more problems than are told.
func (r *reader) full() bool { return len(r.problems) > maxProblems }

func load(name string, in io.Reader) (data []byte, err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			if path, ok := errors.AsType[*os.PathError](err); ok {
				err = path.Err
			}
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	data, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("is longer than %d MiB", maxFile>>20)
	}
	return data, err
}

// chunk is a part of the input between two marks of a document.
type chunk struct {
	// before counts the lines in front of it.
	before int
	text   []byte
}

// chunks cuts the input in front of every line that starts a document. YAML
// allows no such line inside of one, not even in a block of text, and in JSON
// there is none.
func chunks(data []byte) (all []chunk) {
	start, first, line := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > start && isMark(data[at:end]) {
			all = append(all, chunk{first, data[start:at]})
			start, first = at, line
		}
		at = end
	}
	return append(all, chunk{first, data[start:]})
}

func isMark(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

// blank reports whether there are only comments and directives.
func (c chunk) blank() bool {
	for line := range bytes.Lines(c.text) {
		if isMark(line) {
			line = line[3:]
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return true
}

// chunk reads the documents of a chunk.
func (r *reader) chunk(c chunk) {
	if c.blank() {
		return
	}
	if at, text := c.unreadable(); text != "" {
		r.documents++
		r.report(c.before+at, text)
		return
	}
	body := c.text
	if isMark(body) {
		body = bytes.TrimLeft(body[3:], " \t\r")
	}
	if looksLikeJSON(body) {
		r.json(c, len(c.text)-len(body))
		return
	}
	r.yaml(c)
}

// unreadable says what no reader should see, and on which line.
func (c chunk) unreadable() (line int, text string) {
	if len(c.text) > maxDocument {
		return 1, fmt.Sprintf("is longer than %d MiB", maxDocument>>20)
	}
	if i := bytes.IndexByte(c.text, 0); i >= 0 {
		return lineAt(c.text, i), "has a NUL byte; text is UTF-8"
	}
	if c.comments() > maxComments {
		return 1, fmt.Sprintf("has more than %d lines of comments", maxComments)
	}
	if utf8.Valid(c.text) {
		return 0, ""
	}
	for i, line := range bytes.SplitAfter(c.text, []byte("\n")) {
		if !utf8.Valid(line) {
			return i + 1, "is not UTF-8"
		}
	}
	return 1, "is not UTF-8"
}

// comments counts the lines that look like one. The parser keeps each of them, at
// a hundred times its size.
func (c chunk) comments() (n int) {
	for line := range bytes.Lines(c.text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) {
			n++
		}
	}
	return n
}

// lineAt returns the line of an offset, from 1.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), len(text))], []byte("\n"))
}

func (r *reader) here(line int) place {
	return place{file: r.file, line: line, document: r.documents, item: -1}
}

func (r *reader) report(line int, text string) {
	r.problems = append(r.problems, problem{r.here(line), text})
}

func (r *reader) warn(line int, text string) {
	r.warnings = append(r.warnings, problem{r.here(line), text})
}
