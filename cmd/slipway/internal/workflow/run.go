package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/stages"
)

// player is the verb run.
type player struct {
	*options
	*simulation
	// resume has the workflows that wait for a person resumed; wait waits for that person.
	resume, wait bool
	// printed are how many events of each run were.
	printed map[string]int64
}

func newRun(o *options) *cobra.Command {
	p := &player{options: o, printed: map[string]int64{}}
	cmd := &cobra.Command{
		Use:   "run FILE...|DIR",
		Short: "Play the workflows of Applications in files, over clusters in memory",
		Long: `Play the workflows of the Applications in files, with their policies, workflows and the objects that
they refer to, over clusters in memory: those that documents of kind MemberCluster or ManagedCluster
declare, or else those that topologies name. A Deployment is ready at once there, unless its image has
the tag "broken".

An event of a run is a line. It ends when no workflow goes on without a person: with 4 where one is
suspended or failed, and with 1 where one cannot begin. With --store everything is kept in that file, and
called again, also after it was killed, it goes on; a file with another publishVersion begins a new
workflow.`,
		Args: cli.Arguments(cobra.MinimumNArgs(1)),
		RunE: p.run,
	}
	cmd.Flags().BoolVar(&p.resume, "resume", false, "resume a workflow whenever it waits for a person")
	cmd.Flags().BoolVar(&p.wait, "wait", false, "wait for that person, at another terminal; with --store")
	return cmd
}

func (p *player) run(cmd *cobra.Command, args []string) (err error) {
	path := p.target.Store
	switch {
	case p.target.Server != "":
		return cli.Usagef("--server is not for run, which plays workflows in this process")
	case p.Output == cli.YAML || p.Output == cli.Name:
		return cli.Usagef("-o %s: events are shown as table, wide or json", p.Output)
	case p.wait && path == "":
		return cli.Usagef("--wait is for a store that another terminal reaches: set --store")
	case p.wait && p.resume:
		return cli.Usagef("--wait and --resume exclude each other")
	}
	if err := p.CheckOutput(); err != nil {
		return err
	}
	docs, err := readFiles(args, p.namespace())
	if err != nil {
		return err
	}
	var store backend.Store = memory.NewStore()
	if path != "" {
		file, err := bolt.Open(path, bolt.Options{Wait: time.Second}) // a process that was killed gives the file free
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		store = file
	}
	ctx := cmd.Context()
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Timeout, cli.ErrTimeout)
		defer cancel()
	}
	if p.simulation, err = newSimulation(ctx, store, docs); err != nil {
		return err
	}
	if path != "" { // another terminal reaches the workflows meanwhile
		serving, stop := context.WithCancel(ctx)
		served := make(chan error, 1)
		go func() { served <- httpapi.Serve(serving, p.apps.Engine, httpapi.ServeOptions{Store: path}) }()
		defer func() {
			stop()
			err = errors.Join(err, <-served)
		}()
	}
	return p.play(ctx)
}

// play lets the workflows go on, shows their events, and says what they have come to.
func (p *player) play(ctx context.Context) error {
	if err := p.events(ctx, func(stages.Event) error { return nil }); err != nil { // those of processes before this one
		return err
	}
	outcomes, err := p.settle(ctx, p.each)
	if err == nil {
		err = p.events(ctx, p.print)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	return p.report(outcomes)
}

// each shows the events since the last time, and decides whether to go on.
func (p *player) each(ctx context.Context, now []delivery.Outcome, moving bool) (bool, error) {
	if err := p.events(ctx, p.print); err != nil || moving {
		return moving, err
	}
	goOn := false
	for i, out := range now {
		if out.Problem != nil || out.Status.Workflow == nil || out.Status.Workflow.Finished {
			continue
		}
		goOn = goOn || p.wait
		if p.resume {
			app := p.docs.applications[i]
			if _, err := p.apps.Do(ctx, delivery.Request{Verb: delivery.Resume, Namespace: app.GetNamespace(), Name: app.GetName(), By: p.asks()}); err != nil {
				return false, err
			}
			goOn = true
		}
	}
	return goOn, nil
}

// events calls show with the events of the runs of the applications that it was not called with yet.
func (p *player) events(ctx context.Context, show func(stages.Event) error) error {
	for _, app := range p.docs.applications {
		runs, err := p.apps.Engine.Runs(ctx, delivery.PlacementOf(app.GetNamespace(), app.GetName()))
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		for _, run := range runs {
			h, err := p.apps.Engine.History(ctx, run, p.printed[run])
			if err != nil {
				return err
			}
			p.printed[run] = h.Next
			for _, e := range h.Events {
				if err := show(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// print shows an event as a line.
func (p *player) print(e stages.Event) error {
	if p.Output == cli.JSON {
		return json.NewEncoder(p.Out).Encode(e)
	}
	words := []string{e.Time.Format(time.TimeOnly), e.Run, string(e.Type)}
	for _, word := range []string{e.Stage, e.Group, e.Cluster, e.Message} {
		if word != "" {
			words = append(words, word)
		}
	}
	return p.Said("%s", cli.Cell(strings.Join(words, " ")))
}

// report shows what the applications have come to; the error says whether all are as they were declared.
func (p *player) report(outcomes []delivery.Outcome) error {
	l := &cli.List{Kind: "application", Columns: []string{"Name", "Phase", "Healthy", "Message", "Run"}, Narrow: 4}
	var problems, open []error
	for i, out := range outcomes {
		name := nameOf(p.docs.applications[i])
		if out.Problem != nil {
			problems = append(problems, fmt.Errorf("application %s does not begin: %w", name, out.Problem))
		}
		message := ""
		if w := out.Status.Workflow; w != nil {
			message = w.Message
		}
		switch {
		case out.Problem != nil || out.Status.Phase == oam.ApplicationRunning:
		case out.Status.Phase == oam.WorkflowSuspending:
			message = "resume it: " + p.Name + " workflow resume " + p.docs.applications[i].GetName() + " -n " + p.docs.applications[i].GetNamespace()
			fallthrough
		default:
			open = append(open, fmt.Errorf("application %s is %s: %w", name, out.Status.Phase, cli.ErrUnsuccessful))
		}
		var well any = ""
		if services := out.Status.Services; len(services) > 0 {
			well = !slices.ContainsFunc(services, func(s oam.Service) bool { return !s.Healthy })
		}
		l.Add(name, out.Status, out.Status.Phase, well, message, out.Run)
	}
	if p.Output != cli.JSON {
		if err := p.Print(l); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	return errors.Join(open...)
}
