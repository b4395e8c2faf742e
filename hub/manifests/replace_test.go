package manifests

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// slowServer is a server that answers no request in time.
type slowServer struct{ dynamic.ResourceInterface }

func (slowServer) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, context.DeadlineExceeded
}

func TestReplaceTimesOut(t *testing.T) {
	t.Parallel()
	policy := &unstructured.Unstructured{Object: map[string]any{"kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "p"}}}
	after, err := (&installer{}).replace(t.Context(), slowServer{}, policy)
	if !errors.Is(err, context.DeadlineExceeded) || after != nil {
		t.Errorf("%v, %v", after, err)
	}
}
