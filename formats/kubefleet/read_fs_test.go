package kubefleet_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

func yamlFile(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n"

func TestADirectoryIsReadAsOneInput(t *testing.T) {
	t.Parallel()
	dir := fstest.MapFS{
		"b.yml": yamlFile(strings.ReplaceAll(namespace, "NAME", "second")), "a.yaml": yamlFile(strings.ReplaceAll(namespace, "NAME", "first")),
		"c.json": yamlFile(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "third"}}`),
		"README": yamlFile("not: [read"), "below/c.yaml": yamlFile("not: [read"),
	}
	docs, err := kubefleet.ReadFS(dir)
	if err != nil || len(docs.Objects) != 3 || docs.Objects[0].GetName() != "first" || docs.Objects[1].GetName() != "second" {
		t.Errorf("%+v, %v", docs.Objects, err)
	}
	if got := docs.PlaceOf("Namespace", "", "second").String(); got != "b.yml:1" {
		t.Errorf("the second is at %s", got)
	}
	for name, c := range map[string]struct {
		dir  fstest.MapFS
		want string
	}{
		"the file and the line": {fstest.MapFS{"a.yaml": dir["a.yaml"], "z.yaml": yamlFile("a: [\n"), "y.yaml": yamlFile("kind: Namespace\n")}, "z.yaml:"},
		"all files":             {fstest.MapFS{"z.yaml": yamlFile("a: [\n"), "y.yaml": yamlFile("kind: Namespace\n")}, "y.yaml:"},
		"twice":                 {fstest.MapFS{"a.yaml": dir["a.yaml"], "b.yaml": dir["a.yaml"]}, "b.yaml:1: Namespace/first: metadata.name: is there already, at a.yaml:1"},
	} {
		if _, err := kubefleet.ReadFS(c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	later := fstest.MapFS{"a.yaml": yamlFile("# one\n# two\nkind: Namespace\n"), "b.yaml": yamlFile("kind: Namespace\n")}
	const want = "a.yaml:3: Namespace: apiVersion: must be a string, and not empty\nb.yaml:1: Namespace: apiVersion: must be a string, and not empty"
	if _, err := kubefleet.ReadFS(later); err == nil || err.Error() != want {
		t.Errorf("problems of two files: %v, want %s", err, want)
	}
	if _, err := kubefleet.ReadFS(fstest.MapFS{"README": yamlFile("")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}
