package manifests_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// ruleCase is a case of a file in testdata/rules.
type ruleCase struct {
	Name string `json:"name"`
	// Spec is the spec of the created object, or its field Field.
	Spec map[string]any `json:"spec"`
	// Called is the object's name, if it matters.
	Called string `json:"called,omitempty"`
	// Then is the spec of an update; empty for none.
	Then map[string]any `json:"then,omitempty"`
	// Refused is a part of the error of the last step; empty means that the server accepts it.
	Refused string `json:"refused,omitempty"`
	// Becomes are fields of the stored spec, such as defaults.
	Becomes map[string]any `json:"becomes,omitempty"`
	// Setting is the compatibility setting of the case; empty means all.
	Setting compat.Setting `json:"setting,omitempty"`
}

// ruleFile has the cases of testdata/rules for a kind in both scopes.
type ruleFile struct {
	Group string `json:"group"`
	// Field is the field that the kinds have instead of a spec.
	Field string `json:"field,omitempty"`
	// Kinds are the kinds with their plurals.
	Kinds []struct {
		Kind       string `json:"kind"`
		Plural     string `json:"plural"`
		Namespaced bool   `json:"namespaced,omitempty"`
	} `json:"kinds"`
	Cases []ruleCase `json:"cases"`
}

// TestSchemaRulesOnAServer tries every rule of the schemas on a real API server, in all served
// versions.
func TestSchemaRulesOnAServer(t *testing.T) {
	takesAndRefuses(t, installedServer(t), compat.Default, func(bool) bool { return true })
}

// TestSchemaRulesOfKubeFleet018OnAServer does the same for the kinds that differ.
func TestSchemaRulesOfKubeFleet018OnAServer(t *testing.T) {
	takesAndRefuses(t, kubeFleetServer(t), compat.KubeFleet018, func(differs bool) bool { return differs })
}

// takesAndRefuses plays the cases of the chosen kinds. The argument of chosen is whether a kind
// differs between the settings.
func takesAndRefuses(t *testing.T, s *kubeenv.Server, setting compat.Setting, chosen func(differs bool) bool) {
	served, differs := map[schema.GroupVersionResource]bool{}, map[string]bool{}
	for _, crd := range crdsOf(t, setting) {
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		differs[plural] = crd.GetLabels()[compat.Label] != ""
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			v := v.(map[string]any)
			served[schema.GroupVersionResource{Group: group, Version: v["name"].(string), Resource: plural}] = v["served"].(bool)
		}
	}
	cfg := s.Config()
	cfg.QPS = -1
	client := clientFor(t, cfg)
	namespace := s.Namespace(t)
	for _, path := range ruleFiles(t) {
		var f ruleFile
		readYAML(t, path, &f)
		for _, k := range f.Kinds {
			for _, version := range []string{"v1", "v1beta1"} {
				gvr := schema.GroupVersionResource{Group: f.Group, Version: version, Resource: k.Plural}
				if !served[gvr] || !chosen(differs[k.Plural]) {
					continue
				}
				var c dynamic.ResourceInterface = client.Resource(gvr)
				if k.Namespaced {
					c = client.Resource(gvr).Namespace(namespace)
				}
				for _, rule := range f.Cases {
					if rule.Setting != "" && rule.Setting != setting {
						continue
					}
					t.Run(k.Kind+"."+version+"/"+rule.Name, func(t *testing.T) {
						t.Parallel()
						rule.run(t, c, gvr.GroupVersion().WithKind(k.Kind), cmp.Or(f.Field, "spec"))
					})
				}
			}
		}
	}
}

func (r *ruleCase) run(t *testing.T, c dynamic.ResourceInterface, kind schema.GroupVersionKind, field string) {
	u := &unstructured.Unstructured{Object: map[string]any{field: r.Spec}}
	u.SetGroupVersionKind(kind)
	u.SetGenerateName("rule-")
	if r.Called != "" {
		u.SetName(r.Called)
	}
	got, err := c.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
	if r.Then != nil {
		if err != nil {
			t.Fatal(err)
		}
		got.Object[field] = r.Then
		got, err = c.Update(t.Context(), got, metav1.UpdateOptions{FieldValidation: "Strict"})
	}
	switch {
	case r.Refused == "" && err != nil:
		t.Fatal(err)
	case r.Refused != "" && err == nil:
		t.Fatalf("taken, want %q", r.Refused)
	case r.Refused != "" && !strings.Contains(err.Error(), r.Refused):
		t.Fatalf("%v\nwant %q", err, r.Refused)
	case r.Becomes != nil:
		wantFields(t, field, r.Becomes, got.Object[field])
	}
}

// wantFields fails if got lacks a field of want or has another value.
func wantFields(t *testing.T, at string, want, got any) {
	t.Helper()
	fields, ok := want.(map[string]any)
	if !ok {
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		if string(w) != string(g) {
			t.Errorf("%s is %s, want %s", at, g, w)
		}
		return
	}
	have, _ := got.(map[string]any)
	for name, v := range fields {
		wantFields(t, at+"."+name, v, have[name])
	}
}

func ruleFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/rules/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	return paths
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
