package yamldoc

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of an input. They are far above normal files and far below the memory of a process:
// during reading, a value takes some hundred bytes.
const (
	// MaxBytes is the greatest length of an input.
	MaxBytes = 4 << 20
	// MaxDocuments is the greatest number of documents, because each costs its own parser.
	MaxDocuments = 10_000
	// MaxDepth is the greatest depth of a document.
	MaxDepth = 100
	// MaxValues is the greatest number of values in all documents, with expanded aliases.
	MaxValues = 1 << 20
)

// maxText limits all text with expanded aliases; without aliases the text is no longer than the
// input.
const maxText = 4 * MaxBytes

// maxMarks limits the separators of values, before memory is allocated for any.
const maxMarks = MaxValues

// marks counts the separators of values in YAML and in JSON: at least one for every three values,
// and for every comment. In UTF-16 it counts fewer; there, every character takes two bytes of an
// input.
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
		case '-', '?': // not inside words
			if next <= ' ' || next >= 0x80 {
				n++
			}
		}
	}
	return n
}

// checkInput returns an error if an input exceeds a limit before parsing.
func checkInput(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("is longer than %d bytes; write it as several", MaxBytes)
	}
	if n := marks(data); n > maxMarks {
		return fmt.Errorf("has %d lines, commas, colons and brackets; at most %d are read; write it as several", n, maxMarks)
	}
	return nil
}

// extent is the size of a tree with expanded aliases, by which a few lines can become gigabytes.
// Each number stops just above its limit.
type extent struct{ nodes, bytes, depth int }

// add adds the extent of a child.
func (e extent) add(child extent) extent {
	return extent{
		nodes: min(e.nodes+child.nodes, MaxValues+1),
		bytes: min(e.bytes+child.bytes, maxText+1),
		depth: max(e.depth, min(child.depth+1, MaxDepth+1)),
	}
}

// check returns an error if a limit is exceeded.
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

// fits adds a tree to the extent so far, unless a limit is exceeded then.
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

// measure returns the extent of a tree. It measures nodes with an anchor or an alias once, so
// that measuring takes no longer than reading.
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
