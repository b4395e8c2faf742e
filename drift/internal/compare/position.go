package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// position is a place in the compared object: depth frames lead to it, without the root.
type position struct {
	frames [value.MaxDepth + 2]frame
	depth  int
}

// frame is a level of the walk: the node of a field or an item, and the item's index on the
// member.
type frame struct {
	node uint32
	item int32
}

// The values of frame.item for a field, and for an item that the member lacks.
const (
	aField int32 = -2
	noItem int32 = -1
)

func (p *position) push(at uint32, item int32) {
	p.frames[p.depth] = frame{node: at, item: item}
	p.depth++
}

func (p *position) pop() { p.depth-- }

// last returns the frame of the place itself, which must not be the root.
func (p *position) last() frame { return p.frames[p.depth-1] }

// path returns the steps to the place in a tree. The caller may append to it.
func (p *position) path(t *Tree) []fieldpath.Step {
	path := make([]fieldpath.Step, 0, p.depth+1)
	for i, f := range p.frames[:p.depth] {
		n := &t.nodes[f.node]
		if f.item == aField {
			path = append(path, fieldpath.Step{Name: n.name})
			continue
		}
		list := &t.nodes[p.frames[i-1].node]
		s := fieldpath.Step{Item: true, Hub: int(f.node - list.first), Member: int(f.item)}
		if list.kind != kindAtomic {
			s.Keys = value.KeysOf(t.values[f.node], list.typ)
		}
		path = append(path, s)
	}
	return path
}
