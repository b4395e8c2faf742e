package main

import (
	"os"
	"path/filepath"
	"strings"
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
	paths, err := filepath.Glob(filepath.Join(manifests, "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob(filepath.Join(manifests, "crds", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if paths = append(paths, own...); len(paths) != len(want) {
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
		{"a setting that is none", kinds + "spec: {type: object, properties: {a: {settings: {v9: {}}}}}", `k.yaml: K: a: compatibility "v9" is not known: use 2025-07 or v0.18`},
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

// A definition that differs between the compatibility settings is there for each, with the setting as a label.
func TestADefinitionIsThatOfItsSetting(t *testing.T) {
	const kinds = "group: g\nkinds: [{kind: K, plural: ks, scope: Cluster}]\ndescription: Is.\n"
	spec := "servedBy: {v1: v0.18}\nspec: {type: object, description: s, properties: {a: {type: string, description: a, settings: {v0.18: {default: x}}}}}"
	got, err := generate(fstest.MapFS{
		typesFile: {Data: []byte("{}")}, "k.yaml": {Data: []byte(kinds + spec)},
		"same.yaml": {Data: []byte(strings.ReplaceAll(kinds, "ks", "same") + "spec: {type: object, description: s}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || strings.Contains(string(got["same.yaml"]), "compatibility") {
		t.Errorf("%d files, and %s", len(got), got["same.yaml"])
	}
	for path, want := range map[string][]string{
		"ks.yaml":       {"slipway.dev/compatibility: 2025-07\n", "served: false\n"},
		"v0.18/ks.yaml": {"slipway.dev/compatibility: v0.18\n", "default: x\n"},
	} {
		for _, text := range want {
			if !strings.Contains(string(got[path]), text) {
				t.Errorf("%s: no %q in\n%s", path, text, got[path])
			}
		}
	}
	if strings.Contains(string(got["ks.yaml"]), "default:") || strings.Contains(string(got["v0.18/ks.yaml"]), "served: false") {
		t.Error("a definition has what is another setting's")
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
