package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Read reads a stream of YAML documents, or JSON, which is YAML, within the limits of the
// package. It yields the documents that are not null, and parses each when it is needed. For a
// document that cannot be read it yields an empty one with a problem, and continues with the
// next, unless there are too many.
//
// The error is the error of r.
func Read(r io.Reader, file string) (iter.Seq[*Doc], error) {
	d := New(file)
	data, err := d.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if !d.OK() {
		return func(yield func(*Doc) bool) { yield(d) }, nil
	}
	return parse(data, file), nil
}

// parse returns the documents of an input.
func parse(data []byte, file string) iter.Seq[*Doc] {
	return func(yield func(*Doc) bool) {
		var used extent
		n := 0
		for c := range split(data) {
			if n++; n > MaxDocuments {
				d := New(file)
				d.Tell(c.before+1, "", fmt.Sprintf("is one document more than %d, which an input has at most; write it as several", MaxDocuments))
				yield(d)
				return
			}
			roots, err := c.parse()
			for _, root := range roots {
				if !yield(c.document(file, root, &used)) {
					return
				}
			}
			if err == nil {
				continue
			}
			d := New(file)
			if d.Tell(c.problem(err)); !yield(d) {
				return
			}
		}
	}
}

// chunk is a part of the input that is parsed on its own, so that bad syntax affects only one
// document.
type chunk struct {
	// before counts the lines in front of the chunk.
	before int
	text   []byte
}

// split cuts the input in front of every line that starts a document. YAML allows no such line
// inside a document, not even in a block of text.
func split(data []byte) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		start, line, startLine := 0, 0, 0
		for at := 0; at < len(data); line++ {
			end := len(data)
			if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
				end = at + i + 1
			}
			if at > start && isMarker(data[at:end]) {
				if !yield(chunk{startLine, data[start:at]}) {
					return
				}
				start, startLine = at, line
			}
			at = end
		}
		yield(chunk{startLine, data[start:]})
	}
}

func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

// blank reports whether a chunk contains only comments and directives, which the parser accepts
// only before a document, or nothing but the marker of a document, which needs no parser.
func (c chunk) blank() bool {
	for line := range bytes.Lines(c.text) {
		if isMarker(line) {
			line = line[len("---"):]
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// parse returns the documents of the chunk before its first syntax error, and that error.
func (c chunk) parse() (roots []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser is not ours, and the input is untrusted
			err = errors.New("the parser cannot read this")
		}
	}()
	if c.blank() {
		return nil, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return roots, err
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 && !isNull(n.Content[0]) {
			roots = append(roots, n.Content[0])
		}
	}
}

// document returns a document of the chunk, with the lines of the input.
func (c chunk) document(file string, root *yaml.Node, used *extent) *Doc {
	d := New(file)
	relined(root, func(line int) int { return c.before + line })
	if err := used.fits(root); err != nil {
		d.Tell(root.Line, "", "the document "+err.Error())
		return d
	}
	d.root = root
	return d
}

// relined changes the lines of a tree. An alias has no children, so each node is changed once.
func relined(n *yaml.Node, line func(int) int) {
	n.Line = line(n.Line)
	for _, child := range n.Content {
		relined(child, line)
	}
}

// problem turns the parser's error into a problem at its line of the input.
func (c chunk) problem(err error) (line int, path, text string) {
	text = err.Error()
	if m := regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)`).FindStringSubmatch(text); m != nil {
		text = m[2]
		line, _ = strconv.Atoi(m[1])
	}
	last := 1 + bytes.Count(bytes.TrimSuffix(c.text, []byte("\n")), []byte("\n"))
	inBlock := strings.HasPrefix(text, "did not find expected key") || strings.HasPrefix(text, "did not find expected '-'")
	if text = "is not YAML: " + Clip(text); inBlock { // the line is where the block begins
		text += ", somewhere in the block that begins here; compare the indentation of its lines"
	}
	if regexp.MustCompile(`(?m)^ *\t`).Match(c.text) {
		text += "; indent with spaces, not with tabs"
	}
	return c.before + min(max(line, 1), last), "", text
}
