package manifests_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// wireCase is a case of a file in testdata/wire: a whole object as clients with types of KubeFleet's API write it, with
// an empty status and with empty words where nothing is said.
type wireCase struct {
	Name string `json:"name"`
	// Object is created. What of it is not told is taken from the file's object of its kind.
	Object map[string]any `json:"object"`
	// Then is merged into what the server returned, which is updated; null takes a field away.
	Then map[string]any `json:"then,omitempty"`
	// Says is an expression that matches the message of the status with which the last step is refused; empty means that
	// it is taken.
	Says string `json:"says,omitempty"`
	// Becomes are fields that the server returns in the end.
	Becomes map[string]any `json:"becomes,omitempty"`
}

// wireFile is what testdata/wire has about a kind, or about twins that are served alike.
type wireFile struct {
	Kinds []string `json:"kinds"`
	// Object is what the objects of the cases have besides.
	Object map[string]any `json:"object"`
	Cases  []wireCase     `json:"cases"`
}

// TestObjectsOfTypedClients shows objects as KubeFleet's own clients write them to a real API server, which takes them or
// refuses them in the words that those compare by expressions, also with what stands in front of a message.
func TestObjectsOfTypedClients(t *testing.T) {
	s := kubeFleetServer(t)
	cfg := s.Config()
	cfg.QPS = -1
	client, namespace := clientFor(t, cfg), s.Namespace(t)
	paths, err := filepath.Glob("testdata/wire/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	for _, path := range paths {
		var f wireFile
		readYAML(t, path, &f)
		for _, kind := range f.Kinds {
			gvr, namespaced := served(t, kind)
			var c dynamic.ResourceInterface = client.Resource(gvr)
			if namespaced {
				c = client.Resource(gvr).Namespace(namespace)
			}
			for i := range f.Cases {
				t.Run(kind+"/"+f.Cases[i].Name, func(t *testing.T) {
					t.Parallel()
					f.Cases[i].run(t, c, gvr.GroupVersion().WithKind(kind), f.Object)
				})
			}
		}
	}
}

func (w *wireCase) run(t *testing.T, c dynamic.ResourceInterface, kind schema.GroupVersionKind, besides map[string]any) {
	u := &unstructured.Unstructured{Object: merged(map[string]any{"metadata": map[string]any{"creationTimestamp": nil}}, besides, false)}
	u.Object = merged(u.Object, w.Object, false)
	u.SetGroupVersionKind(kind)
	if u.GetName() == "" {
		u.SetGenerateName("wire-")
	}
	got, err := c.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
	if w.Then != nil {
		if err != nil {
			t.Fatal(err)
		}
		got.Object = merged(got.Object, w.Then, true)
		got, err = c.Update(t.Context(), got, metav1.UpdateOptions{FieldValidation: "Strict"})
	}
	if w.Says != "" {
		status, ok := err.(apierrors.APIStatus)
		if !ok || !regexp.MustCompile(w.Says).MatchString(status.Status().Message) {
			t.Fatalf("%v\nwant %q", err, w.Says)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "object", w.Becomes, got.Object)
}

// merged is a tree with another one merged into it. Null is a value like another one, or takes away what it is about.
func merged(into, from map[string]any, takesAway bool) map[string]any {
	out := maps.Clone(into)
	for name, v := range from {
		have, isMap := out[name].(map[string]any)
		more, also := v.(map[string]any)
		switch {
		case isMap && also:
			out[name] = merged(have, more, takesAway)
		case v == nil && takesAway:
			delete(out, name)
		default:
			out[name] = v
		}
	}
	return out
}

// served is the resource of a kind in the version v1beta1, and whether it is in namespaces.
func served(t *testing.T, kind string) (schema.GroupVersionResource, bool) {
	t.Helper()
	all := crds(t)
	i := slices.IndexFunc(all, func(crd *unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		return name == kind
	})
	if i < 0 {
		t.Fatalf("no definition of %s", kind)
	}
	plural, group, _ := strings.Cut(all[i].GetName(), ".")
	scope, _, _ := unstructured.NestedString(all[i].Object, "spec", "scope")
	return schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: plural}, scope == "Namespaced"
}
