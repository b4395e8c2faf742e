package main

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// registrar makes a MemberCluster for each kubeconfig that has none.
type registrar struct {
	client dynamic.ResourceInterface
	dir    string
	out    io.Writer
}

func newRegistrar(config *rest.Config, dir string, out io.Writer) (*registrar, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	members := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	return &registrar{client: client.Resource(members), dir: dir, out: out}, nil
}

// run registers what is there, and what comes, until ctx ends. A member that a user
// deletes is not made again while the hub runs.
func (r *registrar) run(ctx context.Context) error { return eachMember(ctx, r.dir, r.register) }

func (r *registrar) register(ctx context.Context, name string) error {
	member := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{},
	}}
	_, err := r.client.Create(ctx, member, metav1.CreateOptions{FieldManager: "slipway-hub"})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("registering MemberCluster %s: %w", name, err)
	}
	fmt.Fprintf(r.out, "registered member %s: label it, as in kubectl label membercluster %s environment=staging\n", name, name)
	return nil
}
