package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/azure"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/demo"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubverbs"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/simulate"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/storefile"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/workflow"
	"github.com/slipway-dev/slipway/fleet"
)

// options are the flags that all verbs have.
type options struct {
	cli.Options
	target target.Options
}

// commandName is how the command is called: kubectl calls a plugin by the name of its file.
func commandName(path string) string {
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl slipway"
	}
	return "slipway"
}

// connector completes the configuration of an engine by how clusters are reached, and the source of snapshots.
type connector func(*fleet.Config) error

// newRoot returns the command. A nil connect is by the kubeconfig that the flags name.
func newRoot(streams genericiooptions.IOStreams, connect connector, name string) *cobra.Command {
	o := &options{Options: cli.Options{IOStreams: streams, Name: name}}
	o.target = target.Options{Options: &o.Options, Connect: connect}
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
	o.target.AddFlags(flags)
	kube := hubtarget.NewFlags(&o.target)
	kube.AddFlags(flags)
	flags.StringVarP(&o.Output, "output", "o", cli.Table, "table, wide, json, yaml or name")
	flags.StringVar(&o.As, "as", "", "identity that asks, without it the user of the system; on a hub the user to impersonate")
	flags.StringSliceVar(&o.Groups, "as-group", nil, "groups of the identity that --as names")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the command may take, as in 90s or 1h; 0 is without end")
	group := func(title string, verbs ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, v := range verbs {
			v.GroupID = title
		}
		root.AddCommand(verbs...)
	}
	group("Rollouts:", append(newRunVerbs(o), newCreate(o), newCatchUp(o), newRollback(o), newWait(o), newWatch(o), newSet(o), newDelete(o))...)
	group("Approvals:", newDecision(o, "approve", approval.Approve), newDecision(o, "reject", approval.Reject))
	group("What there is:", newGet(o), newDescribe(o), newHistory(o), newExplain(o), newTimeline(o), newLeases(o))
	group("What would be:", newPreview(o), newPreviewSelection(o), newDiff(o), newDrift(o), newForecast(o))
	group("Engines and hubs:", newServe(o), hubverbs.New(&o.Options, kube))
	group("In the words of other systems:", append(azure.Commands(&o.Options), workflow.New(&o.Options, &o.target, kube))...)
	group("Without an engine:", demo.New(&o.Options), simulate.New(&o.Options), storefile.New(&o.Options))
	root.AddCommand(newVersion(o))
	return root
}

// action is what a verb does with a target.
type action func(ctx context.Context, t *target.Target, args []string) error

// reading returns what cobra runs for a verb that only reads.
func (o *options) reading(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return o.reach(cmd, args, do, true) }
}

// writing is reading for a verb that asks for something.
func (o *options) writing(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return o.reach(cmd, args, do, false) }
}

// reach calls do with the target.
func (o *options) reach(cmd *cobra.Command, args []string, do action, readOnly bool) error {
	return o.target.Do(cmd.Context(), readOnly, func(ctx context.Context, t *target.Target) error { return do(ctx, t, args) })
}

// recorded reports what was asked for of an object, and where no engine runs that it is carried out later.
func (o *options) recorded(t *target.Target, object, format string, args ...any) error {
	if !t.Live {
		format += ", for the engine that runs on this store next"
	}
	return o.Recorded(object, format, args...)
}

// nothingGoesOn is the error of a verb that waits on a file that no program holds.
func nothingGoesOn(t *target.Target) error {
	if t.Live {
		return nil
	}
	return errors.New("nothing goes on here: no program holds the file of the store; slipway serve runs an engine on it")
}

// runName is the name of a run that is given as NAME or run/NAME.
func runName(arg string) string { return strings.TrimPrefix(arg, "run/") }
