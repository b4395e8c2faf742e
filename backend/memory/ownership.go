package memory

import (
	"slices"
)

// Editor is the field manager of [Cluster.Update]: a person with an editor.
const Editor = "editor"

// owner is a field manager with its fields, each at the value of the object.
type owner struct {
	manager string
	fields  tree
}

func (w owner) equal(v owner) bool { return w.manager == v.manager && equal(w.fields, v.fields) }

// owned returns the owners with at least one field.
func owned(owners ...owner) []owner {
	return slices.DeleteFunc(owners, func(w owner) bool { return len(w.fields) == 0 })
}

// apply returns the content after a forced apply, or c itself if nothing changes. Fields that the
// manager applied before and does not apply any more are removed, unless other managers own them
// too. Other managers lose fields whose value changes.
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
		live = by.fields // clusters with the same tree share it
	}
	return c.next(live, by.manager, by.fields)
}

// conflicts returns the other managers that own a field whose value the apply would change.
func (c *content) conflicts(by owner) (managers []string) {
	for _, w := range c.owners {
		if w.manager != by.manager && disagrees(w.fields, by.fields) {
			managers = append(managers, w.manager)
		}
	}
	return managers
}

// disagrees reports whether now has another value for an owned field. No manager owns the
// apiVersion of an object.
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

// edit returns the content after an edit by hand that resulted in live: [Editor] owns the changed
// fields.
func (c *content) edit(live tree) *content {
	fields := difference(c.live, live)
	for _, w := range c.owners {
		if w.manager == Editor {
			fields = merge(intersect(w.fields, live), fields)
		}
	}
	return c.next(live, Editor, fields)
}

// release returns the content without a manager and without the marks, or c itself if it has
// neither. The other fields of the manager stay.
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

// next returns new content in which manager owns fields; the other managers keep their unchanged
// fields.
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

// prune returns live without the fields that are in before, missing in now, and not in others. A
// map that becomes empty is removed, too.
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

// intersect returns owned without the leaves that are missing or have another value in live. A
// map that becomes empty is removed, too.
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

// difference returns the fields of now that are missing or have another value in before.
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
