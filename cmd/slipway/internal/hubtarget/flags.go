// Package hubtarget has the flags for a hub cluster as a target, which are kubectl's.
package hubtarget

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/hubapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Flags select the hub and its objects. The flags of a connection are kubectl's, except --server
// and --cluster, which have another meaning here.
type Flags struct {
	*genericclioptions.ConfigFlags
	// HubNamespace is the namespace of the hub's records.
	HubNamespace string
	// AllNamespaces selects the objects of all namespaces, and cluster-scoped ones.
	AllNamespaces bool

	target *target.Options
}

// NewFlags returns the flags. They select a hub if no other target is named. --as and --as-group
// belong to the target: on a hub they name the user that the API server impersonates.
func NewFlags(t *target.Options) *Flags {
	f := &Flags{ConfigFlags: genericclioptions.NewConfigFlags(true), HubNamespace: hub.DefaultNamespace, target: t}
	f.APIServer, f.ClusterName = nil, nil
	f.CacheDir = nil // no discovery
	f.Impersonate, f.ImpersonateGroup = nil, nil
	f.WrapConfigFn = func(c *rest.Config) *rest.Config {
		if t.As != "" {
			c.Impersonate.UserName, c.Impersonate.Groups = t.As, t.Groups
		}
		return c
	}
	t.Hub = f.open
	return f
}

// AddFlags adds the flags.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(flags)
	flags.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "objects of all namespaces of a hub, and cluster-scoped objects")
	flags.StringVar(&f.HubNamespace, "hub-namespace", f.HubNamespace, "namespace where a hub keeps its records")
}

// IsSet reports whether a cluster is named: by the flags, by a kubeconfig, or because the command
// runs in one.
func (f *Flags) IsSet() bool {
	if *f.KubeConfig != "" || *f.Context != "" {
		return true
	}
	raw, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(raw.Contexts) > 0 {
		return true // Config returns the error
	}
	_, err = rest.InClusterConfig()
	return err == nil
}

// Config returns the client configuration for the API server of the hub.
func (f *Flags) Config() (*rest.Config, error) {
	if !f.IsSet() {
		return nil, cli.Usagef("no cluster is named: --kubeconfig, --context or $KUBECONFIG names the hub cluster")
	}
	c, err := f.ToRESTConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) || clientcmd.IsConfigurationInvalid(err) || err != nil && *f.KubeConfig == "":
		return nil, fmt.Errorf("kubeconfig: %w", err)
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig %s: %w", *f.KubeConfig, err)
	}
	return c, nil
}

// open returns the hub in the flags. --clusters provides access to the members: a kubeconfig with
// a context for each, or a directory with NAME.kubeconfig for each.
func (f *Flags) open() (*hubapi.Hub, error) {
	if !f.IsSet() {
		return nil, cli.Usagef("--store is not set: it names the file of the store; --server names a server instead, and --kubeconfig or --context a hub")
	}
	config, err := f.Config()
	if err != nil {
		return nil, err
	}
	return hubapi.New(hubapi.Config{
		Rest: config, Namespace: *f.Namespace, AllNamespaces: f.AllNamespaces, HubNamespace: f.HubNamespace, Dialer: dialer(f.target.Clusters),
		Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}, // as without --secrets
	})
}

// ErrNoMembers says that the members of a hub are needed and not named.
var ErrNoMembers = errors.New("--clusters is not set: it names a kubeconfig whose contexts are the members, or the directory of slipway hub --members")

func dialer(clusters string) backend.Dialer {
	if clusters == "" {
		return backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
			return nil, fmt.Errorf("%w: %w", ErrNoMembers, backend.ErrPermanent)
		})
	}
	configs := member.KubeconfigContexts(clusters, member.Trusted())
	if info, err := os.Stat(clusters); err == nil && info.IsDir() {
		configs = member.KubeconfigDirectory(clusters, member.Trusted())
	}
	return member.NewDialer(configs, member.Options{})
}
