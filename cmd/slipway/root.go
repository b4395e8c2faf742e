package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/amc"
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

// options are the common flags of all verbs.
type options struct {
	cli.Options
	target target.Options
}

// pluginAMC is the name of the command in its role as kubectl's plugin amc.
const pluginAMC = "kubectl amc"

// commandName returns the name of the command: kubectl calls a plugin by the name of its file.
func commandName(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == "kubectl-amc" {
		return pluginAMC
	}
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl slipway"
	}
	return "slipway"
}

// newRoot returns the command. connect provides the clusters and the source of snapshots; nil
// uses the kubeconfig in the flags.
func newRoot(streams genericiooptions.IOStreams, connect func(*fleet.Config) error, name string) *cobra.Command {
	o := &options{Options: cli.Options{IOStreams: streams, Name: name}}
	o.target = target.Options{Options: &o.Options, Connect: connect}
	root := &cobra.Command{
		Use:           "slipway",
		Short:         "Read and control rollouts across clusters",
		Version:       version(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.Arguments(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(cli.FlagError)
	cli.SetHelp(root, name)
	root.SetVersionTemplate("slipway {{.Version}}\n") // as the verb version prints it
	flags := root.PersistentFlags()
	o.target.AddFlags(flags)
	kube := hubtarget.NewFlags(&o.target)
	kube.AddFlags(flags)
	flags.StringVarP(&o.Output, "output", "o", cli.Table, "table, wide, json, yaml or name")
	flags.StringVar(&o.As, "as", "", "identity of the requester; default the user of the system. On a hub: the user to impersonate")
	flags.StringSliceVar(&o.Groups, "as-group", nil, "groups of the identity that --as names")
	flags.DurationVar(&o.Timeout, "timeout", 0, "time limit of the command, for example 90s or 1h; 0 for no limit")
	if name == pluginAMC {
		root.Use, root.Short = "amc", "Read the members of a hub, and direct the workflows of its applications"
		amc.Complete(root, &o.Options, &o.target, kube)
		return root
	}
	group := func(title string, verbs ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, v := range verbs {
			v.GroupID = title
		}
		root.AddCommand(verbs...)
	}
	group("Rollouts:", append(newRunVerbs(o), newApply(o), newCreate(o), newCatchUp(o), newRollback(o), newWait(o), newWatch(o), newSet(o), newDelete(o))...)
	group("Approvals:", newDecision(o, "approve", approval.Approve), newDecision(o, "reject", approval.Reject))
	group("State:", newGet(o), newDescribe(o), newHistory(o), newExplain(o), newTimeline(o), newLeases(o))
	group("Previews:", newPreview(o), newPreviewSelection(o), newDiff(o), newDrift(o), newForecast(o))
	group("Members of a hub:", newDrains(o)...)
	unused := []string{"store", "source", "server", "token-file"}
	group("Engines and hubs:", append(cli.Without(unused, hubverbs.New(&o.Options, kube), hubverbs.NewMigrate(&o.Options, kube)), newServe(o))...)
	group("Verbs of other systems:", append(azure.Commands(&o.Options), workflow.New(&o.Options, &o.target, kube), amc.New(&o.Options, &o.target, kube))...)
	unused = append(unused, "clusters")
	group("Without an engine:", cli.Without(unused, demo.New(&o.Options), simulate.New(&o.Options), storefile.New(&o.Options))...)
	root.AddCommand(newVersion(o))
	return root
}

// call is a call of a verb on a target.
type call struct {
	*target.Target
	args []string
}

// run returns the name of the run in the first argument, given as NAME or run/NAME.
func (c call) run() string { return runName(c.args[0]) }

// reading returns the command of a verb that only reads. Formats are the formats of -o; none
// means the formats of lists.
func (o *options) reading(use, short, example string, do func(context.Context, call) error, formats ...string) *cobra.Command {
	reads := true
	return o.command(use, short, example, do, &reads, formats...)
}

// writing returns the command of a verb that changes something.
func (o *options) writing(use, short, example string, do func(context.Context, call) error) *cobra.Command {
	return o.command(use, short, example, do, new(bool))
}

// command returns the command of a verb. Its arguments are the words of use up to the first flag:
// RUN is required, [RUN] optional, and NAME... means any number of names. They are completed by
// their kind. A store is opened read-only if reads is true when the verb runs.
func (o *options) command(use, short, example string, do func(context.Context, call) error, reads *bool, formats ...string) *cobra.Command {
	name, rest, _ := strings.Cut(use, " ")
	words := strings.Fields(strings.TrimSuffix(rest[:strings.IndexAny(rest+"-", "-|")], "["))
	least, most := 0, len(words)
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
	}
	cmd := &cobra.Command{Use: use, Short: short}
	if example != "" {
		cmd.Example = "  " + strings.ReplaceAll(example, "\n", "\n  ")
	}
	cmd.Args = cli.Arguments(func(_ *cobra.Command, args []string) error {
		if len(args) == most+1 && len(words) > 0 && words[0] == "RUN" && args[0] == "run" {
			return fmt.Errorf("a run is named alone or as run/NAME, such as run/%s", args[1])
		}
		if len(args) < least || len(args) > most {
			return fmt.Errorf("wrong number of arguments, %d", len(args))
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Formats = formats
		return o.target.Do(cmd.Context(), *reads, func(ctx context.Context, t *target.Target) error {
			c := call{t, args}
			if least > 0 && words[0] == "RUN" {
				return o.withList(ctx, c, do(ctx, c))
			}
			return do(ctx, c)
		})
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		argument := strings.Trim(words[min(len(args), len(words)-1)], "[.]")
		return o.complete(cmd.Context(), name, argument, args, word), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// withList adds to the error of a run that does not exist the similar names or, if there are none,
// the verb that lists the runs.
func (o *options) withList(ctx context.Context, c call, err error) error {
	run := c.run()
	if !errors.Is(err, backend.ErrNotFound) || !strings.HasSuffix(err.Error(), "run "+run+" does not exist") {
		return err
	}
	if run == "run" && len(c.args) > 1 {
		return fmt.Errorf("%w: a run is named alone or as run/NAME, such as run/%s", err, c.args[1])
	}
	all, _ := c.Runs(ctx) // an error has no names to suggest
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if hint := didYouMean(run, names); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return fmt.Errorf("%w; %s get runs lists all", err, o.Name)
}

// didYouMean returns the question after a name that does not exist, "" if no name is similar.
func didYouMean(name string, all []string) string {
	if similar := cli.Similar(name, all); len(similar) > 0 {
		return "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return ""
}

// completing limits the time of a completion, because the shell waits for it.
const completing = 2 * time.Second

// complete returns the possible values of an argument with a prefix, or none if the target is
// unreachable.
func (o *options) complete(ctx context.Context, verb, argument string, args []string, word string) (names []string) {
	if argument == "KIND" {
		return kindNames()
	}
	var g getter
	kind := strings.ToLower(argument)
	switch argument {
	case "REQUEST":
		kind, g.run = "approval", args[0]
	case "CLUSTER":
		g.run = args[0]
	case "NAME":
		if kind = verb; len(args) > 0 {
			kind = args[0]
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	t, err := o.target.Open(ctx, true)
	if err != nil {
		return nil
	}
	defer func() { _ = t.Close() }()
	if l, err := g.list(ctx, call{Target: t}, kind); err == nil {
		names = l.Names()
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
}

// recorded reports the recorded request about an object, unless it failed. If no engine is
// running, it adds that an engine carries it out later.
func (o *options) recorded(c call, err error, object, format string, args ...any) error {
	if err != nil {
		return err
	}
	if !c.Live {
		format += ", for the engine that runs on this store next"
	}
	return o.Recorded(object, format, args...)
}

// noEngine returns the error of a verb that would wait on a file that no program holds.
func noEngine(c call) error {
	if c.Live {
		return nil
	}
	return errors.New("no engine runs on the store, so nothing would change: start one with slipway serve")
}

// runName returns the name of a run that is given as NAME or run/NAME.
func runName(arg string) string { return strings.TrimPrefix(arg, "run/") }
