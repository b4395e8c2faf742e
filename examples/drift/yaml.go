package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yaml reads the documents of a chunk.
func (r *reader) yaml(c chunk) { r.yamlOr(c, 0, nil) }

// yamlOr reads YAML, and where it is none either, reports what made it no JSON.
func (r *reader) yamlOr(c chunk, line int, noJSON error) {
	docs, err := c.parse()
	if err != nil && noJSON != nil {
		r.documents++
		r.report(line, noJSON.Error())
		return
	}
	for _, n := range docs {
		r.documents++
		y := &yamlReader{reader: r, before: c.before}
		if v, err := y.value(n, 0); err == nil {
			r.take(v, r.here(c.before+n.Line))
		}
	}
	if err != nil {
		r.documents++
		at, text := syntax(err)
		last := lineAt(c.text, len(bytes.TrimRight(c.text, "\n")))
		r.report(c.before+min(at, last), text)
	}
}

// parse returns the documents before the first error of the syntax, and that.
func (c chunk) parse() (docs []*yaml.Node, err error) {
	defer func() {
		if recover() != nil { // the parser is not ours, the input is anybody's
			err = errors.New("the parser cannot read this")
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return docs, err
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			docs = append(docs, n.Content[0])
		}
	}
}

// syntax takes the line out of what the parser says. It counts from 0 where the
// structure is wrong, and from 1 where the characters are.
func syntax(err error) (line int, text string) {
	text, line = err.Error(), 1
	m := regexp.MustCompile(`^yaml: (?:line (\d+): )?((did not find expected (?:',' or|'-'|key|node|<))?.*)`).FindStringSubmatch(text)
	if m == nil {
		return line, "is not YAML: " + shorten(text)
	}
	if n, err := strconv.Atoi(m[1]); err == nil {
		line = n
		if m[3] != "" {
			line++
		}
	}
	return line, "is not YAML: " + shorten(m[2])
}

// yamlReader reads one document.
type yamlReader struct {
	*reader

	before, values, bytes int
}

// errReported is what was reported at its line.
var errReported = errors.New("reported")

func (y *yamlReader) fail(n *yaml.Node, format string, args ...any) error {
	y.report(y.before+n.Line, fmt.Sprintf(format, args...))
	return errReported
}

// value returns what a node stands for, with its aliases written out.
func (y *yamlReader) value(n *yaml.Node, level int) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	y.values++
	y.bytes += len(n.Value)
	switch {
	case level > maxLevels:
		return nil, y.fail(n, "is nested deeper than %d levels", maxLevels)
	case y.values > maxValues || y.bytes > maxDocument:
		return nil, y.fail(n, "has more than %d values or %d MiB with its aliases written out", maxValues, maxDocument>>20)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return y.object(n, level)
	case yaml.SequenceNode:
		return y.list(n, level)
	}
	return y.scalar(n)
}

func (y *yamlReader) list(n *yaml.Node, level int) (any, error) {
	l := make([]any, 0, len(n.Content))
	for _, c := range n.Content {
		v, err := y.value(c, level+1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	return l, nil
}

func (y *yamlReader) object(n *yaml.Node, level int) (any, error) {
	o, lines := map[string]any{}, map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		key, err := y.key(n.Content[i])
		if err != nil {
			return nil, err
		}
		if line, twice := lines[key]; twice {
			return nil, y.fail(n.Content[i], "the key %q is there already, on line %d", shorten(key), y.before+line)
		}
		lines[key] = n.Content[i].Line
		if o[key], err = y.value(n.Content[i+1], level+1); err != nil {
			return nil, err
		}
	}
	for _, m := range merged {
		if err := y.merge(o, m, level); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// merge adds what "<<" stands for and is not there yet.
func (y *yamlReader) merge(o map[string]any, n *yaml.Node, level int) error {
	v, err := y.value(n, level+1)
	if err != nil {
		return err
	}
	all, ok := v.([]any)
	if !ok {
		all = []any{v}
	}
	for _, v := range all {
		from, ok := v.(map[string]any)
		if !ok {
			return y.fail(n, "<< must be a map, or a list of maps")
		}
		for key, v := range from {
			if _, there := o[key]; !there {
				o[key] = v
			}
		}
	}
	return nil
}

// key returns the text of a key.
func (y *yamlReader) key(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", y.fail(n, "a key must be text")
	}
	y.bytes += len(n.Value)
	if b, ok := oldBool(n); ok {
		y.warn(y.before+n.Line, fmt.Sprintf("the key %s is read as %t by YAML 1.1, as in kubectl; write %q", n.Value, b, n.Value))
	}
	return n.Value, nil
}

// oldBool says what YAML 1.1 makes of words without quotes.
func oldBool(n *yaml.Node) (value, is bool) {
	if n.Style != 0 || n.ShortTag() != "!!str" {
		return false, false
	}
	switch n.Value {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

func (y *yamlReader) scalar(n *yaml.Node) (any, error) {
	switch b, ok := oldBool(n); {
	case ok && len(n.Value) == 1: // more often a name than an answer
		y.warn(y.before+n.Line, fmt.Sprintf("%s is read as text, and kubectl reads it as %t; write %q or %t", n.Value, b, n.Value, b))
		return n.Value, nil
	case ok:
		y.warn(y.before+n.Line, fmt.Sprintf("%s is read as %t, as YAML 1.1 and kubectl do; write %q or %t", n.Value, b, n.Value, b))
		return b, nil
	}
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		if b, err := strconv.ParseBool(strings.ToLower(n.Value)); err == nil {
			return b, nil
		}
		return nil, y.fail(n, "%q is no boolean", shorten(n.Value))
	case "!!int", "!!float":
		return y.number(n)
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil || !utf8.Valid(b) {
			return nil, y.fail(n, "!!binary must be base64 of UTF-8 text")
		}
		return string(b), nil
	default:
		return nil, y.fail(n, "the tag %s is not known", shorten(tag))
	}
}

// number reads what YAML and kubectl take for a number, with all its digits.
func (y *yamlReader) number(n *yaml.Node) (any, error) {
	text := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
	if i, ok := new(big.Int).SetString(text, 0); ok {
		return number(i.String()), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, y.fail(n, "%q is no number that JSON has", shorten(n.Value))
	}
	return f, nil
}
