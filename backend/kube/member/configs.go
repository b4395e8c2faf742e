package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/placement"
)

// KubeconfigDirectory returns the configurations in the files <dir>/<cluster>.kubeconfig, with
// their current contexts. Files are read when a cluster is dialled; paths in them are relative to
// dir. A cluster without a file is ErrNotFound. If the operator wrote the files, pass [Trusted].
func KubeconfigDirectory(dir string, allow Allow) ConfigFunc {
	return func(_ context.Context, c placement.Cluster) (*rest.Config, error) {
		if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
			return nil, fmt.Errorf("the name of the cluster is no DNS label: %w", backend.ErrPermanent)
		}
		path := filepath.Join(dir, c.Name+".kubeconfig")
		text, err := readKubeconfig(path)
		if err != nil {
			return nil, err
		}
		cfg, err := kubeconfigAt(text, path, "", allow)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return cfg, nil
	}
}

// KubeconfigContexts returns the configurations of the contexts of one file; the context of a
// cluster has its name. The file is read when a cluster is dialled. A cluster without a context
// is ErrNotFound.
func KubeconfigContexts(path string, allow Allow) ConfigFunc {
	return func(_ context.Context, c placement.Cluster) (*rest.Config, error) {
		text, err := readKubeconfig(path)
		if err != nil {
			return nil, err
		}
		cfg, err := kubeconfigAt(text, path, c.Name, allow)
		switch {
		case c.Name == "" || errors.Is(err, errNoContext):
			return nil, fmt.Errorf("%s: context %q: %w", path, c.Name, backend.ErrNotFound)
		case err != nil:
			return nil, fmt.Errorf("%s: context %s: %w", path, c.Name, err)
		}
		return cfg, nil
	}
}

// readKubeconfig reads a file up to the size limit of a kubeconfig.
func readKubeconfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", err, backend.ErrNotFound)
	case errors.Is(err, os.ErrPermission):
		return nil, api.Permanent(err)
	case err != nil:
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxKubeconfig+1))
}

// SecretGetter reads Secrets of one namespace of the hub; client-go's Secrets(namespace) is one.
type SecretGetter interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
}

// SecretOptions locate the Secrets with kubeconfigs. Zero values mean defaults.
type SecretOptions struct {
	// Name returns the name of the Secret for a cluster; the default is the cluster's name. Cluster
	// API uses <cluster>-kubeconfig.
	Name func(cluster string) string
	// Key is the key of the kubeconfig in the Secret's data; default kubeconfig. Cluster API uses
	// value.
	Key string
	// Allow says which features the kubeconfigs may use; the default allows none. Everybody with the
	// right to write the Secrets can use all features that it allows.
	Allow Allow
}

// KubeconfigSecrets returns the configurations in Secrets on the hub, with their current contexts.
// Secrets are read when a cluster is dialled. A cluster without a Secret is ErrNotFound, a Secret
// without the key ErrPermanent.
func KubeconfigSecrets(secrets SecretGetter, o SecretOptions) ConfigFunc {
	if o.Name == nil {
		o.Name = func(cluster string) string { return cluster }
	}
	if o.Key == "" {
		o.Key = "kubeconfig"
	}
	return func(ctx context.Context, c placement.Cluster) (*rest.Config, error) {
		name := o.Name(c.Name)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("the name of the Secret is not valid: %w", backend.ErrPermanent)
		}
		secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, api.Classify("get", "Secret "+name, err)
		}
		text, ok := secret.Data[o.Key]
		if !ok {
			return nil, fmt.Errorf("data.%s of Secret %s is missing: %w", o.Key, name, backend.ErrPermanent)
		}
		cfg, err := Kubeconfig(text, "", o.Allow)
		if err != nil {
			return nil, fmt.Errorf("data.%s of Secret %s: %w", o.Key, name, err)
		}
		return cfg, nil
	}
}
