package kubefleet

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// chunk is a part of the input that is parsed by itself, so that bad syntax
// stops one document and not the ones behind it.
type chunk struct {
	// before counts the lines in front of the chunk.
	before int
	text   []byte
}

// split cuts the input in front of every line that starts a document. YAML
// allows no such line inside of one, not even in a block of text.
func split(data []byte) []chunk {
	var chunks []chunk
	start, line, startLine := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > start && isMarker(data[at:end]) {
			chunks = append(chunks, chunk{startLine, data[start:at]})
			start, startLine = at, line
		}
		at = end
	}
	return append(chunks, chunk{startLine, data[start:]})
}

func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

// blank tells that a chunk holds only comments and directives, which need a
// document behind them to be parsed.
func (c chunk) blank() bool {
	for line := range bytes.Lines(c.text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// parse returns the documents of the chunk that come before its first syntax
// error, and that error.
func (c chunk) parse() (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser is not ours, the input is anybody's
			err = errors.New("the parser cannot read this")
		}
	}()
	if c.blank() {
		return nil, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(c.text))
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

// syntaxProblem turns the parser's error into a problem at its line of the
// whole input.
func (c chunk) syntaxProblem(err error) Problem {
	text, line := err.Error(), 1
	if m := regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`).FindStringSubmatch(text); m != nil {
		text = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	text = "is not YAML: " + clip(text)
	if c.indentedByTab() {
		text += "; indent with spaces, not with tabs"
	}
	return Problem{Line: c.before + line, Text: text}
}

func (c chunk) indentedByTab() bool {
	for line := range bytes.Lines(c.text) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 {
			return true
		}
	}
	return false
}
