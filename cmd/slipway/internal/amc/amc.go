// Package amc has the verbs of the kubectl plugin amc of ACK One: get, which reads the members of
// a hub as kubectl reads a cluster, and workflow, which controls the workflows of applications.
// Members are only read: every other request is refused before it is sent.
package amc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/workflow"
)

// New returns the command amc, with the verbs of the plugin.
func New(shared *cli.Options, t *target.Options, kube *hubtarget.Flags) *cobra.Command {
	cmd := &cobra.Command{Use: "amc", Short: "Read the members of a hub, in the words of the kubectl plugin amc"}
	Complete(cmd, shared, t, kube)
	return cmd
}

// Complete adds the verbs of the plugin to a command, which is the plugin itself or the command
// amc. Any other verb is an error of the command line.
func Complete(cmd *cobra.Command, shared *cli.Options, t *target.Options, kube *hubtarget.Flags) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cli.Usagef("unknown command %q for %q, which only reads members: use %[2]s get, or kubectl with the kubeconfig of the member", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	verbs := []*cobra.Command{newGet(shared, t, kube), workflow.New(shared, t, kube)}
	cmd.AddCommand(verbs...)
}

// getter has the flags of get.
type getter struct {
	*cli.Options
	kube    *hubtarget.Flags
	target  *target.Options
	members []string
	query
	printing
}

const long = `Read objects of members, and show them as kubectl shows the objects of one cluster: in a table that the member's API server
makes, or in the format of -o. A line with the name of the member is above each table. Without -m all members are read.

The flag --clusters (or $SLIPWAY_CLUSTERS) names the members: it is a directory with a file NAME.kubeconfig for each member, such
as the directory of "slipway hub --members", or a kubeconfig with a context for each member. Without the flag, the members are the
MemberClusters of the hub that --kubeconfig or --context names. The Secret NAME in the hub's namespace then has the kubeconfig of
the member under the key kubeconfig. A kubeconfig in a Secret may not name programs or files.

The exit code is 1 if a member could not be read; the other members are still shown.`

func newGet(shared *cli.Options, t *target.Options, kube *hubtarget.Flags) *cobra.Command {
	g := &getter{Options: shared, kube: kube, target: t, printing: newPrinting()}
	cmd := &cobra.Command{
		Use: "get (TYPE [NAME...] | TYPE/NAME...)", Short: "Show objects of members, as kubectl shows the objects of a cluster", Long: long,
		Example: "  " + shared.Name + " get deployment demo -n demo -m cluster1\n  " + shared.Name + " get nodes -m cluster1,cluster2 -o wide",
		Args: cli.Arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("the type of the objects is missing, such as deployment")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			g.types = args
			return g.Within(cmd.Context(), g.run)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&g.members, "managed-cluster", "m", nil, "names of members, separated by commas; default all")
	flags.StringVarP(&g.labels, "selector", "l", "", "selector of labels, as in -l app=demo")
	flags.StringVar(&g.fields, "field-selector", "", "selector of fields, as in --field-selector metadata.name=demo")
	flags.BoolVar(&g.ignoreNotFound, "ignore-not-found", false, "treat a missing object as no error")
	g.printing.addFlags(cmd)
	return cli.Without([]string{"store", "source", "server", "token-file"}, cmd)[0]
}

// run reads the members concurrently, and shows each after those before it.
func (g *getter) run(ctx context.Context) error {
	show, err := g.printer(g.IOStreams)
	if err != nil {
		return err
	}
	m, err := g.find()
	if err != nil {
		return err
	}
	names, err := m.chosen(ctx, g.members)
	if err != nil {
		return err
	}
	g.namespace, g.allNamespaces, g.tables = g.namespaceName(), g.kube.AllNamespaces, show.isTable()
	failed := false
	for answer := range readAll(ctx, m, names, &g.query) {
		if err := show.member(answer); err != nil {
			return err
		}
		failed = failed || len(answer.errs) > 0
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed:
		return cli.ErrShown
	}
	return nil
}

// namespaceName returns the namespace of -n, or of the context, like kubectl.
func (g *getter) namespaceName() string {
	if *g.kube.Namespace != "" {
		return *g.kube.Namespace
	}
	if ns, _, err := g.kube.ToRawKubeConfigLoader().Namespace(); err == nil && ns != "" {
		return ns
	}
	return "default"
}

// chosen returns the names of the requested members, each once and in order, or of all.
func (m *members) chosen(ctx context.Context, asked []string) ([]string, error) {
	all, err := m.list(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("%s has no members", m.where)
	case len(asked) == 0:
		return all, nil
	}
	for _, name := range asked {
		if !slices.Contains(all, name) {
			return nil, cli.Usagef("there is no member %q: %s has %s", name, m.where, listed(all))
		}
	}
	return unique(asked), nil
}

func unique(names []string) (out []string) {
	for _, name := range names {
		if name = strings.TrimSpace(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// listed names some members.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
