package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	// known are those that there were, so that one which somebody deletes is not
	// made again while the hub runs.
	known map[string]bool
}

// lookEvery is how often the directory is looked at.
const lookEvery = 5 * time.Second

func newRegistrar(config *rest.Config, dir string, out io.Writer) (*registrar, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	members := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	return &registrar{client: client.Resource(members), dir: dir, out: out, known: map[string]bool{}}, nil
}

// run registers what is there, and what comes, until ctx ends.
func (r *registrar) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look registers the members of which the directory has a kubeconfig.
func (r *registrar) look(ctx context.Context) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("-members: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".kubeconfig")
		if !ok || r.known[name] {
			continue
		}
		if err := r.register(ctx, name); err != nil {
			return fmt.Errorf("-members: %s: %w", filepath.Join(r.dir, e.Name()), err)
		}
		r.known[name] = true
	}
	return nil
}

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
