// Package yamldoc answers what stands where in a YAML document, and collects all
// that is wrong with it by line and path. The formats read their files with it:
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
// A reader of a [Value] returns what it read, or the zero value where it has
// reported that this is not what stands there; so all of a document is read and all
// that is wrong with it is told at once.
//
// The input is untrusted. How long it is, how many documents it has, how deep they are,
// how many values they have with aliases written out, how many problems are reported and
// how much of the input each repeats are bounded: see [MaxBytes] and what follows it. The
// first two are checked before anything is parsed, and so is how many values there can
// be, so that what is refused has cost a small multiple of its size. What YAML parsers do not agree about is refused: merge keys,
// the words that were booleans once, keys that are no strings or stand there twice,
// and tags that JSON has not.
package yamldoc

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Doc is a document while it is read: what stands in it, and what is wrong with it.
type Doc struct {
	// File is what stands for the input in problems.
	File string
	// Who the document of an object is, see [Doc.Identify].
	APIVersion, Kind, Namespace, Name string

	root *yaml.Node
	// path is where the root stands, if that is a part of a document.
	path string
	Report
	// broken are the paths that have a problem.
	broken map[string]bool
}

// New returns a document in which nothing stands yet.
func New(file string) *Doc { return &Doc{File: file, broken: map[string]bool{}} }

// Open puts a tree into the document, which stands at path in its file; mostly
// that is "". One that is too large is reported, and the document stays empty.
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

// ReadAll reads an input. One that passes [MaxBytes], or has more values than
// [MaxValues] by its commas and lines, is reported. The error is that of the reader.
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

// Root is all of the document. It must not be empty.
func (d *Doc) Root() Value { return Value{Doc: d}.at(d.root, d.path) }

// IsEmpty reports whether nothing stands in the document, mostly since something is
// wrong.
func (d *Doc) IsEmpty() bool { return d.root == nil }

// Identify takes from the document whose object it is. What is no string counts as
// absent.
func (d *Doc) Identify() {
	v := d.Root()
	d.APIVersion, d.Kind = v.Peek("apiVersion"), v.Peek("kind")
	d.Namespace, d.Name = v.Peek("metadata", "namespace"), v.Peek("metadata", "name")
}

// Tell reports a problem at a line, which [Value.Fail] finds by itself.
func (d *Doc) Tell(line int, path, text string) {
	if d.Add(Problem{File: d.File, Line: line, Kind: Clip(d.Kind), Name: Clip(d.Name), Field: path, Text: text}) {
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

// Broken are the paths that have a problem, in no order.
func (d *Doc) Broken() iter.Seq[string] { return maps.Keys(d.broken) }
