package ownership

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Lookup returns the owner of a value like [Fields], but reads only the part of managedFields on
// the path to it, so invalid parts elsewhere are not detected. The managedFields must not change
// during its use. It must not be used concurrently.
type Lookup struct {
	entries []unread
	lists   map[uintptr]list
	// left is the number of list items that may still be read.
	left     int
	warnings []string
	room     [64]byte
}

// unread is an entry that is not read yet.
type unread struct {
	Entry
	fields map[string]any
	// index is its index, for warnings.
	index     int
	senseless bool
}

// list has the items of a list, with their names in fieldsV1.
type list struct {
	items *items[string]
	err   error
}

// NewLookup returns a lookup in metadata.managedFields.
func NewLookup(managed []any) *Lookup {
	l := &Lookup{left: MaxFields, entries: make([]unread, 0, min(len(managed), MaxEntries))}
	for i, raw := range managed {
		if i == MaxEntries {
			l.warnings = append(l.warnings, tooMany(len(managed)))
			break
		}
		e, fields, err := parseHead(raw)
		if err != nil {
			l.warnings = append(l.warnings, leftOut(i, err))
			continue
		}
		l.entries = append(l.entries, unread{Entry: e, fields: fields, index: i})
	}
	return l
}

// Warnings describe the entries that were left out so far.
func (l *Lookup) Warnings() []string { return l.warnings }

// Owner returns the entry that last wrote the value at a path: the entry names it, a part of it,
// or a whole that contains it. An invalid entry on the path is left out from then on.
func (l *Lookup) Owner(path []Step) (Entry, bool) {
	best, depth := Entry{}, 0
	for i := range l.entries {
		e := &l.entries[i]
		d := l.depth(e, path)
		if d > depth || d > 0 && d == depth && !e.at.Before(best.at) {
			best, depth = e.Entry, d
		}
	}
	return best, depth > 0
}

// depth returns the result of covers, or 0 for an entry that is left out.
func (l *Lookup) depth(e *unread, path []Step) int {
	if e.senseless {
		return 0
	}
	d, err := l.covers(e, path)
	if err != nil {
		e.senseless = true
		l.warnings = append(l.warnings, leftOut(e.index, err))
	}
	return d
}

// covers is [Fields.covers] for an unparsed entry.
func (l *Lookup) covers(e *unread, path []Step) (int, error) {
	at := e.fields
	for i, s := range path {
		if i == 0 && !e.writes(s.Name) {
			return 0, nil
		}
		below, ok, err := l.below(at, s)
		if !ok || err != nil {
			return 0, err
		}
		if i == len(path)-1 || !namesMore(below) {
			return i + 1, nil
		}
		at = below
	}
	return 0, nil
}

// namesMore reports whether fields name anything besides a field itself.
func namesMore(below map[string]any) bool {
	_, self := below["."]
	return len(below) > 1 || len(below) == 1 && !self
}

// below returns the fields at a step.
func (l *Lookup) below(fields map[string]any, s Step) (below map[string]any, ok bool, err error) {
	var v any
	if s.Item {
		v, ok, err = l.item(fields, s)
	} else {
		v, ok = fields[string(append(append(l.room[:0], "f:"...), s.Name...))]
	}
	below, isMap := v.(map[string]any)
	if ok && !isMap && v != nil {
		return nil, false, errNoObject
	}
	return below, ok, err
}

func (l *Lookup) item(fields map[string]any, s Step) (v any, ok bool, err error) {
	known := l.list(fields)
	if known.err != nil {
		return nil, false, known.err
	}
	name, ok := known.items.find(s.Value)
	if !ok {
		name = "i:" + strconv.Itoa(s.Index)
	}
	v, ok = fields[name]
	return v, ok, nil
}

// list returns the items that fields name, which are indexed once.
func (l *Lookup) list(fields map[string]any) list {
	at := reflect.ValueOf(fields).Pointer()
	known, ok := l.lists[at]
	if !ok {
		known.items, known.err = l.read(fields)
		if l.lists == nil {
			l.lists = map[uintptr]list{}
		}
		l.lists[at] = known
	}
	return known
}

func (l *Lookup) read(fields map[string]any) (*items[string], error) {
	if l.left -= len(fields); l.left < 0 {
		return nil, errTooManyFields()
	}
	x := newItems[string]()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "." {
			continue
		}
		pe, err := parseElement(name)
		if errors.Is(err, errUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		x.add(pe, name)
	}
	x.sort()
	return x, nil
}

func tooMany(n int) string {
	return fmt.Sprintf("managedFields: only the first %d of %d entries are read", MaxEntries, n)
}

func leftOut(i int, err error) string {
	return fmt.Sprintf("managedFields[%d]: %v; the entry is left out", i, err)
}
