package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// differ adds a different value of the member.
func (w *walker) differ(class Class, at uint32, item int32, v any) {
	w.add(Finding{Class: class, Hub: w.tree.values[at], Member: v, InHub: true, InMember: true}, at, item)
}

// add adds a finding at a node below the current position.
func (w *walker) add(f Finding, at uint32, item int32) {
	if w.probing {
		w.differs = true
		return
	}
	w.push(at, item)
	w.here(f)
	w.pop()
}

// here adds a finding at the current position.
func (w *walker) here(f Finding) {
	if w.probing {
		w.differs = true
		return
	}
	f.Path = w.path()
	f.Field = w.tree.nodes[w.frames[w.depth-1].node].field
	w.keep(f)
}

// extra adds a value that only the member has, below the current position.
func (w *walker) extra(last fieldpath.Step, v any, f *schema.Field, note string) {
	if w.probing {
		w.differs = true
		return
	}
	w.keep(Finding{
		Class: Unmanaged, Path: append(w.path(), last), Member: v, InMember: true,
		Field: f, Secret: f != nil && f.Secret, Note: note,
	})
}

// keep adds a difference, unless it existed right after the object was applied.
func (w *walker) keep(f Finding) {
	if f.InMember && !w.measured && !w.bounded(&f) {
		return
	}
	if w.explained != nil && w.explained(&f) {
		return
	}
	if f.Class != Order {
		w.counted++
	}
	immutable := false
	for i := range w.depth {
		n := &w.tree.nodes[w.frames[i].node]
		if f.Whole == 0 && i+1 < len(f.Path) && (n.kind == kindAtomic || n.is(wholly)) {
			f.Whole = i + 1
		}
		if field := n.field; field != nil {
			f.Secret = f.Secret || field.Secret
			immutable = immutable || field.ImmutableIn(w.parent(i))
		}
	}
	if f.Note == "" && (immutable || f.Field.ImmutableIn(w.parent(w.depth))) {
		f.Note = "immutable"
	}
	w.found = append(w.found, &f)
}

// bounded measures a finding's value on the member. If that is too deep, no JSON, or so large
// that the object may exceed the limits, it measures all of the member. If the object is refused,
// the rest of the walk does not matter.
func (w *walker) bounded(f *Finding) bool {
	w.left--
	if w.left >= 0 && value.Measure(f.Member, value.MaxDepth-len(f.Path), &w.left) {
		return true
	}
	w.measured = true
	if w.refused = CheckLimits(w.member); w.refused != nil {
		w.probing = true
	}
	return w.refused == nil
}

// parent returns the hub's map that contains a frame's field; for the object itself it may return
// the member's, which may have more fields.
func (w *walker) parent(i int) map[string]any {
	if i == 0 && w.tree.Hub["immutable"] == nil {
		return w.member
	}
	if i == 0 {
		return w.tree.Hub
	}
	m, _ := w.tree.values[w.frames[i-1].node].(map[string]any)
	return m
}

// path returns the steps to the current position. The caller may append to it.
func (w *walker) path() []fieldpath.Step {
	path := make([]fieldpath.Step, 0, w.depth+1)
	for i, f := range w.frames[:w.depth] {
		n := &w.tree.nodes[f.node]
		if f.item == aField {
			path = append(path, fieldpath.Step{Name: n.name})
			continue
		}
		list := &w.tree.nodes[w.frames[i-1].node]
		s := fieldpath.Step{Item: true, Hub: int(f.node - list.first), Member: int(f.item)}
		if list.kind != kindAtomic {
			s.Keys = value.KeysOf(w.tree.values[f.node], list.typ)
		}
		path = append(path, s)
	}
	return path
}
