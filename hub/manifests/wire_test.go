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

// wireCase is a case of a file in testdata/wire: a whole object as a client with types of
// KubeFleet's API writes it, with an empty status, and with an empty string for each unset field.
type wireCase struct {
	Name string `json:"name"`
	// Object is the object to create. Missing fields come from the file's object of its kind.
	Object map[string]any `json:"object"`
	// Then is merged into the server's answer for an update; null removes a field.
	Then map[string]any `json:"then,omitempty"`
	// Says is an expression that matches the message of the refused last step; empty means that the
	// server accepts it.
	Says string `json:"says,omitempty"`
	// Becomes are fields in the server's last answer.
	Becomes map[string]any `json:"becomes,omitempty"`
}

// wireFile has the cases of testdata/wire for a kind, or for kinds that are served alike.
type wireFile struct {
	Kinds []string `json:"kinds"`
	// Object has the other fields of the objects in the cases.
	Object map[string]any `json:"object"`
	Cases  []wireCase     `json:"cases"`
}

// TestObjectsOfTypedClients sends objects in the form of KubeFleet's own clients to a real API
// server. The server accepts them, or refuses them with a message that the clients' expressions
// match, including the text before the rule's message.
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

// merged returns into with from merged into it. If takesAway is set, null removes a field;
// otherwise it is a value.
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

// served returns the resource of a kind in the version v1beta1, and whether it is namespaced.
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
