package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
)

// forgetful is a collection whose first list and first watch are never answered.
type forgetful struct {
	lists, watches int
	changes        *watch.FakeWatcher
}

func (f *forgetful) list(ctx context.Context, _ metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error) {
	if f.lists++; f.lists == 1 {
		<-ctx.Done()
		return nil, metav1.ListMeta{}, ctx.Err()
	}
	return nil, metav1.ListMeta{ResourceVersion: "7"}, nil
}

func (f *forgetful) watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if f.watches++; f.watches == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.changes, nil
}

// TestAnAnswerThatIsLostIsNotWaitedForForEver is about a proxy that keeps the
// connection and has lost the request.
func TestAnAnswerThatIsLostIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan metav1.Object)
		f := &forgetful{changes: watch.NewFake()}
		r := reflector{
			from: f, begin: func([]metav1.Object) {}, event: func(_ bool, obj metav1.Object) { seen <- obj },
			failed: func(err error) {
				if errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			},
		}
		go r.run(ctx)
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetResourceVersion("8")
		go f.changes.Add(obj)
		<-seen
		if f.lists < 2 || f.watches != 2 {
			t.Errorf("%d lists and %d watches", f.lists, f.watches)
		}
	})
}

// TestT8OnlyWhatWasAppliedDefinesKinds has a member answer with something else than
// what was applied, which defines kinds without end.
func TestT8OnlyWhatWasAppliedDefinesKinds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},
			"spec":{"group":"g","names":{"kind":"K"},"versions":[{"name":"v1","served":true},{"name":"v2","served":true}]}}`)
	}))
	defer server.Close()
	c, err := newConn(&rest.Config{Host: server.URL}, ConnOptions{})
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
