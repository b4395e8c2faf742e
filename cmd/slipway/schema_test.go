package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// documentsIn returns the documents of the Fleet API in a file, as JSON values.
func documentsIn(t *testing.T, text []byte) (all []any) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		js, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
		if err != nil {
			t.Fatal(err)
		}
		if version, _ := v.(map[string]any)["apiVersion"].(string); strings.Contains(version, "kubernetes-fleet.io/") {
			all = append(all, v)
		}
	}
	return all
}

func publishedSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../api/schema/slipway.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// All documents of the repository are valid by the published schema, and so is the output of get.
func TestDocumentsAreValidByThePublishedSchema(t *testing.T) {
	s, checked := publishedSchema(t), 0
	for _, root := range []string{"../../examples/files", "../../formats/kubefleet/testdata/tutorial", "internal/demo/tutorial", "testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" || strings.Contains(path, "quantities") || strings.Contains(path, "texts") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, v := range documentsIn(t, text) {
				if err := s.Validate(v); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				checked++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 12 {
		t.Errorf("only %d documents were found", checked)
	}
	v := newEnv(t)
	v.shows(cli.ExitDone, "apply -f ../../examples/files")
	js, err := yaml.YAMLToJSON([]byte(v.shows(cli.ExitDone, "get strategies -o yaml")))
	v.must(err)
	list, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
	v.must(err)
	if err := s.Validate(list); err != nil {
		t.Error(err)
	}
}

// An editor marks the mistakes that the reader refuses.
func TestThePublishedSchemaRefusesMistakes(t *testing.T) {
	s := publishedSchema(t)
	for _, c := range []struct{ from, to, want string }{
		{"External", "Extern", "'/spec/strategy/type'"},
		{"resourceSelectors", "resourceSelector", "'resourceSelector'"},
		{"name: store", "name: store, namespace: x", "'/metadata/namespace'"},
		{"v1beta1", "v2", "'/apiVersion'"},
		{"ClusterResourcePlacement", "ClusterResourcePlacements", "'/kind'"},
		{"strategy:", "revisionHistoryLimit: 0\n  strategy:", "'/spec/revisionHistoryLimit'"},
	} {
		for _, v := range documentsIn(t, []byte(strings.Replace(placementFile, c.from, c.to, 1))) {
			if err := s.Validate(v); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.to, err, c.want)
			}
		}
	}
}
