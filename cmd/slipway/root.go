package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/workflow"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connector completes the configuration of an engine by how clusters are reached, and the source of
// snapshots.
type connector func(c *fleet.Config, o *options) error

// options are the flags that all verbs have.
type options struct {
	cli.Options
	connect connector

	store    string
	clusters string
	source   string
}

// commandName is how the command is called: kubectl calls a plugin by the name of its file.
func commandName(path string) string {
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl slipway"
	}
	return "slipway"
}

func newRoot(streams genericiooptions.IOStreams, connect connector, name string) *cobra.Command {
	o := &options{Options: cli.Options{IOStreams: streams, Name: name}, connect: connect}
	root := &cobra.Command{
		Use:           "slipway",
		Short:         "Read and direct rollouts across clusters",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.Arguments(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	flags := root.PersistentFlags()
	flags.StringVar(&o.store, "store", "", "file of the store")
	flags.StringVar(&o.clusters, "clusters", "", "kubeconfig whose contexts are the clusters")
	flags.StringVar(&o.source, "source", "", "context of the kubeconfig that snapshots are taken from")
	flags.StringVarP(&o.Output, "output", "o", cli.Table, "table, wide, json, yaml or name")
	flags.StringVar(&o.As, "as", "", "identity that asks")
	flags.StringSliceVar(&o.Groups, "as-group", nil, "groups of the identity that asks")
	root.AddCommand(newGet(o), newHistory(o), newPreview(o), newPreviewSelection(o), newDiff(o), newDrift(o),
		newDecision(o, "approve", approval.Approve), newDecision(o, "reject", approval.Reject),
		newRollback(o), newSet(o), newDelete(o), newCreate(o), newCatchUp(o), newExplain(o), newVersion(o))
	root.AddCommand(runCommands(o)...)
	root.AddCommand(workflow.New(&o.Options))
	return root
}

// withEngine opens the store and calls do with an engine on it, which is not run: it reads, and
// records what is asked for.
func (o *options) withEngine(do func(*fleet.Engine) error, readOnly bool) (err error) {
	if err := o.CheckOutput(); err != nil {
		return err
	}
	if o.store == "" {
		return cli.UsageError{Err: errors.New("--store is not set: it names the file of the store")}
	}
	if _, err := os.Stat(o.store); err != nil {
		return fmt.Errorf("store: %w", err) // a file that a verb would make is no store of anything
	}
	store, err := bolt.Open(o.store, bolt.Options{ReadOnly: readOnly})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cfg := fleet.Config{Store: store, Name: "slipway"}
	if err := o.connect(&cfg, o); err != nil {
		return err
	}
	e, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	return do(e)
}

// reading calls do with an engine on a store that is opened for reading.
func (o *options) reading(do func(context.Context, *fleet.Engine, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return o.withEngine(func(e *fleet.Engine) error { return do(cmd.Context(), e, args) }, true)
	}
}

// writing calls do with an engine on a store that is opened for writing.
func (o *options) writing(do func(context.Context, *fleet.Engine, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return o.withEngine(func(e *fleet.Engine) error { return do(cmd.Context(), e, args) }, false)
	}
}

// kubeconfigs reaches clusters through the contexts of a kubeconfig. Without one there are no clusters.
func kubeconfigs(c *fleet.Config, o *options) error {
	c.Inventory = inventory.KubeconfigClusters{Path: o.clusters}
	c.Dialer = member.NewDialer(member.KubeconfigContexts(o.clusters, member.Trusted()), member.Options{})
	if o.source == "" {
		return nil
	}
	cfg, err := contextConfig(o.clusters, o.source)
	if err != nil {
		return fmt.Errorf("--source %s: %w", o.source, err)
	}
	c.Source, err = source.New(cfg, source.Options{})
	return err
}

func contextConfig(path, name string) (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path},
		&clientcmd.ConfigOverrides{CurrentContext: name},
	).ClientConfig()
}
