// Package workflow has the verbs of the application workflow, in the words of KubeVela's command line: suspend, resume,
// terminate, restart, rollback and status for the workflows of a store, and run, which plays those of files over
// clusters in memory.
package workflow

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
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

// New returns the command workflow, for the store or the server that the flags of t name, or else for the hub of kube.
func New(shared *cli.Options, t *target.Options, kube *hubtarget.Flags) *cobra.Command {
	o := &options{shared, t, kube}
	return cli.Group("workflow", "Direct the workflows of applications, or play those of files",
		newRun(o), newStatus(o),
		newVerb(o, delivery.Suspend, "Suspend a workflow: nothing more begins until it is resumed"),
		newVerb(o, delivery.Resume, "Resume a workflow that is suspended, also by a step that waits for a person"),
		newVerb(o, delivery.Terminate, "End a workflow for good, but for the steps that run always"),
		newVerb(o, delivery.Restart, "Carry a workflow out again with the same objects"),
		newVerb(o, delivery.Rollback, "Take every cluster that a workflow changed back to what it had"),
	)
}

// namespace is that of the applications: as for kubectl on a hub, and default elsewhere.
func (o *options) namespace() string {
	if *o.kube.Namespace != "" {
		return *o.kube.Namespace
	}
	if o.target.Store == "" && o.target.Server == "" {
		if ns, _, err := o.kube.ToRawKubeConfigLoader().Namespace(); err == nil {
			return ns
		}
	}
	return "default"
}

// workflows are those of a store, or those that the API of another process shows.
type workflows interface {
	Last(ctx context.Context, namespace, name string) (oam.Record, error)
	Do(ctx context.Context, r delivery.Request) (message string, err error)
}

// reach calls do with the workflows of what the command line names. Those of a hub are in its records, which takes the
// rights to them. Through the API of another process the one who asks is known to that alone.
func (o *options) reach(ctx context.Context, readOnly bool, do func(w workflows, by approval.Identity) error) (err error) {
	if err := o.CheckOutput(); err != nil {
		return err
	}
	to := *o.target
	to.Connect = func(c *fleet.Config) error {
		members := durable.NewFleet(c.Store)
		c.Inventory, c.Dialer = members, members
		return members.OpenAll(ctx)
	}
	t, err := to.Open(ctx, readOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if t.Engine == nil {
		return do(delivery.Client{Runs: t.Client}, approval.Identity{})
	}
	by, err := t.Identity(ctx)
	if err != nil {
		return err
	}
	return do(&delivery.Applications{Engine: t.Engine, Store: t.Store}, by)
}

func newVerb(o *options, verb delivery.Verb, short string) *cobra.Command {
	r := delivery.Request{Verb: verb}
	cmd := &cobra.Command{Use: string(verb) + " APPLICATION", Short: short, Args: cli.Arguments(cobra.ExactArgs(1))}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.reach(cmd.Context(), false, func(w workflows, by approval.Identity) error {
			r.By, r.Namespace, r.Name = by, o.namespace(), args[0]
			message, err := w.Do(cmd.Context(), r)
			if err != nil {
				return err
			}
			return o.Said("%s", message)
		})
	}
	if usage := map[delivery.Verb]string{delivery.Resume: "resume this step alone", delivery.Restart: "begin with this step, which has failed"}[verb]; usage != "" {
		cmd.Flags().StringVar(&r.Step, "step", "", usage)
	}
	return cmd
}

// newStatus shows the steps of a workflow.
func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status APPLICATION", Short: "Show what the workflow of an application and its steps have come to",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.reach(cmd.Context(), true, func(w workflows, _ approval.Identity) error {
				rec, err := w.Last(cmd.Context(), o.namespace(), args[0])
				if err != nil {
					return err
				}
				status := oam.NewStatus(rec)
				if o.IsValue() {
					return o.PrintValue(status)
				}
				if o.Output != cli.Name {
					if err := o.Said("application/%s: %s, run %s", args[0], status.Phase, rec.Run.Name); err != nil {
						return err
					}
				}
				return o.Print(steps(&status))
			})
		},
	}
}

// steps lists the steps of a workflow, those of step-groups behind them.
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
