package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/drift"
)

// element is a result as JSON and YAML have it.
type element struct {
	Group       string             `json:"group"`
	Version     string             `json:"version"`
	Kind        string             `json:"kind"`
	Namespace   string             `json:"namespace"`
	Name        string             `json:"name"`
	State       drift.State        `json:"state"`
	Generation  int64              `json:"targetClusterObservedGeneration,omitempty"`
	Differences []drift.Difference `json:"observedDiffs"`
	Total       int                `json:"total"`
	Truncated   bool               `json:"truncated,omitempty"`
	Warnings    []string           `json:"warnings,omitempty"`
	Fingerprint string             `json:"fingerprint,omitempty"`
}

// write prints what was found.
func (l *line) write(out io.Writer, found results) error {
	if l.format == "text" {
		p := &page{out: out}
		p.results(found)
		return p.err
	}
	text, err := asJSON(found)
	if err == nil && l.format == "yaml" {
		text, err = asYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// asJSON returns an array, with nothing in it that a terminal would obey.
func asJSON(found results) ([]byte, error) {
	all := make([]element, len(found.all))
	for i, r := range found.all {
		all[i] = element(r.Report)
		if all[i].Differences == nil {
			all[i].Differences = []drift.Difference{}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		return nil, err
	}
	return cleanLines(b.String(), clean), nil
}

// asYAML returns the same as YAML: names and numbers as they are, text in quotes.
func asYAML(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := nodeOf(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(n), e.Close()); err != nil {
		return nil, err
	}
	return cleanLines(b.String(), cleanYAML), nil
}

// cleanYAML is clean for text in quotes of YAML.
func cleanYAML(text string) string {
	return escaped(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// nodeOf reads a value with its keys in their order and its numbers exact.
func nodeOf(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		return collection(d, t)
	case json.Number:
		return plain(t.String()), nil
	case string:
		return quoted(t), nil
	case bool:
		return plain(strconv.FormatBool(t)), nil
	}
	return plain("null"), nil
}

func collection(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		c, err := nodeOf(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, c)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token()
	return n, err
}

func plain(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// quoted is text in quotes, unless it is a plain word that no reader of YAML
// takes for anything else.
func quoted(text string) *yaml.Node {
	n := plain(text)
	n.Tag = "!!str"
	if !isWord(text) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func isWord(text string) bool {
	n := plain(text)
	if _, old := oldBool(n); old || n.ShortTag() != "!!str" || text == "" {
		return false
	}
	for _, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("/._-", r) {
			return false
		}
	}
	return text[0] != '-'
}
