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
// A context whose name is no DNS label cannot be a cluster: it is left out and reported to
// Unusable. Clusters returns an error, and no cluster, if the file cannot be read or is no
// kubeconfig, or if Contexts has a context that is not in the file or cannot be a cluster. The file
// belongs to the operator: its content is not checked further, and its credentials are not read.
type KubeconfigClusters struct {
	// Path is the file.
	Path string
	// Contexts are the contexts that are clusters; empty means all contexts that are not in Except.
	Contexts []string
	// Except are contexts that are no clusters, such as the source of the objects.
	Except []string
	// Labels are the clusters' labels, by context. Each cluster also has the label [LabelContext].
	Labels map[string]map[string]string
	// Unusable is called with the name of each context that cannot be a cluster, each time the
	// file is read; may be nil.
	Unusable func(context string)
}

// LabelContext is a label of each cluster of [KubeconfigClusters]. Its value is the name of the
// context.
const LabelContext = "slipway.dev/context"

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
			labels := map[string]string{LabelContext: name}
			maps.Copy(labels, k.Labels[name])
			if !yield(placement.Cluster{Name: name, Labels: labels}, nil) {
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
	if len(k.Contexts) == 0 {
		all := slices.Sorted(maps.Keys(cfg.Contexts))
		return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(k.Except, name) || !k.isUsable(name) }), nil
	}
	names := slices.Compact(slices.Sorted(slices.Values(k.Contexts)))
	for _, name := range names {
		if cfg.Contexts[name] == nil {
			return nil, fmt.Errorf("there is no context %q: %w", name, backend.ErrPermanent)
		}
		if !isClusterName(name) {
			return nil, fmt.Errorf("context %q cannot be a cluster, because its name is no DNS label: rename it with kubectl config rename-context: %w", name, backend.ErrPermanent)
		}
	}
	return names, nil
}

// isUsable reports whether a context can be a cluster, and reports to Unusable if it cannot.
func (k KubeconfigClusters) isUsable(name string) bool {
	usable := isClusterName(name)
	if !usable && k.Unusable != nil {
		k.Unusable(name)
	}
	return usable
}

func isClusterName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
