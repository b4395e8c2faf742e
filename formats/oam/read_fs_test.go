package oam_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-dev/slipway/formats/oam"
)

// Files and directories are read as one input: the result contains the declared values and the
// documents themselves.
func TestFilesAndDirectoriesAreReadAsOneInput(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	object := func(name string) *fstest.MapFile {
		return file("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: demo}\n")
	}
	policy := file(`{"apiVersion": "core.oam.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p", "namespace": "demo"}, "type": "topology", "properties": {"clusters": ["one"]}}`)
	dir := fstest.MapFS{
		"one.txt": object("third"), "app/b.yml": object("second"), "app/a.yaml": object("first"), "app/c.json": policy,
		"app/README": file("not: [read"), "app/below/d.yaml": file("not: [read"), "empty/README": file(""),
	}
	docs, err := oam.ReadFS(dir, "one.txt", "app")
	var names []string
	for _, obj := range docs.All {
		names = append(names, obj.GetName())
	}
	if got := strings.Join(names, " "); err != nil || got != "third first second p" || len(docs.Objects) != 3 || len(docs.Policies) != 1 {
		t.Errorf("%s, %+v, %v", got, docs, err)
	}
	if got := docs.Clusters(); len(got) != 1 || got[0] != "one" {
		t.Errorf("the clusters are %v", got)
	}
	for name, c := range map[string]struct {
		names []string
		with  fstest.MapFS
		want  string
	}{
		"the file and the line": {[]string{"."}, fstest.MapFS{"a.yaml": object("a"), "z.yaml": file("\na: [\n"), "y.yaml": file("kind: Policy\n")}, "z.yaml:"},
		"all files":             {[]string{"z.yaml", "."}, fstest.MapFS{"z.yaml": file("a: [\n"), "y.yaml": file("kind: Policy\n")}, "y.yaml:1"},
		"twice":                 {[]string{"."}, fstest.MapFS{"a.yaml": object("a"), "b.yaml": object("a")}, "is there already"},
	} {
		if _, err := oam.ReadFS(c.with, c.names...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for _, name := range []string{"empty", "none"} {
		if _, err := oam.ReadFS(dir, name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
