// Package ownership reads the managedFields of Kubernetes objects: which manager wrote a field
// last, and which fields a manager applied.
//
// It is the only package that uses structured-merge-diff. It uses v4; apimachinery uses v6, whose
// types never meet these. It decodes keys itself instead of using that library, so that it
// accepts items with absent keys, which current servers write, and refuses text after a key. The
// data of a server is limited in depth and number; an invalid entry is left out with a warning.
package ownership

import (
	"errors"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// The limits of managedFields. Anything beyond them is left out with a warning.
const (
	// MaxEntries is the maximum number of entries that are read.
	MaxEntries = 256
	// MaxFields is the maximum number of fields that all entries together may name.
	MaxFields = 100_000
	// MaxDepth is the greatest depth of nested fields.
	MaxDepth = 128
)

// Apply is the operation of an entry that a server-side apply wrote.
const Apply = "Apply"

// Entry is an entry of managedFields.
type Entry struct {
	Manager, Operation, Subresource string
	// Time is the server's text in RFC 3339, empty if there is none.
	Time string

	at  time.Time
	set *fieldpath.Set
}

// Fields are the managedFields of one object. They may be used by one goroutine
// at a time.
type Fields struct {
	entries []Entry
	items   index
}

// Parse reads metadata.managedFields. The warnings describe the entries that were left out.
func Parse(managed []any) (f *Fields, warnings []string) {
	f = &Fields{items: index{}}
	left := MaxFields
	for i, raw := range managed {
		if i == MaxEntries {
			return f, append(warnings, tooMany(len(managed)))
		}
		e, err := parseEntry(raw, &left)
		if err != nil {
			warnings = append(warnings, leftOut(i, err))
			continue
		}
		f.entries = append(f.entries, e)
	}
	return f, warnings
}

func parseEntry(raw any, left *int) (Entry, error) {
	e, fields, err := parseHead(raw)
	if err != nil {
		return Entry{}, err
	}
	e.set, err = parseSet(e.own(fields), left)
	return e, err
}

// parseHead reads all of an entry except its fields, which it returns unparsed.
func parseHead(raw any) (e Entry, fields map[string]any, err error) {
	m, ok := raw.(map[string]any)
	if !ok {
		return Entry{}, nil, errors.New("it is no object")
	}
	e.Manager, _ = m["manager"].(string)
	e.Operation, _ = m["operation"].(string)
	e.Subresource, _ = m["subresource"].(string)
	text, _ := m["time"].(string)
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		e.Time, e.at = text, at
	}
	fields, ok = m["fieldsV1"].(map[string]any)
	if !ok {
		return Entry{}, nil, errors.New("fieldsV1 is no object")
	}
	return e, fields, nil
}

// own leaves out fields that an update of the status cannot write.
func (e *Entry) own(fields map[string]any) map[string]any {
	if e.Subresource != "status" {
		return fields
	}
	own := maps.Clone(fields)
	maps.DeleteFunc(own, func(name string, _ any) bool {
		field, ok := strings.CutPrefix(name, "f:")
		return !ok || !e.writes(field)
	})
	return own
}

// writes reports whether an entry can write a field of the object.
func (e *Entry) writes(field string) bool {
	return e.Subresource != "status" || field == "status" || field == "metadata"
}

// Step is a level of a path: a field of a map, or an item of a list with its index and its value
// in the object.
type Step struct {
	Name  string
	Item  bool
	Index int
	Value any
	// Keys are the names of an item in managedFields; they are not evaluated.
	Keys []Key
}

// Owner returns the entry that last wrote the value at a path: the entry names it, a part of it,
// or a whole that contains it.
func (f *Fields) Owner(path []Step) (Entry, bool) {
	best, depth := -1, 0
	for i := range f.entries {
		d := f.covers(f.entries[i].set, path)
		if d == 0 || d < depth {
			continue
		}
		if d > depth || !f.entries[i].at.Before(f.entries[best].at) {
			best, depth = i, d
		}
	}
	if best < 0 {
		return Entry{}, false
	}
	return f.entries[best], true
}

// Owners reports the owners of the value at a path, or of the list or map around it: own if an
// apply of manager owns it, and others if any other entry does.
func (f *Fields) Owners(path []Step, manager string) (own, others bool) {
	for i := range f.entries {
		e := &f.entries[i]
		if f.covers(e.set, path) == 0 {
			continue
		}
		if e.appliedBy(manager) {
			own = true
		} else {
			others = true
		}
	}
	return own, others
}

// ListKeys returns the names of the keys that identify the items of a list, or that it is a set,
// if an entry shows that.
func (f *Fields) ListKeys(path []Step) (names []string, set bool) {
	for i := range f.entries {
		at, ok := f.descend(f.entries[i].set, path)
		if !ok {
			continue
		}
		known := f.items.of(at)
		if len(known.shapes) > 0 && len(known.shapes[0].names) > len(names) {
			names = known.shapes[0].names
		}
		set = set || len(known.values) > 0
	}
	return names, set && len(names) == 0
}

func (f *Fields) descend(set *fieldpath.Set, path []Step) (*fieldpath.Set, bool) {
	for _, s := range path {
		pe, ok := f.items.find(set, s)
		if !ok {
			return nil, false
		}
		if set, ok = set.Children.Get(pe); !ok {
			return nil, false
		}
	}
	return set, true
}

// Known reports whether there is any entry.
func (f *Fields) Known() bool { return len(f.entries) > 0 }

func (e *Entry) appliedBy(manager string) bool {
	return e.Operation == Apply && e.Manager == manager && e.Subresource == ""
}

// covers returns 0 if a set does not own the value at a path, and otherwise how many steps of the
// path the set names: the whole path, or the path of a list or map that contains the value and
// that the set owns without naming anything inside.
func (f *Fields) covers(set *fieldpath.Set, path []Step) int {
	for i, s := range path {
		pe, ok := f.items.find(set, s)
		if !ok {
			return 0
		}
		child, below := set.Children.Get(pe)
		if i == len(path)-1 {
			return i + 1
		}
		if !below {
			return i + 1
		}
		set = child
	}
	return 0
}
