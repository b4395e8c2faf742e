package yamldoc

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of an input. They are far above what people write and far below what a
// process has no memory for: a value takes some hundred bytes while it is read.
const (
	// MaxBytes is how long an input is at most.
	MaxBytes = 4 << 20
	// MaxDocuments is how many documents it has at most, of which each costs its own
	// parser.
	MaxDocuments = 10_000
	// MaxDepth is how deep a document is nested at most.
	MaxDepth = 100
	// MaxValues is how many values all documents have at most, with aliases written
	// out.
	MaxValues = 1 << 20
)

// maxText bounds all text with aliases written out, which without is no longer than
// the input.
const maxText = 4 * MaxBytes

// maxMarks bounds what values are set apart by, before there is memory for any.
const maxMarks = MaxValues

// marks counts what stands between two values in YAML and in JSON: at least one for
// every three values, and for every comment. In UTF-16 it counts fewer; there, every
// character takes two bytes of an input.
func marks(data []byte) int {
	n := bytes.Count(data, []byte("\u0085")) + bytes.Count(data, []byte("\u2028")) + bytes.Count(data, []byte("\u2029"))
	for i, c := range data {
		next := byte(' ')
		if i+1 < len(data) {
			next = data[i+1]
		}
		switch c {
		case '\n', ',', ':', '[', '{', '#':
			n++
		case '\r':
			if next != '\n' {
				n++
			}
		case '-', '?': // not those in words
			if next <= ' ' || next >= 0x80 {
				n++
			}
		}
	}
	return n
}

// checkInput reports which limit an input passes before it is parsed.
func checkInput(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("is longer than %d bytes; write it as several", MaxBytes)
	}
	if n := marks(data); n > maxMarks {
		return fmt.Errorf("has %d lines, commas, colons and brackets; at most %d are read; write it as several", n, maxMarks)
	}
	return nil
}

// extent is how large something is with its aliases written out, which is how a few
// lines become gigabytes. Each number stops above its limit.
type extent struct{ nodes, bytes, depth int }

// add puts a child into what it is a child of.
func (e extent) add(child extent) extent {
	return extent{
		nodes: min(e.nodes+child.nodes, MaxValues+1),
		bytes: min(e.bytes+child.bytes, maxText+1),
		depth: max(e.depth, min(child.depth+1, MaxDepth+1)),
	}
}

// check reports which limit is passed.
func (e extent) check() error {
	switch {
	case e.depth > MaxDepth:
		return fmt.Errorf("is nested deeper than %d levels", MaxDepth)
	case e.nodes > MaxValues:
		return fmt.Errorf("makes more than %d values with its aliases written out", MaxValues)
	case e.bytes > maxText:
		return fmt.Errorf("makes more than %d bytes with its aliases written out", maxText)
	}
	return nil
}

// fits adds a tree to what was read so far, unless a limit is passed then.
func (e *extent) fits(root *yaml.Node) error {
	own, err := measure{}.of(root)
	if err != nil {
		return err
	}
	all := extent{nodes: e.nodes + own.nodes, bytes: e.bytes + own.bytes, depth: own.depth}
	if err := all.check(); err != nil {
		return err
	}
	*e = all
	return nil
}

// measure returns the extent of a tree. What has an anchor or is an alias's is
// measured once, so that measuring takes no longer than reading.
type measure map[*yaml.Node]*extent

func (m measure) of(n *yaml.Node) (extent, error) {
	shared := n.Anchor != ""
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n, shared = n.Alias, true
	}
	known, seen := m[n]
	switch {
	case known != nil:
		return *known, nil
	case seen:
		return extent{}, errors.New("holds an alias of something that it is in itself")
	case shared:
		m[n] = nil
	}
	e := extent{nodes: 1, bytes: len(n.Value)}
	for _, child := range n.Content {
		c, err := m.of(child)
		if err != nil {
			return e, err
		}
		e = e.add(c)
	}
	if shared {
		m[n] = &e
	}
	return e, nil
}
