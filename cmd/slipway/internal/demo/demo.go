// Package demo runs the tutorial of KubeFleet's staged update runs from its own YAML: the hub,
// the members and the engine's store are all in this process. tutorial.go shows the code that a
// host needs to embed Slipway.
package demo

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// tutorialFiles are the tutorial's own documents, and its members.
//
//go:embed tutorial/*.yaml
var tutorialFiles embed.FS

// storeFile is the store in the directory of --data: it has the state of the engine, and beside
// it the state of the hub and the members.
const storeFile = target.DemoFile

// flags are the flags of the verb.
type flags struct {
	dir, data, output, approve string
	wait, latency              time.Duration
	measures                   target.Measures
}

// New returns the verb.
func New(o *cli.Options) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play the tutorial of staged update runs, over clusters in memory or in a directory",
		Long: `Play the tutorial of staged update runs: two snapshots, a rollout to three clusters
with a wait and an approval, and the return to the older snapshot. Nothing but this command is needed.

With --data the same command continues after Ctrl-C, a kill or a loss of power. While it
runs, another terminal watches it by --store DIRECTORY/slipway.db, or by the URL of the
database, and approves with --approve ask. If --data is a database, each "slipway serve --demo"
on it drives the runs, too, and gives the approvals.

The exit code is 4 if a run did not complete or was rolled back.`,
		Args: cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.data == "" && cmd.Flags().Changed("data") {
				return cli.Usagef("--data is empty: want a directory; without the flag, all is in memory")
			}
			if err := f.check(o); err != nil {
				return err
			}
			return f.play(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "auto",
		"auto draws on a terminal and prints lines elsewhere, text prints a line for each event, json an object")
	flags.StringVar(&f.approve, "approve", "auto", "auto: the command approves; ask: you approve")
	flags.StringVar(&f.dir, "dir", "", "directory with other YAML files than those of the tutorial")
	flags.StringVar(&f.data, "data", "", "directory that keeps everything, created if it is missing, or postgres://… for a database; default: in memory")
	flags.DurationVar(&f.wait, "wait", 3*time.Second, "duration of every timed wait; 0 keeps the durations of the files")
	f.measures.AddFlags(flags)
	flags.DurationVar(&f.latency, "latency", 20*time.Millisecond, "how long every call to a member takes")
	return cmd
}

func (f *flags) check(o *cli.Options) error {
	switch {
	case !slices.Contains([]string{"auto", "text", cli.JSON}, f.output):
		return cli.Usagef("-o %s: want auto, text or json", f.output)
	case f.approve != "auto" && f.approve != "ask":
		return cli.Usagef("--approve %s: want auto or ask", f.approve)
	case f.approve == "ask" && target.InDatabase(f.data):
		return cli.Usagef("--approve ask goes with a directory: the engines of a database approve")
	case o.Timeout != 0:
		return cli.Usagef("--timeout: leave it out, because the demo ends with the tutorial or by Ctrl-C")
	case f.wait < 0 || f.latency < 0:
		return cli.Usagef("--wait %s, --latency %s: must not be negative", f.wait, f.latency)
	}
	return target.CheckStore("--data", f.data)
}

// play reads the files and runs the tutorial.
func (f *flags) play(ctx context.Context, o *cli.Options) (err error) {
	docs, err := documents(f.dir)
	if err != nil {
		return err
	}
	shown := *o
	shown.Output = f.output
	show := &printer{Options: &shown, drawn: f.output == "auto" && watch.IsTerminal(o.Out, os.Getenv)}
	f.shortenWaits(docs.Strategies, show)
	var store backend.Store = memory.NewStore()
	prompt, fate, file := &watch.Prompt{In: o.In, Out: o.ErrOut}, "the demo is in memory only, and ends: --data DIRECTORY keeps it", ""
	shared := target.InDatabase(f.data)
	if f.data != "" {
		place := f.data
		if file = filepath.Join(f.data, storeFile); shared {
			place, file = "the database", f.data // the URL may have a password
		}
		var log *slog.Logger
		if !show.drawn { // it would damage the picture
			log = o.Logger()
		}
		kept, opening := openStore(ctx, f.data, log)
		if opening != nil {
			return fmt.Errorf("--data %s: %w", place, opening)
		}
		defer func() { err = errors.Join(err, kept.Close()) }()
		store, prompt.Elsewhere = kept, o.Name+" approve --store "+file
		fate = "everything is kept in " + place + ", and the same command continues"
	}
	var authority approval.Authority
	if f.approve == "auto" {
		authority, prompt = approval.Func(f.approveSoon), nil
	}
	t, err := newTutorial(ctx, docs, store, shared, authority, &f.measures)
	if err != nil {
		return err
	}
	for _, c := range docs.Clusters {
		t.members.SetDelay(c.Name, func() time.Duration { return f.latency })
	}
	t.prompt, t.show, t.leave = prompt, show, "the demo ends"
	if f.data != "" {
		t.leave = "the same command continues the demo"
	}
	err = target.Drive(ctx, t.engine, file, t.play)
	if errors.Is(err, context.Canceled) || errors.Is(err, watch.ErrLeft) {
		_, _ = fmt.Fprintf(o.ErrOut, "interrupted: %s; %s\n", t.left(context.WithoutCancel(ctx)), fate)
		return context.Canceled
	}
	return err
}

// documents reads the YAML files of a directory, or the built-in ones if dir is "". The runs are
// sorted by name.
func documents(dir string) (kubefleet.Documents, error) {
	root, err := fs.Sub(tutorialFiles, "tutorial")
	if dir != "" {
		root = os.DirFS(dir)
	}
	docs, failed := kubefleet.ReadFS(root)
	if err = cmp.Or(err, failed); err != nil && dir != "" {
		err = fmt.Errorf("--dir %s: %w", dir, target.Plainly(err))
	}
	for i := range docs.Strategies {
		docs.Strategies[i].Requests = approval.NamedByStage // a hub's default
	}
	slices.SortStableFunc(docs.Runs, func(a, b kubefleet.Run) int { return strings.Compare(a.Name, b.Name) })
	return docs, err
}

// openStore opens a database, or the store in a directory. It creates both if they are missing,
// with access for their owner only.
func openStore(ctx context.Context, place string, log *slog.Logger) (target.Store, error) {
	if !target.InDatabase(place) {
		if err := os.MkdirAll(place, 0o700); err != nil {
			return nil, err
		}
		place = filepath.Join(place, storeFile)
	}
	return target.OpenStore(ctx, place, bolt.Options{Wait: time.Second}, log) // a process that was killed gives the file free
}

// shortenWaits sets every timed wait to the duration of --wait, and says so; 0 changes nothing.
func (f *flags) shortenWaits(strategies []stages.Strategy, show *printer) {
	for _, s := range strategies {
		for _, st := range s.Stages {
			for _, tasks := range [][]stages.Task{st.Before, st.After} {
				for i := range tasks {
					if t := &tasks[i]; t.Type == stages.TimedWait && f.wait > 0 {
						show.note("%s, stage %s: waits %s, the file says %s (see --wait)", s.Name, st.Name, f.wait, t.Wait.Duration)
						t.Wait.Duration = f.wait
					}
				}
			}
		}
	}
}

// approveSoon approves in place of a person, a second after the request, so that a reader sees
// the request.
func (f *flags) approveSoon(ctx context.Context, r approval.Request) (approval.Decision, error) {
	_ = backoff.Sleep(ctx, min(time.Second, cmp.Or(f.wait, time.Second)))
	return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: starter}, Comment: "lgtm", Binding: r.Binding}, ctx.Err()
}

// printer shows events as lines: objects, or text. If runs are drawn, it shows only events that
// belong to no run. It keeps the first error of the output.
type printer struct {
	*cli.Options
	drawn bool
	err   error
}

// print shows a value as an object, or else as text.
func (p *printer) print(v any, text string) error {
	if p.err == nil {
		p.err = p.PrintLine(v, text)
	}
	return p.err
}

// note shows a text of the program itself, which is no object.
func (p *printer) note(format string, args ...any) {
	if p.Output != cli.JSON {
		_ = p.print(nil, "# "+fmt.Sprintf(format, args...))
	}
}

func (p *printer) event(e stages.Event) error {
	if !p.drawn {
		return p.print(e, watch.Line(e))
	}
	if e.Type == stages.SnapshotTaken {
		p.note("snapshot %d of %d objects: %s", *e.Index, e.Count, e.Message)
	}
	return p.err
}

// Member is the actual state of a cluster after a run, read from the cluster.
type Member struct {
	Time time.Time `json:"time"`
	// Type is "Member".
	Type    string `json:"type"`
	Run     string `json:"run"`
	Cluster string `json:"cluster"`
	// Data is the data of the ConfigMap; null if the cluster has none.
	Data map[string]string `json:"data"`
}

func (p *printer) member(m Member) {
	if text := labels.FormatLabels(m.Data); p.drawn {
		p.note("%s has %s", m.Cluster, text)
	} else {
		_ = p.print(m, watch.LineOf(m.Time, m.Type, []string{m.Run, m.Cluster}, text))
	}
}
