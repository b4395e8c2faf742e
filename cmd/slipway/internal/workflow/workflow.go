// Package workflow has the verbs of the application workflow, named like the verbs of KubeVela's
// command line: suspend, resume, terminate, restart, rollback and status for the workflows of a
// store, and run, which runs the workflows of files on clusters in memory.
package workflow

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/internal/durable"
)

// options are the flags of the verbs.
type options struct {
	*cli.Options
	target *target.Options
	kube   *hubtarget.Flags
}

// New returns the command workflow, for the store or the server in the flags of t, or else for
// the hub of kube.
func New(shared *cli.Options, t *target.Options, kube *hubtarget.Flags) *cobra.Command {
	o := &options{shared, t, kube}
	return cli.Group("workflow", "Control the workflows of applications, or run those of files in memory",
		newRun(o), newStatus(o),
		newVerb(o, delivery.Suspend, "Suspend a workflow: nothing more begins until it is resumed"),
		newVerb(o, delivery.Resume, "Resume a suspended workflow, for example at a step that waits for a person"),
		newVerb(o, delivery.Terminate, "End a workflow for good; only steps that always run still run"),
		newVerb(o, delivery.Restart, "Run a workflow again with the same objects"),
		newVerb(o, delivery.Rollback, "Roll back a workflow: return its clusters to their earlier objects"),
	)
}

// namespace returns the namespace of the applications: on a hub like kubectl, elsewhere default.
func (o *options) namespace() (ns string) {
	if o.target.Store == "" && o.target.Server == "" {
		ns, _, _ = o.kube.ToRawKubeConfigLoader().Namespace() // connecting to the hub finds errors
	}
	return cmp.Or(*o.kube.Namespace, ns, "default")
}

// workflows are the workflows of a store, or of another process's API.
type workflows interface {
	Last(ctx context.Context, namespace, name string) (oam.Record, error)
	Do(ctx context.Context, r delivery.Request) (message string, err error)
}

// verb returns a command that calls do with the workflows of the target, for one application.
// Workflows of a hub are in its records, which needs the rights to them. Through the API of
// another process, only that process knows the requester.
func (o *options) verb(use, short string, readOnly bool, do func(context.Context, workflows, delivery.Request) error) *cobra.Command {
	cmd := &cobra.Command{Use: use + " APPLICATION", Short: short, Args: cli.Arguments(cobra.ExactArgs(1))}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, r := *o.target, delivery.Request{Namespace: o.namespace(), Name: args[0]}
		to.Connect = func(c *fleet.Config) error {
			members := durable.NewFleet(c.Store)
			c.Inventory, c.Dialer = members, members
			return members.OpenAll(cmd.Context())
		}
		return to.Do(cmd.Context(), readOnly, func(ctx context.Context, t *target.Target) (err error) {
			if t.Engine == nil {
				return do(ctx, delivery.Client{
					Runs: func(ctx context.Context, placement string) ([]fleet.RunSummary, error) {
						return t.Placement(placement).Runs(ctx)
					},
					Run: func(name string) delivery.Run { return t.Run(name) },
				}, r)
			}
			if r.By, err = t.Identity(ctx); err != nil {
				return err
			}
			return do(ctx, &delivery.Applications{Engine: t.Engine, Store: t.Store}, r)
		})
	}
	return cmd
}

func newVerb(o *options, verb delivery.Verb, short string) *cobra.Command {
	var step string
	cmd := o.verb(string(verb), short, false, func(ctx context.Context, w workflows, r delivery.Request) error {
		r.Verb, r.Step = verb, step
		message, err := w.Do(ctx, r)
		if err != nil {
			return err
		}
		return o.Said("%s", message)
	})
	if usage := map[delivery.Verb]string{delivery.Resume: "resume this step alone", delivery.Restart: "begin with this step, which has failed"}[verb]; usage != "" {
		cmd.Flags().StringVar(&step, "step", "", usage)
	}
	return cmd
}

// newStatus shows the steps of a workflow.
func newStatus(o *options) *cobra.Command {
	const short = "Show the state of the workflow of an application, and of its steps"
	return o.verb("status", short, true, func(ctx context.Context, w workflows, r delivery.Request) error {
		rec, err := w.Last(ctx, r.Namespace, r.Name)
		if err != nil {
			return err
		}
		status := oam.NewStatus(rec)
		if o.IsValue() {
			return o.PrintValue(status)
		}
		if err := o.Recorded("application/"+r.Name, "%s, workflow %s, run %s", status.Phase, status.Workflow.Phase, rec.Run.Name); err != nil {
			return err
		}
		return o.Print(steps(&status))
	})
}

// steps lists the steps of a workflow; the steps of a step-group follow the group.
func steps(status *oam.AppStatus) *cli.List {
	l := &cli.List{Kind: "step", Columns: []string{"Name", "Type", "Phase", "Message", "Reason", "First executed", "Last executed"}, Narrow: 4}
	add := func(indent string, s oam.StepStatus) {
		l.Add(indent+s.Name, s, s.Type, s.Phase, s.Message, s.Reason, s.FirstExecuteTime, s.LastExecuteTime)
	}
	if status.Workflow != nil {
		for _, s := range status.Workflow.Steps {
			add("", s.StepStatus)
			for _, sub := range s.SubSteps {
				add("  ", sub)
			}
		}
	}
	return l
}
