// Package hubtarget is a hub cluster as what the command works on. What is read comes from the store of the hub;
// what is asked for is written to the objects of the Fleet API that people own, so that the API server
// authenticates and authorizes the person, and the hub carries it out.
package hubtarget

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/hub"
)

// Flags say which hub is meant, and which of its objects. The flags of a connection are those of kubectl.
type Flags struct {
	*genericclioptions.ConfigFlags
	// HubNamespace is where the hub keeps its records.
	HubNamespace string
	// AllNamespaces asks for the objects of all namespaces, and those of none.
	AllNamespaces bool
	// command is how the command is called.
	command string
}

// NewFlags returns the flags. --as and --as-group are those of o: on a hub they are the user that the API server
// is asked to impersonate.
func NewFlags(o *cli.Options) *Flags {
	f := &Flags{ConfigFlags: genericclioptions.NewConfigFlags(true), HubNamespace: hub.DefaultNamespace, command: o.Name}
	f.Impersonate, f.ImpersonateGroup = &o.As, &o.Groups
	f.ClusterName = nil // --cluster is a member of the fleet
	f.CacheDir = nil    // nothing is discovered
	return f
}

// AddFlags adds the flags.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(flags)
	flags.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "objects of all namespaces of a hub, and those of none")
	flags.StringVar(&f.HubNamespace, "hub-namespace", f.HubNamespace, "namespace where a hub keeps its records")
}

// namespace is that of the objects that are meant; "" is outside of all.
func (f *Flags) namespace() string {
	if f.AllNamespaces {
		return ""
	}
	return *f.Namespace
}

// IsSet reports whether a cluster is named: by the flags, by a kubeconfig, or because the command runs in one.
func (f *Flags) IsSet() bool {
	if *f.APIServer != "" || *f.KubeConfig != "" || *f.Context != "" {
		return true
	}
	raw, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(raw.Contexts) > 0 {
		return true // an error is for Config to return
	}
	_, err = rest.InClusterConfig()
	return err == nil
}

// Config is how the API server of the hub is reached.
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
