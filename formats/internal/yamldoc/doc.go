// Package yamldoc finds values in a YAML document and collects its problems by line and path. The
// formats read their files with it:
//
//	type (
//		value  = yamldoc.Value
//		fields = yamldoc.Fields
//	)
//
//	func readWindow(v value) (w Window) {
//		v.Object(fields{
//			"start":    func(v value) { w.Start = v.NonEmpty() },
//			"duration": func(v value) { w.Duration = v.Period() },
//		}, "duration")
//		return w
//	}
//
// A reader of a [Value] returns the value, or reports a problem and returns the zero value. So a
// whole document is read and all of its problems are reported at once.
//
// The input is untrusted. There are limits for its length, the number of documents, their depth,
// the number of values with expanded aliases, the number of reported problems and the part of the
// input that each repeats: see [MaxBytes] and the constants after it. The first two, and a bound
// on the number of values, are checked before parsing, so that refusing an input costs only a
// small multiple of its size. Constructs that YAML parsers treat differently are refused: merge
// keys, the words that used to be booleans, keys that are duplicates or no strings, and tags that
// JSON does not have.
package yamldoc

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/formats/problem"
)

// Doc is a document during reading: its content and its problems.
type Doc struct {
	// File stands for the input in problems.
	File string
	// The identity of the document's object, see [Doc.Identify].
	APIVersion, Kind, Namespace, Name string

	root *yaml.Node
	// path is the path of the root, if the root is a part of a document.
	path string
	Report
	// broken has the paths with a problem.
	broken map[string]bool
}

// New returns an empty document.
func New(file string) *Doc { return &Doc{File: file, broken: map[string]bool{}} }

// Open sets the tree of the document, which is at path in its file; mostly path is "". If the
// tree is too large, Open reports it and the document stays empty.
func (d *Doc) Open(root *yaml.Node, path string) {
	e, err := measure{}.of(root)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		d.Tell(root.Line, path, err.Error())
		return
	}
	d.root, d.path = root, path
}

// ReadAll reads an input. It reports an input that is longer than [MaxBytes], or has more values
// than [MaxValues] by its commas and lines. The error is the reader's.
func (d *Doc) ReadAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.File, err)
	}
	if err := checkInput(data); err != nil {
		d.Tell(1, "", err.Error())
		return nil, nil
	}
	return data, nil
}

// Root returns the root of the document, which must not be empty.
func (d *Doc) Root() Value { return Value{Doc: d}.at(d.root, d.path) }

// Take makes another document of the same file a field of this document, whose root is an object.
func (d *Doc) Take(name string, field *Doc) {
	key := stringNode(name)
	key.Line = field.root.Line
	d.root.Content = append(d.root.Content, key, field.root)
}

// IsEmpty reports whether the document has no content, mostly because of a problem.
func (d *Doc) IsEmpty() bool { return d.root == nil }

// Identify reads the identity of the object from the document. A value that is no string counts
// as absent.
func (d *Doc) Identify() {
	v := d.Root()
	d.APIVersion, d.Kind = v.Peek("apiVersion"), v.Peek("kind")
	d.Namespace, d.Name = v.Peek("metadata", "namespace"), v.Peek("metadata", "name")
}

// Tell reports a problem at a line; [Value.Fail] finds the line itself.
func (d *Doc) Tell(line int, path, text string) {
	if d.Add(problem.Problem{File: d.File, Line: line, Kind: Clip(d.Kind), Name: Clip(d.Name), Field: path, Text: text}) {
		d.broken[path] = true
	}
}

// Failed reports whether a problem was reported at the path or above it, up to the whole
// document.
func (d *Doc) Failed(path string) bool {
	for path != "" && !d.broken[path] {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return d.broken[path]
}

// Broken returns the paths with a problem, in no order.
func (d *Doc) Broken() iter.Seq[string] { return maps.Keys(d.broken) }
