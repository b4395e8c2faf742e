// Package demo plays the tutorial of KubeFleet's staged update runs from its own YAML: the hub, the members and the
// engine's store are all in this process. A host that embeds Slipway reads tutorial.go: what it has to write is there.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// flags are those of the verb.
type flags struct {
	dir, data, output, approve string
	wait, latency              time.Duration
}

// New returns the verb.
func New(o *cli.Options) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play the tutorial of staged update runs, over clusters in memory or in a directory",
		Long: `Play the tutorial of staged update runs: two snapshots, a rollout to three clusters
with a wait and an approval, and the rollback. Nothing but this command is needed.

With --data the same command, with the same YAML files, goes on after Ctrl-C, a
kill or a loss of power, and another terminal reaches it meanwhile by
--store DIRECTORY/slipway.db: to watch, and with --approve ask to approve.`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "auto", "auto draws on a terminal and prints lines elsewhere, text prints a line for each event, json an object")
	flags.StringVar(&f.approve, "approve", "auto", "auto, the command approves, or ask, you do")
	flags.StringVar(&f.dir, "dir", "", "directory whose YAML files are read; those of the tutorial are built in")
	flags.StringVar(&f.data, "data", "", "directory in which everything is kept, and which is made if it is missing; without it, all is in memory")
	flags.DurationVar(&f.wait, "wait", 3*time.Second, "how long timed waits last, instead of what the file says; 0 keeps the file's")
	flags.DurationVar(&f.latency, "latency", 20*time.Millisecond, "how long every call to a member takes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(o, flags); err != nil {
			return err
		}
		left, err := f.play(cmd.Context(), o)
		if errors.Is(err, context.Canceled) || errors.Is(err, watch.ErrLeft) {
			_, _ = fmt.Fprintf(o.ErrOut, "interrupted: %s; %s\n", left, f.fate(cmd))
			return context.Canceled
		}
		return err
	}
	return cmd
}

func (f *flags) check(o *cli.Options, set *pflag.FlagSet) error {
	switch {
	case !slices.Contains([]string{"auto", "text", "json"}, f.output):
		return cli.Usagef("-o %s: want auto, text or json", f.output)
	case f.approve != "auto" && f.approve != "ask":
		return cli.Usagef("--approve %s: want auto or ask", f.approve)
	case set.Changed("data") && f.data == "":
		return cli.Usagef("--data is empty: want a directory; without the flag, everything is in memory")
	case o.Timeout != 0:
		return cli.Usagef("--timeout: want none: the demo ends with the tutorial, or by Ctrl-C")
	case f.wait < 0:
		return cli.Usagef("--wait %s: must not be negative", f.wait)
	case f.latency < 0:
		return cli.Usagef("--latency %s: must not be negative", f.latency)
	}
	return nil
}

// play reads the files and plays the tutorial. It returns what state it left the current run in.
func (f *flags) play(ctx context.Context, o *cli.Options) (left string, err error) {
	docs, files, err := readDocuments(f.dir)
	if err != nil {
		return "", err
	}
	kept, err := openData(ctx, f.data, files)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	show := printer{out: o.Out, json: f.output == "json", drawn: f.output == "auto" && watch.IsTerminal(o.Out, os.Getenv)}
	if err := f.shortenWaits(docs.Strategies, show); err != nil {
		return "", err
	}
	t, err := newTutorial(ctx, docs, kept, show, f.approver())
	if err != nil {
		return "", err
	}
	for _, c := range docs.Clusters {
		t.members.SetDelay(c.Name, func() time.Duration { return f.latency })
	}
	prompt := &watch.Prompt{In: o.In, Out: o.ErrOut}
	if kept.store != "" {
		prompt.Elsewhere = o.Name + " approve --store " + kept.store
	}
	t.in, t.ask = o.In, prompt.Ask
	if err = t.run(ctx); t.current == "" {
		return "no run was created", err
	}
	s, failed := t.engine.Status(context.WithoutCancel(ctx), t.current) // which only reads the store
	if failed != nil {
		return failed.Error(), err
	}
	return watch.Summary(watch.Model{Status: s, Now: time.Now()}), err
}

// shortenWaits makes every timed wait last as long as --wait says, and says so; 0 leaves them as they are.
func (f *flags) shortenWaits(strategies []stages.Strategy, show printer) (err error) {
	for _, s := range strategies {
		for _, st := range s.Stages {
			for _, tasks := range [][]stages.Task{st.Before, st.After} {
				for i := range tasks {
					if t := &tasks[i]; t.Type == stages.TimedWait && f.wait > 0 {
						err = errors.Join(err, show.note("%s, stage %s: waits %s, the file says %s (see --wait)", s.Name, st.Name, f.wait, t.Wait))
						t.Wait = f.wait
					}
				}
			}
		}
	}
	return err
}

// approver is what approves in place of a person, a second after it was asked, so that a reader sees what; nil where a
// person does.
func (f *flags) approver() approval.Authority {
	if f.approve == "ask" {
		return nil
	}
	return approval.Func(func(ctx context.Context, r approval.Request) (approval.Decision, error) {
		select {
		case <-ctx.Done():
			return approval.Decision{}, ctx.Err()
		case <-time.After(min(time.Second, cmp.Or(f.wait, time.Second))):
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: starter}, Comment: "lgtm", Binding: r.Binding}, nil
		}
	})
}

// fate says what becomes of what was left.
func (f *flags) fate(cmd *cobra.Command) string {
	if f.data == "" {
		return "it was kept in memory and is gone"
	}
	command := cmd.CommandPath()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		command += " --" + flag.Name + "='" + strings.ReplaceAll(flag.Value.String(), "'", `'\''`) + "'"
	})
	return "everything is kept, and the same command goes on: " + command
}
