package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableIsUpToDate(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../builtin.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("builtin.txt is out of date; run go generate ./drift/schema (-want +got):\n%s", diff)
	}
}

func TestOverlayMustMatchTheTypes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"x/v1.None\n", "known.txt:1: no type is called x/v1.None"},
		{"# comment\nx/v1.A\n none server\n", "known.txt:3: no type of this heading has a field none"},
		{"x/v1.B copy of x/v1.None\n", "known.txt:1: no type is called x/v1.None"},
	} {
		err := small().overlay("known.txt", c.text)
		if err == nil || err.Error() != c.want {
			t.Errorf("overlay(%q): %v, want %q", c.text, err, c.want)
		}
	}
	err := small().readBlocks("extra.txt", "x/v1.A\n field\n")
	if want := `extra.txt:2: " field" is not a field and its type`; err == nil || err.Error() != want {
		t.Errorf("readBlocks: %v, want %q", err, want)
	}
}

func TestOverlayWinsOverTheGoSource(t *testing.T) {
	s := small()
	err := s.overlay("known.txt", `
x/*.A union=Source
 size default=2
x/v1.B copy of x/v1.A
 size type=number server
 more type=string
`)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.blocks["x/v1.A"], s.blocks["x/v1.B"]
	if want := []string{"default=2"}; !slices.Equal(a.field("size").flags, want) {
		t.Errorf("flags of size: %v, want %v", a.field("size").flags, want)
	}
	if want := []string{"union=file,url"}; !slices.Equal(a.flags, want) {
		t.Errorf("flags of A: %v, want %v", a.flags, want)
	}
	if f := b.field("size"); f.typ != "number" || !slices.Equal(f.flags, []string{"default=2", "server"}) {
		t.Errorf("the copy has size %+v", f)
	}
	if b.field("more") == nil || a.field("more") != nil {
		t.Error("a field that was added to the copy is not in the copy alone")
	}
}

func small() *table {
	t := newTable()
	b := &block{name: "x/v1.A", fields: []*field{{name: "size", typ: "string", flags: []string{"default=1"}}}}
	source := []*field{{name: "file", typ: "string"}, {name: "url", typ: "string"}}
	b.fields = append(b.fields, source...)
	b.inline("Source", source)
	t.blocks[b.name] = b
	return t
}
