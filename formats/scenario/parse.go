package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The bounds of a scenario: of its bytes, and with its aliases written out of its
// values and levels.
const (
	MaxBytes = 16 << 20
	maxNodes = 1 << 20
	maxDepth = 100
)

// parse returns the root of the only document; nil where there is a problem, or
// with the error of r.
func (d *document) parse(r io.Reader) (*yaml.Node, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.file, err)
	}
	if len(data) > MaxBytes {
		d.report(1, "", fmt.Sprintf("is longer than %d bytes", MaxBytes))
		return nil, nil
	}
	docs, err := decode(data)
	switch {
	case err != nil:
		d.syntax(err, data)
		return nil, nil
	case len(docs) == 0:
		d.report(1, "", "is empty; it needs at least clusters and a strategy")
		return nil, nil
	case len(docs) > 1:
		d.report(docs[1].Line, "", "is a second document; a file has one scenario")
		return nil, nil
	}
	if err := (&extent{}).add(docs[0], 0); err != nil {
		d.report(docs[0].Line, "", err.Error())
		return nil, nil
	}
	return docs[0], nil
}

// decode returns the roots of the documents that are not empty.
func decode(data []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if recover() != nil { // the parser is not ours, the input is anybody's
			err = errors.New("the parser cannot read this")
		}
	}()
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 && n.Content[0].ShortTag() != "!!null" {
			docs = append(docs, n.Content[0])
		}
	}
}

// syntax reports the parser's error at its line.
func (d *document) syntax(err error, data []byte) {
	text, line := err.Error(), 1
	if m := regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)`).FindStringSubmatch(text); m != nil {
		text = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	text = "is not YAML: " + clip(text)
	if regexp.MustCompile(`(?m)^ *\t`).Match(data) {
		text += "; indent with spaces, not with tabs"
	}
	d.report(line, "", text)
}

// extent is how large something is with its aliases written out, which is how a
// few lines become gigabytes.
type extent struct{ nodes int }

func (e *extent) add(n *yaml.Node, depth int) error {
	if e.nodes++; e.nodes > maxNodes {
		return fmt.Errorf("makes more than %d values with its aliases written out", maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels, or holds an alias of something that it is in itself", maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return e.add(n.Alias, depth+1)
	}
	for _, child := range n.Content {
		if err := e.add(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}
