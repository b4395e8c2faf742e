package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The published schema is the one of the definitions.
func TestTheSchemaOfDocumentsIsCurrent(t *testing.T) {
	dir := os.DirFS("../../crds")
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crds := map[string][]byte{}
	for _, name := range names {
		if crds[name], err = fs.ReadFile(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	want, err := jsonSchema(crds)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("../../../..", filepath.FromSlash(schemaFile)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not current, %v: run make generate", schemaFile, err)
	}
	delete(crds, "resourceplacements.yaml")
	if _, err := jsonSchema(crds); err == nil {
		t.Error("a kind is missing")
	}
}

// Keywords of definitions become keywords of JSON Schema, and unknown fields are errors.
func TestAKeywordOfADefinitionBecomesOneOfJSONSchema(t *testing.T) {
	for from, want := range map[string]string{
		`{"type":"object","properties":{"a":{}}}`:                                                                          `{"additionalProperties":false,"properties":{"a":{}},"type":"object"}`,
		`{"type":"object","properties":{"a":{}},"x-kubernetes-preserve-unknown-fields":true}`:                              `{"properties":{"a":{}},"type":"object"}`,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                       `{"additionalProperties":{"type":"string"},"type":"object"}`,
		`{"anyOf":[{"type":"integer"},{"type":"string"}],"pattern":"^a$","x-kubernetes-int-or-string":true}`:               `{"pattern":"^a$","type":["integer","string"]}`,
		`{"type":"integer","format":"int32","x-kubernetes-validations":[{"rule":"self > 0"}],"nullable":true,"minimum":1}`: `{"minimum":1,"type":["integer","null"]}`,
	} {
		var s schema
		if err := json.Unmarshal([]byte(from), &s); err != nil {
			t.Fatal(err)
		}
		plain(s)
		if got, err := json.Marshal(s); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", from, got, err, want)
		}
	}
}
