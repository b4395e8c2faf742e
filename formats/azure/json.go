package azure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// MaxBytes is the greatest size of an input.
const MaxBytes = yamldoc.MaxBytes

// parse reads JSON as a tree with lines. Invalid JSON gives an empty document with a problem.
func parse(r io.Reader, name string) (*yamldoc.Doc, error) {
	d := yamldoc.New(name)
	data, err := d.ReadAll(r)
	if err != nil || !d.OK() {
		return d, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := &parser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	n, err := p.document()
	if err != nil {
		d.Tell(p.at(p.where(err)), "", "is not JSON: "+reason(err))
		return d, nil
	}
	d.Open(n, "")
	return d, nil
}

// reason describes an error without its offset.
func reason(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// parser turns JSON into nodes. It counts lines as it goes.
type parser struct {
	data []byte
	dec  *json.Decoder
	// seen is the offset up to which the lines are counted.
	seen, line int
}

// at returns the line of an offset. Offsets must not decrease from call to call.
func (p *parser) at(offset int) int {
	offset = min(offset, len(p.data))
	if offset > p.seen {
		p.line += bytes.Count(p.data[p.seen:offset], []byte("\n"))
		p.seen = offset
	}
	return p.line + 1
}

// where returns the offset of an error.
func (p *parser) where(err error) int {
	var bad *json.SyntaxError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return len(p.data)
	}
	if errors.As(err, &bad) && int(bad.Offset) > p.seen {
		return int(bad.Offset) - 1
	}
	return int(p.dec.InputOffset())
}

func (p *parser) document() (*yaml.Node, error) {
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value that the file is")
	}
	return n, nil
}

func (p *parser) value(depth int) (*yaml.Node, error) {
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.at(int(p.dec.InputOffset()))}
	switch x := token.(type) {
	case json.Delim:
		return n, p.children(n, x, depth)
	case string:
		n.Tag, n.Value, n.Style = "!!str", x, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", x.String()
		if bytes.ContainsAny([]byte(x), ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(x)
	default:
		n.Tag = "!!null"
	}
	return n, nil
}

// children reads the content of an object or a list, with its end.
func (p *parser) children(n *yaml.Node, open json.Delim, depth int) error {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	if depth >= yamldoc.MaxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", yamldoc.MaxDepth)
	}
	for p.dec.More() { // a key is a value that is a string
		child, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := p.dec.Token()
	return err
}
