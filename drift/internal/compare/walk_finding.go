package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
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
	f.Path = w.path(w.tree)
	f.Field = w.tree.nodes[w.last().node].field
	w.keep(f)
}

// extra adds a value that only the member has, below the current position.
func (w *walker) extra(last fieldpath.Step, v any, f *schema.Field, note string) {
	if w.probing {
		w.differs = true
		return
	}
	w.keep(Finding{
		Class: Unmanaged, Path: append(w.path(w.tree), last), Member: v, InMember: true,
		Field: f, Secret: f != nil && f.Secret, Note: note,
	})
}

// keep adds a difference, unless it existed right after the object was applied.
func (w *walker) keep(f Finding) {
	if f.InMember && !w.extent.allows(&f, w.member) {
		w.probing = true // the object is refused: the rest of the walk does not matter
		return
	}
	if w.explained != nil && w.explained(&f) {
		return
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
	w.out.add(&f)
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
