package inventory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/placement"
)

// KubeconfigClusters is a [backend.Inventory] of the contexts of a kubeconfig file; each context
// is a cluster of that name. Every call reads the file; [backend.WatchInventory] reports changes.
// UIDs are unknown. Its methods may be called concurrently while its fields are not changed.
//
// Clusters returns an error, and no cluster, if the file cannot be read or is no kubeconfig, if
// Contexts has a context that is not in the file, or if the name of a context is no DNS label.
// The file belongs to the operator: its content is not checked further, and its credentials are
// not read.
type KubeconfigClusters struct {
	// Path is the file.
	Path string
	// Contexts are the contexts that are clusters; empty means all.
	Contexts []string
	// Labels are the clusters' labels, by context.
	Labels map[string]map[string]string
}

var _ backend.Inventory = KubeconfigClusters{}

// Clusters yields the clusters by name.
func (k KubeconfigClusters) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		names, err := k.names(ctx)
		if err != nil {
			yield(placement.Cluster{}, api.Classify("list", "kubeconfig "+k.Path, err))
			return
		}
		for _, name := range names {
			if !yield(placement.Cluster{Name: name, Labels: maps.Clone(k.Labels[name])}, nil) {
				return
			}
		}
	}
}

// names returns the contexts that are clusters, ascending.
func (k KubeconfigClusters) names(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(k.Path)
	if err != nil {
		return nil, err // the file may appear later
	}
	cfg, err := clientcmd.Load(text)
	if err != nil {
		// The parser's error may quote credentials.
		return nil, fmt.Errorf("the file is no kubeconfig: %w", backend.ErrPermanent)
	}
	names := slices.Sorted(maps.Keys(cfg.Contexts))
	if len(k.Contexts) > 0 {
		names = slices.Compact(slices.Sorted(slices.Values(k.Contexts)))
	}
	for _, name := range names {
		if cfg.Contexts[name] == nil {
			return nil, fmt.Errorf("there is no context %q: %w", name, backend.ErrPermanent)
		}
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			return nil, fmt.Errorf("context %q is no name of a cluster, which is a DNS label; rename it, or list the contexts to use: %w", name, backend.ErrPermanent)
		}
	}
	return names, nil
}
