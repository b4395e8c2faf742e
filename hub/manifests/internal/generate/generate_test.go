package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const manifests = "../.."

func TestTheDefinitionsAreThoseOfTheSource(t *testing.T) {
	want, err := generate(os.DirFS(filepath.Join(manifests, "source")))
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(manifests, "crds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != len(want) {
		t.Errorf("%d files, want %d: remove what is left over", len(paths), len(want))
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(manifests, "crds", name))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(string(text), string(got)); diff != "" {
			t.Errorf("%s is not what the source says; run go generate ./hub/manifests (-want +got):\n%s", name, diff)
		}
	}
}

func TestASourceThatIsWrongIsNamed(t *testing.T) {
	const kinds = "group: g\nkinds: [{kind: K, plural: ks, scope: Cluster}]\ndescription: Is.\n"
	for _, c := range []struct{ name, source, want string }{
		{"a shape that is none", kinds + "spec: {type: object, properties: {a: {$ref: b}}}", `k.yaml: K: a: no shape "b" in types.yaml`},
		{"no description", kinds + "spec: {type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}", "k.yaml: K: a: b: has no description"},
		{"a key that is none", kinds + "specs: {}", `k.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "specs"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{typesFile: {Data: []byte("{}")}, "k.yaml": {Data: []byte(c.source)}}
			_, err := generate(files)
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestATwinHasWhatIsOnlyItsOwn(t *testing.T) {
	spec := schema{"type": "object", "properties": schema{
		"a": schema{"type": "string", "description": "a", "only": "Cluster", "mandatory": true},
		"b": schema{"type": "string", "description": "b", "only": "Namespaced"},
		"c": schema{"$ref": "shape", "add": schema{"more": schema{"type": "string", "description": "more"}}, "description": "c"},
	}}
	shape := schema{"type": "object", "default": schema{}, "properties": schema{"one": schema{"type": "string", "description": "one"}}}
	r := resolver{types: map[string]schema{"shape": shape}, scope: "Cluster", plain: true}
	got, err := r.resolve(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := schema{"type": "object", "required": []any{"a"}, "properties": schema{
		"a": schema{"type": "string", "description": "a"},
		"c": schema{"type": "object", "description": "c", "properties": schema{
			"one":  schema{"type": "string", "description": "one"},
			"more": schema{"type": "string", "description": "more"},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
