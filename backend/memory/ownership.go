package memory

import (
	"slices"
)

// Editor is the manager that owns what [Cluster.Update] writes: a person with
// an editor.
const Editor = "editor"

// owner is a field manager with the fields that it owns, each at the value
// that the object has.
type owner struct {
	manager string
	fields  tree
}

func (w owner) equal(v owner) bool { return w.manager == v.manager && equal(w.fields, v.fields) }

// owned returns the owners that own something.
func owned(owners ...owner) []owner {
	return slices.DeleteFunc(owners, func(w owner) bool { return len(w.fields) == 0 })
}

// apply returns the content after a forced apply: c itself if it changes
// nothing. Fields that the manager applied before and does not apply any more
// go, unless others own them too; fields that get another value are taken from
// the others.
func (c *content) apply(by owner) *content {
	var before, others tree
	for _, w := range c.owners {
		if w.manager == by.manager {
			before = w.fields
		} else {
			others = merge(others, w.fields)
		}
	}
	if before != nil && equal(before, by.fields) {
		return c
	}
	live := by.fields
	if others != nil || before == nil || !sameMap(before, c.live) {
		live = merge(prune(c.live, before, by.fields, others), by.fields)
	}
	if equal(live, by.fields) {
		live = by.fields // clusters that are given the same tree share it
	}
	return c.next(live, by.manager, by.fields)
}

// conflicts returns the other managers that own a field to which an apply gives another value.
func (c *content) conflicts(by owner) (managers []string) {
	for _, w := range c.owners {
		if w.manager != by.manager && disagrees(w.fields, by.fields) {
			managers = append(managers, w.manager)
		}
	}
	return managers
}

// disagrees reports whether now has another value for a field that is owned. The version in which an object is applied is
// owned by none.
func disagrees(owned, now tree) bool {
	for k, v := range owned {
		value, there := now[k]
		if mine, theirs, nested := subtrees(v, value); nested {
			if disagrees(mine, theirs) {
				return true
			}
		} else if there && k != "apiVersion" && !equal(v, value) {
			return true
		}
	}
	return false
}

// edit returns the content after an edit by hand that made it live: [Editor]
// owns what the edit changed.
func (c *content) edit(live tree) *content {
	fields := difference(c.live, live)
	for _, w := range c.owners {
		if w.manager == Editor {
			fields = merge(intersect(w.fields, live), fields)
		}
	}
	return c.next(live, Editor, fields)
}

// release returns the content without a manager and without the marks: c itself
// if it has neither. The other fields of the manager stay.
func (c *content) release(manager string, marks []string) *content {
	marked := tree{}
	for _, mark := range marks {
		marked[mark] = ""
	}
	live := prune(c.live, tree{"metadata": tree{"annotations": marked, "labels": marked}}, nil, nil)
	if sameMap(live, c.live) && !slices.ContainsFunc(c.owners, func(w owner) bool { return w.manager == manager }) {
		return c
	}
	return c.next(live, manager, nil)
}

// next returns another content, of which manager owns fields;
// the others of c keep what did not change.
func (c *content) next(live tree, manager string, fields tree) *content {
	next := &content{live: live}
	found := false
	for _, w := range c.owners {
		if w.manager == manager {
			w.fields, found = fields, true
		} else {
			w.fields = intersect(w.fields, live)
		}
		next.owners = append(next.owners, w)
	}
	if !found {
		next.owners = append(next.owners, owner{manager, fields})
	}
	next.owners = owned(next.owners...)
	return next
}

// prune returns live without what before has and now has not, unless others
// have it. A map that becomes empty goes too.
func prune(live, before, now, others tree) tree {
	out := edit{from: live}
	for k, was := range before {
		is, kept := now[k]
		_, shared := others[k]
		isBelow, stays := is.(tree)
		below, wasBelow, nested := subtrees(live[k], was)
		switch {
		case nested && (!kept || stays):
			othersBelow, _ := others[k].(tree)
			rest := prune(below, wasBelow, isBelow, othersBelow)
			if len(rest) == 0 && !kept && !shared {
				out.delete(k)
			} else if !sameMap(rest, below) {
				out.set(k, rest)
			}
		case !kept && !shared:
			out.delete(k)
		}
	}
	return out.result()
}

// intersect returns owned without the leaves that are missing in live or have
// another value there. A map that becomes empty goes too.
func intersect(owned, live tree) tree {
	out := edit{from: owned}
	for k, v := range owned {
		if mine, there, nested := subtrees(v, live[k]); nested {
			if rest := intersect(mine, there); len(rest) == 0 && len(mine) > 0 {
				out.delete(k)
			} else if !sameMap(rest, mine) {
				out.set(k, rest)
			}
		} else if value, ok := live[k]; !ok || !equal(v, value) {
			out.delete(k)
		}
	}
	return out.result()
}

// difference returns what now has and before has not, or at another value.
func difference(before, now tree) tree {
	out := tree{}
	for k, v := range now {
		if old, value, nested := subtrees(before[k], v); nested {
			if d := difference(old, value); len(d) > 0 {
				out[k] = d
			}
		} else if old, ok := before[k]; !ok || !equal(old, v) {
			out[k] = v
		}
	}
	return out
}

// managedFields returns the owners in the form of metadata.managedFields.
func (c *content) managedFields() []any {
	identity := tree{"apiVersion": "", "kind": "", "metadata": tree{"name": "", "namespace": ""}}
	entries := make([]any, 0, len(c.owners))
	for _, w := range c.owners {
		operation := "Apply"
		if w.manager == Editor {
			operation = "Update"
		}
		entries = append(entries, tree{
			"manager": w.manager, "operation": operation, "apiVersion": c.live["apiVersion"],
			"fieldsType": "FieldsV1", "fieldsV1": fieldsV1(prune(w.fields, identity, nil, nil)),
		})
	}
	return entries
}

func fieldsV1(t tree) tree {
	out := make(tree, len(t))
	for k, v := range t {
		below, _ := v.(tree)
		out["f:"+k] = fieldsV1(below)
	}
	return out
}
