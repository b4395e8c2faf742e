// Package workflow has the verbs of the application workflow, in the words of KubeVela's command line: suspend, resume,
// terminate, restart, rollback and status for the workflows of a store, and run, which plays those of files over
// clusters in memory.
package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
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

// asks returns the identity that asks, as the API of a process that holds a store takes it.
func (o *options) asks() approval.Identity {
	by := approval.Identity{Name: o.As, Groups: o.Groups}
	if by.Name == "" {
		by.Name = "uid:" + strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil && u.Username != "" {
			by.Name = u.Username
		}
	}
	return by
}

func newVerb(o *options, verb delivery.Verb, short string) *cobra.Command {
	r := delivery.Request{Verb: verb}
	cmd := &cobra.Command{Use: string(verb) + " APPLICATION", Short: short, Args: cli.Arguments(cobra.ExactArgs(1))}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.By, r.Namespace, r.Name = o.asks(), o.namespace(), args[0]
		return o.withWorkflows(cmd.Context(), false, func(ctx context.Context, w workflows) error {
			message, err := w.Do(ctx, r)
			if err != nil {
				return err
			}
			return o.Said("%s", message)
		})
	}
	switch verb {
	case delivery.Resume:
		cmd.Flags().StringVar(&r.Step, "step", "", "resume this step alone")
	case delivery.Restart:
		cmd.Flags().StringVar(&r.Step, "step", "", "begin with this step, which has failed")
	}
	return cmd
}

// newStatus shows the steps of a workflow.
func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status APPLICATION", Short: "Show what the workflow of an application and its steps have come to",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withWorkflows(cmd.Context(), true, func(ctx context.Context, w workflows) error {
				rec, err := w.Last(ctx, o.namespace(), args[0])
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
		l.Add(indent+s.Name, s, s.Type, s.Phase, s.Message, s.Reason, instant(s.FirstExecuteTime), instant(s.LastExecuteTime))
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

func instant(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// workflows are those of a store: [delivery.Applications], or the API of the process that has the store open.
type workflows interface {
	Last(ctx context.Context, namespace, name string) (oam.Record, error)
	Do(ctx context.Context, r delivery.Request) (message string, err error)
}

// withWorkflows calls do with the workflows of the store, of the program that holds it, of a server or of a hub, as the
// command line names it.
func (o *options) withWorkflows(ctx context.Context, readOnly bool, do func(context.Context, workflows) error) (err error) {
	if err := o.CheckOutput(); err != nil {
		return err
	}
	if o.target.Store == "" && o.target.Server == "" {
		return o.onHub(ctx, do)
	}
	if o.target.Server == "" {
		if _, err := os.Stat(o.target.Store); err != nil {
			return fmt.Errorf("store: %w", err) // a file that a verb would make is no store of anything
		}
		store, err := bolt.Open(o.target.Store, bolt.Options{ReadOnly: readOnly})
		if err == nil {
			defer func() { err = errors.Join(err, store.Close()) }()
			s, err := reopen(ctx, store)
			if err != nil {
				return err
			}
			return do(ctx, s.apps)
		}
		if !errors.Is(err, bolt.ErrInUse) {
			return err
		}
	}
	t, err := o.target.Open(ctx, readOnly)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, remote{t.Client}), t.Close())
}

// remote are the workflows of which another process has the store.
type remote struct{ *httpapi.Client }

// Last returns the record of the newest workflow of an application.
func (r remote) Last(ctx context.Context, namespace, name string) (oam.Record, error) {
	runs, err := r.RunSummaries(ctx, delivery.PlacementOf(namespace, name))
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return oam.Record{}, err
	}
	for _, run := range slices.Backward(runs) {
		st, err := r.Status(ctx, run.Name)
		if err != nil {
			return oam.Record{}, err
		}
		if st.Plan.Rollback == nil {
			return delivery.Outlined(namespace, name, st), nil
		}
	}
	return oam.Record{}, fmt.Errorf("application %s/%s: no workflow of it has begun: %w", namespace, name, backend.ErrNotFound)
}

// Do is that of [delivery.Applications], but for what takes the store itself.
func (r remote) Do(ctx context.Context, q delivery.Request) (string, error) {
	rec, err := r.Last(ctx, q.Namespace, q.Name)
	if err != nil {
		return "", err
	}
	return delivery.Operate(ctx, r.Client, rec, q)
}
