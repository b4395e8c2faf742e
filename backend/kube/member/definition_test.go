package member

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
)

// TestT8OnlyTheAppliedObjectDefinesKinds has a member whose answer is not the applied object but
// defines an endless number of kinds.
func TestT8OnlyTheAppliedObjectDefinesKinds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},
			"spec":{"group":"g","names":{"kind":"K"},"versions":[{"name":"v1","served":true},{"name":"v2","served":true}]}}`)
	}))
	defer server.Close()
	c, err := newConn(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"},
	}}
	if _, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "m"}); err != nil {
		t.Fatal(err)
	}
	if len(c.mapper.defined) != 0 {
		t.Errorf("%v are remembered", c.mapper.defined)
	}
}
