package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

// player is the verb run.
type player struct {
	*options
	*simulation
	// resume makes the player resume workflows that wait for a person; wait makes it wait for that
	// person.
	resume, wait bool
	// answered are the requests of resumed workflows, by the bindings of their answers. The
	// binding of [suspension] has no stage.
	answered map[approval.Binding]bool
}

func newRun(o *options) *cobra.Command {
	p := &player{options: o, answered: map[approval.Binding]bool{}}
	cmd := &cobra.Command{
		Use:   "run FILE...|DIR",
		Short: "Run the workflows of Applications in files, on clusters in memory",
		Long: `Run the workflows of the Applications in files on clusters in memory. The files also have the policies, the workflows and
the objects that the Applications refer to. Documents of kind MemberCluster or ManagedCluster declare the clusters; without
such documents, the clusters are those that topologies name. A Deployment becomes ready immediately, unless its image has the
tag "broken".

The command prints a line for each event of a run. It ends when every workflow has ended or waits for a person. The exit code
is 4 if a workflow is suspended or failed, otherwise 1 if a workflow cannot begin. A suspend step with a duration resumes by
itself. A suspend step with a timeout fails if no person resumes it in time. With --store, the command keeps everything in that
file, and continues if it is called again, also after a kill; another publishVersion begins a new workflow.`,
		Args: cli.Arguments(cobra.MinimumNArgs(1)),
		RunE: p.run,
	}
	cmd.Flags().BoolVar(&p.resume, "resume", false, "resume a workflow whenever it waits for a person")
	cmd.Flags().BoolVar(&p.wait, "wait", false, "wait for the command of a person at another terminal; needs --store, excludes --resume")
	return cmd
}

func (p *player) run(cmd *cobra.Command, args []string) (err error) {
	switch {
	case p.target.Server != "":
		return cli.Usagef("--server is not for run, which plays workflows in this process")
	case !slices.Contains([]string{cli.Table, cli.Wide, cli.JSON}, p.Output):
		return cli.Usagef("-o %s: events are shown as table, wide or json", p.Output)
	case p.wait && p.target.Store == "":
		return cli.Usagef("--wait is for a store that another terminal reaches: set --store")
	}
	if err := target.CheckStore("--store", p.target.Store); err != nil {
		return err
	}
	docs, err := readFiles(args, p.namespace())
	if err != nil {
		return err
	}
	var store backend.Store = memory.NewStore()
	if p.target.Store != "" {
		file, err := target.OpenStore(cmd.Context(), p.target.Store, bolt.Options{Wait: time.Second}, nil) // a process that was killed gives the file free
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		store = file
	}
	return p.Within(cmd.Context(), func(ctx context.Context) error {
		if p.simulation, err = newSimulation(ctx, store, docs); err != nil {
			return err
		}
		return p.play(ctx)
	})
}

// play advances the workflows, shows their events, and reports their results.
func (p *player) play(ctx context.Context) error {
	events, err := p.apps.Engine.Follow("")
	if err != nil {
		return err
	}
	for range events.Past(ctx) { // events of earlier processes; an error returns with the next ones
	}
	var outcomes []delivery.Outcome
	err = target.Drive(ctx, p.apps.Engine, p.target.Store, func(ctx context.Context) error {
		return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (done bool, err error) {
			var moving bool
			if outcomes, moving, err = p.reconcile(ctx); err != nil {
				return false, err
			}
			p.forgetSuspensions(outcomes)
			for e, err := range events.Past(ctx) {
				if err == nil && e.Run != "" {
					err = p.PrintLine(e, watch.Line(e))
				}
				if err != nil {
					return false, err
				}
			}
			if moving {
				err = p.answer(ctx, outcomes) // a timeout may be the only progress
			} else {
				moving, err = p.goOn(ctx, outcomes)
			}
			return !moving, err
		})
	})
	if err != nil {
		return err
	}
	return p.report(outcomes)
}

// answer resumes the workflows that wait for a person while they move, if --resume is set.
func (p *player) answer(ctx context.Context, now []delivery.Outcome) error {
	for i, out := range now {
		if !p.resume || out.Status.Workflow == nil || !out.Status.Workflow.Suspend {
			continue
		}
		if err := p.resumeOnce(ctx, p.docs.applications[i], false); err != nil {
			return err
		}
	}
	return nil
}

// forgetSuspensions forgets the suspensions that have ended: a person may suspend the run again.
func (p *player) forgetSuspensions(now []delivery.Outcome) {
	for i, out := range now {
		if w := out.Status.Workflow; w != nil && !w.Suspend {
			delete(p.answered, suspension(p.docs.applications[i]))
		}
	}
}

// suspension stands in answered for the suspension of an application's run by a person.
func suspension(app *unstructured.Unstructured) approval.Binding {
	return approval.Binding{RunUID: nameOf(app)}
}

// resumeOnce resumes a workflow that waits for a person. It resumes each of its requests once, and
// once a run that a person suspended, because the requests stay open and the run stays suspended
// until an engine takes the commands. If nothing waits for a person, it resumes the workflow only
// if always.
func (p *player) resumeOnce(ctx context.Context, app *unstructured.Unstructured, always bool) error {
	rec, err := p.apps.Last(ctx, app.GetNamespace(), app.GetName())
	if err != nil {
		return err
	}
	var waits []approval.Binding
	for _, r := range step.Requests(rec.Plan, rec.Run) {
		waits = append(waits, r.Binding)
	}
	if rec.Run != nil && (rec.Run.State == stages.Stopped || rec.Run.State == stages.Stopping) {
		waits = append(waits, suspension(app))
	}
	isNew := func(b approval.Binding) bool { return !p.answered[b] }
	if !slices.ContainsFunc(waits, isNew) && (len(waits) > 0 || !always) {
		return nil
	}
	for _, b := range waits {
		p.answered[b] = true
	}
	by, err := p.target.Identity(ctx)
	if err == nil {
		_, err = p.apps.Do(ctx, delivery.Request{Verb: delivery.Resume, Namespace: app.GetNamespace(), Name: app.GetName(), By: by})
	}
	return err
}

// goOn reports whether to continue if all workflows wait for a person.
func (p *player) goOn(ctx context.Context, now []delivery.Outcome) (goOn bool, err error) {
	for i, out := range now {
		w := out.Status.Workflow
		switch {
		case err != nil || w == nil || out.Problem != nil && !w.Finished:
		case w.Finished:
			_, err = p.apps.Engine.Run(out.Run).Wait(ctx) // until the engine has finished
		case p.resume:
			goOn = true
			err = p.resumeOnce(ctx, p.docs.applications[i], true)
		default:
			goOn = goOn || p.wait
		}
	}
	return goOn, err
}

// report shows the results of the applications; the error says whether all are in the declared
// state.
func (p *player) report(outcomes []delivery.Outcome) error {
	l := &cli.List{Kind: "application", Columns: []string{"Name", "Phase", "Workflow", "Healthy", "Message", "Run"}, Narrow: 5}
	var failed []error
	for i, out := range outcomes {
		app, phase, message, workflow := p.docs.applications[i], out.Status.Phase, "", ""
		if out.Status.Workflow != nil {
			workflow = out.Status.Workflow.Phase
		}
		switch {
		case phase == oam.WorkflowSuspending:
			message = fmt.Sprintf("resume it: %s workflow resume %s -n %s", p.Name, app.GetName(), app.GetNamespace())
		case out.Status.Workflow != nil:
			message = out.Status.Workflow.Message
		}
		switch {
		case out.Problem != nil:
			failed = append(failed, fmt.Errorf("application %s does not begin: %w", nameOf(app), out.Problem))
		case phase != oam.ApplicationRunning:
			failed = append(failed, fmt.Errorf("application %s is %s: %w", nameOf(app), phase, cli.ErrUnsuccessful))
		}
		var healthy any = ""
		if services := out.Status.Services; len(services) > 0 {
			healthy = !slices.ContainsFunc(services, func(s oam.Service) bool { return !s.Healthy })
		}
		l.Add(nameOf(app), out.Status, phase, workflow, healthy, message, out.Run)
	}
	if p.Output != cli.JSON {
		if err := p.Print(l); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
