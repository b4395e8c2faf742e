package yamldoc

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of what is read, with aliases written out.
const (
	maxBytes = 16 << 20
	maxDepth = 100
	maxNodes = 1 << 20
)

// extent is how large something is with its aliases written out, which is how a few
// lines become gigabytes. Each number stops above its limit.
type extent struct{ nodes, bytes, depth int }

// add puts a child into what it is a child of.
func (e extent) add(child extent) extent {
	return extent{
		nodes: min(e.nodes+child.nodes, maxNodes+1),
		bytes: min(e.bytes+child.bytes, maxBytes+1),
		depth: max(e.depth, min(child.depth+1, maxDepth+1)),
	}
}

// check tells which limit is passed.
func (e extent) check() error {
	switch {
	case e.depth > maxDepth:
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	case e.nodes > maxNodes:
		return fmt.Errorf("makes more than %d values with its aliases written out", maxNodes)
	case e.bytes > maxBytes:
		return fmt.Errorf("makes more than %d bytes with its aliases written out", maxBytes)
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
