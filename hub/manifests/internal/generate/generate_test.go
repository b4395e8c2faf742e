package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// definition is a definition as controller-gen writes it, of a kind with a spec and a status.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {annotations: {controller-gen.kubebuilder.io/version: v1.2.3}, name: ks.g}
spec:
  group: g
  names: {kind: KIND, plural: ks}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: &spec
            type: object
            properties:
              state: {type: string, description: The state., default: written, pattern: ^a$}
              labelSelector:
                type: object
                properties:
                  matchLabels: {type: object, additionalProperties: {type: string}}
                  matchExpressions: {type: array, items: {type: object, properties: {operator: {type: string}}}}
          status: *spec
`

func TestADefinitionGetsBothVersions(t *testing.T) {
	got, err := generate(fstest.MapFS{"k.yaml": {Data: []byte(strings.Replace(definition, "KIND", "K", 1))}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(got["ks.yaml"])
	if len(got) != 1 || strings.Count(text, "served: true") != 2 || strings.Count(text, "storage: true") != 1 ||
		strings.Contains(text, "compatibility") || strings.Contains(text, "controller-gen.kubebuilder.io") {
		t.Errorf("%d files, and %s", len(got), text)
	}
	// Each version has the operators in the spec and in the status, and the default in the spec alone.
	if strings.Count(text, "- DoesNotExist") != 4 || strings.Count(text, "default: written") != 2 || strings.Count(text, "pattern: ^a$") != 2 {
		t.Errorf("operators, defaults or patterns are missing or too many:\n%s", text)
	}
}

func TestDefinitionsDependOnTheSetting(t *testing.T) {
	got, err := generate(fstest.MapFS{"k.yaml": {Data: []byte(strings.Replace(definition, "KIND", "ClusterStagedUpdateRun", 1))}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("%d files, want 2", len(got))
	}
	for path, want := range map[string][]string{
		"ks.yaml":       {"slipway.dev/compatibility: 2025-07\n", "served: false\n", "description: The state. Absent means Run.\n"},
		"v0.18/ks.yaml": {"slipway.dev/compatibility: v0.18\n", "default: Initialize\n", "description: The state.\n"},
	} {
		for _, text := range want {
			if !strings.Contains(string(got[path]), text) {
				t.Errorf("%s: no %q in\n%s", path, text, got[path])
			}
		}
	}
	if strings.Contains(string(got["v0.18/ks.yaml"]), "served: false") {
		t.Error("v0.18 does not serve v1")
	}
}

func TestWithoutDefinitionsTheErrorNamesTheCommand(t *testing.T) {
	if _, err := generate(fstest.MapFS{}); err == nil || err.Error() != "no definitions; run make generate" {
		t.Errorf("%v", err)
	}
}
