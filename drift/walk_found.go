package drift

import "github.com/slipway-dev/slipway/drift/schema"

// differ adds a value of the member that is another one.
func (w *walker) differ(class Class, at uint32, item int32, v any) {
	w.add(found{class: class, hub: w.m.values[at], member: v, inHub: true, inMember: true}, at, item)
}

// add adds what was found at a node below where the walk is.
func (w *walker) add(f found, at uint32, item int32) {
	if w.probing {
		w.differs = true
		return
	}
	w.push(at, item)
	w.here(f)
	w.pop()
}

// here adds what was found where the walk is.
func (w *walker) here(f found) {
	if w.probing {
		w.differs = true
		return
	}
	f.path = w.path()
	f.field = w.m.nodes[w.frames[w.depth-1].node].field
	w.keep(f)
}

// extra adds what only the member has below where the walk is.
func (w *walker) extra(last step, v any, f *schema.Field, note string) {
	if w.probing {
		w.differs = true
		return
	}
	w.keep(found{
		class: Unmanaged, path: append(w.path(), last), member: v, inMember: true,
		field: f, secret: f != nil && f.Secret, note: note,
	})
}

// keep adds a difference, unless it was there right after the object was applied.
func (w *walker) keep(f found) {
	if f.inMember && !w.measured && !w.bounded(&f) {
		return
	}
	if f.inMember && w.b != nil && w.b.explains(w.m, &f) {
		return
	}
	immutable := false
	for i := range w.depth {
		if field := w.m.nodes[w.frames[i].node].field; field != nil {
			f.secret = f.secret || field.Secret
			immutable = immutable || field.ImmutableIn(w.parent(i))
		}
	}
	if f.note == "" && (immutable || f.field.ImmutableIn(w.parent(w.depth))) {
		f.note = "immutable"
	}
	w.found = append(w.found, &f)
}

// bounded measures what is found on the member, and all of the member once that is
// too deep, no JSON, or so much that it may be too much. What remains of the walk
// is of no interest where an object is refused.
func (w *walker) bounded(f *found) bool {
	w.left--
	if w.left >= 0 && measure(f.member, MaxDepth-len(f.path), &w.left) {
		return true
	}
	w.measured = true
	if w.refused = bounded(w.member); w.refused != nil {
		w.probing = true
	}
	return w.refused == nil
}

// parent returns the hub's map that a frame is a field of; that of the member
// where it is the object itself, which may say more.
func (w *walker) parent(i int) map[string]any {
	if i == 0 && w.m.hub["immutable"] == nil {
		return w.member
	}
	if i == 0 {
		return w.m.hub
	}
	m, _ := w.m.values[w.frames[i-1].node].(map[string]any)
	return m
}

// path returns the steps to where the walk is. The caller may append to it.
func (w *walker) path() []step {
	path := make([]step, 0, w.depth+1)
	for i, f := range w.frames[:w.depth] {
		n := &w.m.nodes[f.node]
		if f.item == aField {
			path = append(path, step{name: n.name})
			continue
		}
		list := &w.m.nodes[w.frames[i-1].node]
		s := step{item: true, hub: int(f.node - list.first), member: int(f.item)}
		if list.kind != kindAtomic {
			s.keys = keysOf(w.m.values[f.node], list.typ)
		}
		path = append(path, s)
	}
	return path
}
