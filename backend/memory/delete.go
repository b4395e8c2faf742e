package memory

import (
	"github.com/slipway-dev/slipway/backend"
)

// giveUp removes an object or releases it.
func (s *server) giveUp(k key, opts backend.DeleteOptions) error {
	if err := s.admits(opts.Fence); err != nil {
		return err
	}
	o := s.objects[k]
	if o == nil {
		return backend.ErrNotFound
	}
	if err := s.check(o, opts.Precondition); err != nil {
		return err
	}
	if opts.Release {
		s.release(k, o, opts)
		return nil
	}
	if k.isNamespace() && (k.name == "default" || k.name == "kube-system") {
		return invalid("the namespace belongs to the cluster")
	}
	s.terminate(k, o, s.seconds())
	return nil
}

// release takes the manager and the marks from an object.
func (s *server) release(k key, o *object, opts backend.DeleteOptions) {
	_, owned := o.find(opts.Manager)
	live := unmark(o.live, opts.Marks)
	if !owned && sameMap(live, o.live) {
		return
	}
	var owners []owner
	for _, w := range o.owners() {
		if w.manager != opts.Manager {
			owners = append(owners, owner{w.manager, unmark(w.applied, opts.Marks)})
		}
	}
	s.replace(k, o, live, owners, "release", opts.Manager)
}

// unmark returns t without the annotations and labels that marks name. A map
// that becomes empty goes too.
func unmark(t tree, marks []string) tree {
	meta := edit{from: metadata(t)}
	for _, field := range []string{"annotations", "labels"} {
		values, _ := meta.from[field].(tree)
		kept := edit{from: values}
		for _, mark := range marks {
			if _, ok := values[mark]; ok {
				kept.delete(mark)
			}
		}
		switch {
		case kept.to == nil:
		case len(kept.to) == 0:
			meta.delete(field)
		default:
			meta.set(field, kept.to)
		}
	}
	out := edit{from: t}
	if meta.to != nil {
		out.set("metadata", meta.to)
	}
	return out.result()
}

// terminate begins the deletion of an object and, if nothing holds it, ends it.
func (s *server) terminate(k key, o *object, at int64) {
	if k.isNamespace() {
		for _, inner := range s.keys() {
			if inner.in(k) {
				s.terminate(inner, s.objects[inner], at)
			}
		}
	}
	if !o.finalizers() && !s.holds(k) {
		s.remove(k, o)
		return
	}
	if !o.dying {
		o.dying, o.deleted = true, at
		s.commit(k, o, "delete", "")
	}
}

// holds reports whether a namespace still has something in it.
func (s *server) holds(ns key) bool {
	if !ns.isNamespace() {
		return false
	}
	for k := range s.objects {
		if k.in(ns) {
			return true
		}
	}
	return false
}

// remove takes an object away, and the terminating namespace that it was the
// last one in.
func (s *server) remove(k key, o *object) {
	if s.holds(k) {
		return
	}
	delete(s.objects, k)
	s.lastVersion++
	s.note(k, o, "delete", "")
	if k.namespace == "" {
		return
	}
	ns := namespaceKey(k.namespace)
	if outer := s.objects[ns]; outer != nil && outer.dying && !outer.finalizers() {
		s.remove(ns, outer)
	}
}
