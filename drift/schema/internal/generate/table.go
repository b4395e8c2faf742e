package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// table is the written table: blocks of fields.
type table struct {
	groups map[string]string // directory by API group
	blocks map[string]*block
}

// block is a struct.
type block struct {
	name   string
	kind   bool
	flags  []string
	fields []*field
	// inlined are the fields from embedded structs, by their names.
	inlined map[string][]string
}

// field is a line of a block.
type field struct {
	name, typ string
	flags     []string
}

func newTable() *table {
	return &table{groups: map[string]string{}, blocks: map[string]*block{}}
}

func (b *block) inline(name string, fields []*field) {
	if b.inlined == nil {
		b.inlined = map[string][]string{}
	}
	for _, f := range fields {
		b.inlined[name] = append(b.inlined[name], f.name)
	}
}

func (b *block) field(name string) *field {
	for _, f := range b.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// text writes the table, sorted by name.
func (t *table) text() string {
	var b strings.Builder
	b.WriteString("# Written by internal/generate; not to be edited. The format is described in table.go.\n")
	for _, group := range slices.Sorted(maps.Keys(t.groups)) {
		fmt.Fprintf(&b, "# group %q %s\n", group, t.groups[group])
	}
	for _, name := range slices.Sorted(maps.Keys(t.blocks)) {
		t.blocks[name].write(&b)
	}
	return b.String()
}

func (b *block) write(out *strings.Builder) {
	out.WriteString("\n" + b.name)
	if b.kind {
		out.WriteString(" kind")
	}
	writeFlags(out, b.flags)
	slices.SortFunc(b.fields, func(x, y *field) int { return strings.Compare(x.name, y.name) })
	for _, f := range b.fields {
		out.WriteString(" " + f.name + " " + f.typ)
		writeFlags(out, f.flags)
	}
}

func writeFlags(out *strings.Builder, flags []string) {
	for _, f := range flags {
		out.WriteString(" " + f)
	}
	out.WriteString("\n")
}

// readBlocks adds blocks in the form of the table itself.
func (t *table) readBlocks(file, text string) error {
	var b *block
	for n, line := range lines(text) {
		words := strings.Fields(line)
		switch {
		case words[0] == "group" && len(words) == 3:
			t.groups[words[1]] = words[2]
		case !strings.HasPrefix(line, " "):
			b = &block{name: words[0], kind: slices.Contains(words, "kind")}
			b.flags = slices.DeleteFunc(words[1:], func(s string) bool { return s == "kind" })
			t.blocks[b.name] = b
		case b == nil || len(words) < 2:
			return fmt.Errorf("%s:%d: %q is not a field and its type", file, n, line)
		default:
			b.fields = append(b.fields, &field{name: words[0], typ: words[1], flags: words[2:]})
		}
	}
	return nil
}

// lines yields the lines of a text by number, without comments and empty ones.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, "\n")
			if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
				continue
			}
			if !yield(n, line) {
				return
			}
		}
	}
}

// overlay adds the hand-written flags. A heading names blocks, for example apps/*.DeploymentSpec;
// an unknown name is an error.
func (t *table) overlay(file, text string) error {
	var blocks []*block
	for n, line := range lines(text) {
		words := strings.Fields(line)
		var err error
		switch {
		case strings.HasPrefix(line, " "):
			err = overlayField(blocks, words)
		default:
			blocks, err = t.heading(words)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return nil
}

// heading finds the blocks of a heading. With "copy of" it first makes a new one.
func (t *table) heading(words []string) ([]*block, error) {
	if len(words) == 4 && words[1] == "copy" && words[2] == "of" {
		return t.copyBlock(words[0], words[3])
	}
	var found []*block
	for _, name := range slices.Sorted(maps.Keys(t.blocks)) {
		if ok, _ := path.Match(words[0], name); ok {
			found = append(found, t.blocks[name])
			t.blocks[name].addFlags(words[1:])
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no type is called %s", words[0])
	}
	return found, nil
}

func (t *table) copyBlock(name, of string) ([]*block, error) {
	b := t.blocks[of]
	if b == nil {
		return nil, fmt.Errorf("no type is called %s", of)
	}
	c := &block{name: name, flags: slices.Clone(b.flags), inlined: b.inlined}
	for _, f := range b.fields {
		c.fields = append(c.fields, &field{name: f.name, typ: qualify(f.typ, packageOf(of)), flags: slices.Clone(f.flags)})
	}
	t.blocks[name] = c
	return []*block{c}, nil
}

// packageOf returns the part of a block's name before its type.
func packageOf(name string) string { return name[:strings.LastIndex(name, ".")] }

// qualify adds the missing package of the struct in a type.
func qualify(typ, pkg string) string {
	i := strings.LastIndexAny(typ, "[*") + 1
	if inner := strings.TrimRight(typ[i:], "]"); isReference(inner) && !strings.Contains(inner, ".") {
		return typ[:i] + pkg + "." + typ[i:]
	}
	return typ
}

// addFlags adds flags; union=X of an embedded struct stands for its fields.
func (b *block) addFlags(flags []string) {
	for _, flag := range flags {
		if name, ok := strings.CutPrefix(flag, "union="); ok && b.inlined[name] != nil {
			flag = "union=" + strings.Join(b.inlined[name], ",")
		}
		b.flags = append(b.flags, flag)
	}
}

// overlayField adds flags to a field, which may be a new one with type=T first.
func overlayField(blocks []*block, words []string) error {
	found := false
	for _, b := range blocks {
		f := b.field(words[0])
		if f == nil && strings.HasPrefix(words[1], "type=") {
			f = &field{name: words[0]}
			b.fields = append(b.fields, f)
		}
		if f == nil {
			continue
		}
		found = true
		f.addFlags(words[1:])
	}
	if !found {
		return fmt.Errorf("no type of this heading has a field %s", words[0])
	}
	return nil
}

func (f *field) addFlags(flags []string) {
	for _, flag := range flags {
		if typ, ok := strings.CutPrefix(flag, "type="); ok {
			f.typ = typ
			continue
		}
		name, _, valued := strings.Cut(flag, "=")
		f.flags = slices.DeleteFunc(f.flags, func(old string) bool {
			return old == flag || valued && strings.HasPrefix(old, name+"=")
		})
		f.flags = append(f.flags, flag)
	}
}

// isReference reports whether a type is the name of a block.
func isReference(typ string) bool {
	last := typ[strings.LastIndex(typ, ".")+1:]
	return last[0] >= 'A' && last[0] <= 'Z' && !strings.Contains(typ, "[")
}

// shorten leaves out the package of a name if it equals the package of its use.
func shorten(name, pkg string) string {
	if rest, ok := strings.CutPrefix(name, pkg+"."); ok {
		return rest
	}
	return name
}
