package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/hub/hubapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// newCreate creates runs.
func newCreate(o *options) *cobra.Command {
	var s specOptions
	var empty emptyStages
	var placed, title string
	run := o.writing("run NAME --placement PLACEMENT --strategy NAME", "Plan a run and record it; the engine that runs on the store starts it",
		"slipway create run web-v2 --placement web --strategy strategy.yaml", func(ctx context.Context, c call) error {
			if placed == "" {
				return cli.Usagef("--placement is not set: it names the placement that is rolled out")
			}
			spec, err := s.spec(c, placed)
			if err != nil {
				return err
			}
			spec.Name, spec.Title = c.run(), title
			if err := empty.check(ctx, c, spec); err != nil {
				return err
			}
			status, err := c.CreateRun(ctx, spec)
			if err != nil && c.Hub != nil && len(spec.Strategy.Stages) > 0 {
				err = fmt.Errorf("%w: %s apply -f %s, and then --strategy %s", err, o.Name, s.strategy, cmp.Or(spec.Strategy.Name, "NAME"))
			}
			return o.created(c, status, err)
		})
	run.ValidArgsFunction = cobra.NoFileCompletions // a new name
	s.flags(run)
	run.Flags().StringVar(&placed, "placement", "", "placement that is rolled out")
	empty.addFlag(run.Flags())
	run.Flags().StringVar(&title, "title", "", "title that people see; not on a hub")
	return cli.Group("create", "Create a run", run)
}

func newCatchUp(o *options) *cobra.Command {
	var name string
	cmd := o.writing("catch-up RUN --name NAME", "Create a run for the clusters that a run left out: they failed, were skipped or joined later; not on a hub",
		"slipway catch-up web-v2 --name web-v2-rest", func(ctx context.Context, c call) error {
			if name == "" {
				return cli.Usagef("--name is not set: it names the run that catches up")
			}
			status, err := c.Run(c.run()).CatchUp(ctx, runName(name))
			return o.created(c, status, err)
		})
	cmd.Flags().StringVar(&name, "name", "", "name of the run that catches up")
	return cmd
}

// created reports the created run if there is one, and the warnings of its plan on standard
// error.
func (o *options) created(c call, s fleet.Status, err error) error {
	if err != nil || s.Plan == nil { // a hub makes the plan itself
		return o.recorded(c, err, "run/"+s.Run.Name, "created")
	}
	for _, w := range s.Plan.Warnings {
		o.Warn("%s", w)
	}
	return o.recorded(c, nil, "run/"+s.Run.Name, "created, stages %d, clusters %d", len(s.Plan.Stages), s.Plan.Len())
}

// runVerbs are the verbs that send a command to a run. If a verb has a flag, read completes the
// command by its value, and usage lists the values. If confirms is not empty, the verb asks first,
// with confirms as the description of its effect.
var runVerbs = []struct {
	verb                        stages.Verb
	short, example, flag, usage string
	confirms                    string
	read                        func(value string, to *stages.Command) (known bool)
}{
	{verb: stages.Start, short: "Start a run, resume one that is stopped, or start a failed one again"},
	{verb: stages.Stop, short: "Stop a run, so that it can be resumed", example: `slipway stop web-v2 --message "errors on eu-1"`},
	{verb: stages.Abort, short: "End a run for good; not on a hub", confirms: "will end for good, and cannot be started again"},
	{
		verb: stages.Skip, short: "Skip a cluster, a group, a stage or the wait after a stage; not on a hub", example: "slipway skip web-v2 --what cluster/eu-1",
		flag: "what", usage: "cluster/NAME, group/NAME, stage/NAME or wait/STAGE", confirms: "will go on without ",
		read: func(value string, to *stages.Command) bool {
			scope, name, _ := strings.Cut(value, "/")
			to.Name, to.Scope = name, map[string]stages.SkipScope{
				"cluster": stages.SkipCluster, "group": stages.SkipGroup, "stage": stages.SkipStage, "wait": stages.SkipAfterWait,
			}[scope]
			return to.Scope != "" && name != ""
		},
	},
	{
		verb: stages.Retry, short: "Retry the failed and the skipped clusters of the current stage; not on a hub", example: "slipway retry web-v2 --only failed",
		flag: "only", usage: "failed or skipped; default both",
		read: func(value string, to *stages.Command) (known bool) {
			to.Only, known = map[string]stages.Only{"": "", "failed": stages.OnlyFailed, "skipped": stages.OnlySkipped}[value]
			return known
		},
	},
}

func newRunVerbs(o *options) (all []*cobra.Command) {
	for _, v := range runVerbs {
		var message, value string
		var sure cli.Confirmation
		name := strings.ToLower(string(v.verb))
		cmd := o.writing(name+" RUN", v.short,
			v.example, func(ctx context.Context, c call) error {
				command := stages.Command{Verb: v.verb, Message: message, At: time.Now()}
				if v.read != nil && !v.read(value, &command) {
					return cli.Usagef("--%s %q: want %s", v.flag, value, v.usage)
				}
				run := c.run()
				if v.confirms != "" && c.Hub == nil { // a hub has no such verb
					if err := served(c.Run(run).CheckCommand(ctx, command)); err != nil {
						return err
					}
					if err := o.confirmRun(ctx, c, sure, name, v.confirms+value); err != nil {
						return err
					}
				}
				return o.recorded(c, c.Run(run).Command(ctx, command), "run/"+run, "%s is recorded", name)
			})
		if v.confirms != "" {
			sure.AddFlags(cmd.Flags())
		}
		cmd.Flags().StringVar(&message, "message", "", "reason, which is recorded; not on a hub")
		if v.flag != "" {
			cmd.Flags().StringVar(&value, v.flag, "", v.usage)
		}
		all = append(all, cmd)
	}
	return all
}

// confirmRun describes the effect of a verb on the run of the call, and asks for the confirmation.
func (o *options) confirmRun(ctx context.Context, c call, sure cli.Confirmation, verb, will string) error {
	if sure.Given() {
		return nil
	}
	r, err := c.summary(ctx, c.run())
	if err != nil {
		return err
	}
	fmt.Fprintf(o.ErrOut, "run/%s is %s, %d of %d clusters done; it %s\n", r.Name, r.State, r.Completed, r.Clusters, cli.Printable(will))
	return o.Confirm(ctx, sure, verb, "nothing is recorded")
}

// summary returns the summary of a run.
func (c call) summary(ctx context.Context, name string) (fleet.RunSummary, error) {
	all, err := c.Runs(ctx)
	if err != nil {
		return fleet.RunSummary{}, err
	}
	for _, r := range all {
		if r.Name == name {
			return r, nil
		}
	}
	return fleet.RunSummary{}, errdef.NotFound(errdef.Run, name, "")
}

func newRollback(o *options) *cobra.Command {
	var opts fleet.RollbackOptions
	var sure cli.Confirmation
	var preview bool
	cmd := o.command("rollback RUN", "Roll back a run: return its clusters to their earlier revisions, or to nothing if they had none",
		"slipway rollback web-v2 --preview\nslipway rollback web-v2 --name web-v2-back --reason \"errors on eu-1\"",
		func(ctx context.Context, c call) error {
			run := c.run()
			if preview {
				return o.previewRollback(ctx, c)
			}
			if err := o.confirmRollback(ctx, c, sure); err != nil {
				return err
			}
			opts.Name = runName(opts.Name)
			name, err := c.Run(run).Rollback(ctx, opts)
			if name == "" { // a slow hub has recorded the request, but not named the run yet
				return o.recorded(c, err, "run/"+run, "rollback is recorded; describe run %s shows the run that does it", run)
			}
			return o.recorded(c, err, "run/"+name, "it rolls back %s", run)
		}, &preview)
	sure.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&preview, "preview", false, "show the plan of the rollback; nothing is written")
	cmd.Flags().StringVar(&opts.Name, "name", "", "name of the rollback run; not on a hub, which chooses RUN-rollback")
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "reason, which is recorded; not on a hub")
	return cmd
}

// confirmRollback describes a rollback and asks for the confirmation. Without the right to
// the records of a hub, the plan is not known.
func (o *options) confirmRollback(ctx context.Context, c call, sure cli.Confirmation) error {
	if sure.Given() {
		return nil
	}
	p, err := c.Run(c.run()).PreviewRollback(ctx)
	clusters, effect := "", &rollbackEffect{}
	switch {
	case o.isUnreadable(err):
	case err != nil:
		return err
	default:
		clusters = " on " + numberOf(p.Len(), "cluster")
		if effect, err = effectOf(ctx, c, c.run(), p); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.ErrOut, "run/%s will be rolled back%s\n", c.run(), clusters)
	for _, line := range effect.says() {
		fmt.Fprintln(o.ErrOut, cli.Printable(line))
	}
	return o.Confirm(ctx, sure, "rollback", "nothing is recorded")
}

// newDecision answers an open request.
func newDecision(o *options, use string, verdict approval.Verdict) *cobra.Command {
	var comment string
	var sure cli.Confirmation
	cmd := o.writing(use+" RUN [REQUEST]", strings.ToUpper(use[:1])+use[1:]+" an open request of a run, after the request is shown",
		"slipway "+use+" web-v2 --comment \"see the dashboard\"", func(ctx context.Context, c call) error {
			r, err := openRequest(ctx, c, c.args[0], c.args[1:]...)
			if err != nil {
				return withoutRun(ctx, c, use, o.Name, err)
			}
			shown := *o
			shown.Out, shown.Output = o.ErrOut, cli.Table
			if err := shown.showRequest(ctx, c, r); err != nil {
				return err
			}
			answer := stages.Command{Verb: stages.Decide, Name: r.Name, Decision: &approval.Decision{Verdict: verdict, Comment: comment, Binding: r.Binding}}
			if c.Hub == nil { // a hub answers when its objects change
				if err := served(c.Run(r.Run).CheckCommand(ctx, answer)); err != nil {
					return err
				}
			}
			if err := o.Confirm(ctx, sure, use, "nothing is recorded"); err != nil {
				return err
			}
			err = c.Run(r.Run).Command(ctx, answer)
			by := ""
			if o.As != "" {
				by = " by " + o.As
			}
			return o.recorded(c, err, "approval/"+r.Name, "%s%s is recorded", use, by)
		})
	cmd.Flags().StringVar(&comment, "comment", "", "comment, which is recorded")
	sure.AddFlags(cmd.Flags())
	return cmd
}

// openRequest returns the named request, or the only open one.
func openRequest(ctx context.Context, c call, run string, named ...string) (r approval.Request, err error) {
	g := getter{run: run}
	l, err := g.list(ctx, c, "approval", named...)
	switch {
	case err != nil && !errors.Is(err, backend.ErrNotFound):
		return r, err
	case err != nil || l.Len() == 0:
		return r, notOpen(ctx, c, runName(run), named...)
	case l.Len() > 1:
		return r, cli.Usagef("run %s has several open requests: name one of %s", runName(run), strings.Join(l.Names(), ", "))
	}
	return l.Values()[0].(approval.Request), nil
}

// notOpen returns the error of a run without the named open request, or without any: the run does
// not exist, or the request was answered, or nothing was requested.
func notOpen(ctx context.Context, c call, run string, named ...string) error {
	if _, err := c.summary(ctx, run); err != nil {
		return err
	}
	h, err := c.Run(run).History(ctx, 0)
	if err != nil { // the records of a hub may not be readable
		h.Events = nil
	}
	for _, e := range slices.Backward(h.Events) {
		did := map[stages.EventType]string{stages.ApprovalAccepted: "approved", stages.ApprovalRejected: "rejected"}[e.Type]
		if did == "" || len(named) > 0 && e.Request != named[0] && (c.Hub == nil || !isRequestOf(run, &e, named[0])) {
			continue
		}
		name := e.Request
		if len(named) > 0 {
			name = named[0]
		}
		return &errdef.Error{
			Op: errdef.Change, Kind: errdef.Request, Name: name, Err: backend.ErrNotFound,
			Problem: fmt.Sprintf("was %s by %s at %s", did, e.By, e.Time.UTC().Format(time.RFC3339)),
		}
	}
	problem := "has no open request"
	if len(named) > 0 {
		problem += " " + named[0]
	}
	return &errdef.Error{Op: errdef.Read, Kind: errdef.Run, Name: run, Problem: problem, Err: backend.ErrNotFound}
}

// isRequestOf reports whether the object of a request on a hub, which has a name of its own, is the
// request of an event of a run.
func isRequestOf(run string, e *stages.Event, name string) bool {
	run = run[strings.LastIndex(run, "/")+1:]
	name = name[strings.LastIndex(name, "/")+1:]
	for _, naming := range []approval.Naming{approval.NamedByStage, approval.NamedBySide} {
		for _, when := range []approval.When{approval.Before, approval.After} {
			if name == naming.RequestName(run, e.Stage, e.Group, when) {
				return true
			}
		}
	}
	return false
}

// withoutRun returns the error of a decision. If the call names a request where RUN is expected, it
// shows the complete call.
func withoutRun(ctx context.Context, c call, use, name string, err error) error {
	request := strings.TrimPrefix(c.args[0], "approval/")
	if len(c.args) > 1 || !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	open, unread := c.Requests(ctx)
	if i := slices.IndexFunc(open, func(r approval.Request) bool { return r.Name == request }); unread == nil && i >= 0 {
		return cli.Usagef("%s is a request of run %s: %s %s %[2]s %[1]s", request, open[i].Run, name, use)
	}
	return err
}

// newDrains returns kubectl's verbs for nodes of a cluster, applied to members of a hub.
func newDrains(o *options) []*cobra.Command {
	var sure cli.Confirmation
	verb := func(name, short, done string, do func(h *hubapi.Hub, ctx context.Context, cluster string) error) *cobra.Command {
		return o.writing(name+" MEMBER", short, "", func(ctx context.Context, c call) error {
			if c.Hub == nil {
				return cli.Usagef("%s is for the members of a hub: --kubeconfig or --context names one", name)
			}
			if err := do(c.Hub, ctx, c.args[0]); err != nil {
				return err
			}
			return o.Recorded("cluster/"+c.args[0], "%s", done)
		})
	}
	drain := verb("drain", "Cordon a member of a hub, and evict its ClusterResourcePlacements; exit code 1 if a ResourcePlacement keeps objects there", "drained", func(h *hubapi.Hub, ctx context.Context, cluster string) error {
		if err := hubapi.CheckMember(ctx, h, cluster); err != nil {
			return err
		}
		if !sure.Given() {
			fmt.Fprintf(o.ErrOut, "cluster/%s will be drained: the hub removes the objects of its placements from it\n", cluster)
		}
		if err := o.Confirm(ctx, sure, "drain", "nothing was evicted"); err != nil {
			return err
		}
		return h.Drain(ctx, cluster, func(placed, answer string) { _ = o.Recorded("placement/"+placed, "evicted: %s", answer) })
	})
	sure.AddFlags(drain.Flags())
	return []*cobra.Command{
		verb("cordon", "Mark a member of a hub so that no further placement picks it", "cordoned", (*hubapi.Hub).Cordon),
		verb("uncordon", "Let placements pick a member of a hub again", "uncordoned", (*hubapi.Hub).Uncordon),
		drain,
	}
}

// numberOf returns a number with its noun.
func numberOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + cli.Plural(noun)
}

func newSet(o *options) *cobra.Command {
	return cli.Group("set", "Set the limit of a cap: how many clusters of all runs are in flight at once; not on a hub", o.writing("cap NAME LIMIT", "Declare a cap, or change its limit; at 0 no further cluster starts; not on a hub",
		"slipway set cap production 10", func(ctx context.Context, c call) error {
			limit, err := strconv.Atoi(c.args[1])
			if err != nil {
				return cli.Usagef("LIMIT %q: want a number of clusters", c.args[1])
			}
			return o.recorded(c, c.SetCap(ctx, c.args[0], limit), "cap/"+c.args[0], "at most %s in flight", numberOf(limit, "cluster"))
		}))
}

// checkPolicy reports a value of --policy that is no policy.
func checkPolicy(p placement.DeletePolicy) error {
	if p == "" || slices.Contains([]placement.DeletePolicy{placement.DeleteCreated, placement.DeleteAll, placement.Abandon}, p) {
		return nil
	}
	return cli.Usagef("--policy %q: want DeleteCreated, Delete or Abandon", p)
}

// inProgress returns the run of a placement that is running or stopping, nil if there is none.
func (c call) inProgress(ctx context.Context, name string) (*fleet.RunSummary, error) {
	p, err := c.Placement(name).Get(ctx)
	if err != nil || !p.DeletingSince.IsZero() { // the run in progress is the deletion
		return nil, err
	}
	all, err := c.Placement(name).Runs(ctx)
	if i := slices.IndexFunc(all, func(r fleet.RunSummary) bool { return r.State == stages.Running || r.State == stages.Stopping }); err == nil && i >= 0 {
		return &all[i], nil
	}
	return nil, err
}

// notDeleted begins the error of a deletion that was not confirmed.
const notDeleted = "nothing was deleted"

// deletable returns the error of a deletion that cannot succeed, before the question.
func deletable(ctx context.Context, c call, kind, name string, force bool) error {
	switch kind {
	case "placement":
		r, err := c.inProgress(ctx, name)
		if err == nil && r != nil && !force {
			err = fmt.Errorf("placement/%s %s", name, declare.HasRun(r))
		}
		return err
	case "strategy":
		_, err := c.Strategy(ctx, name)
		return err
	case "deletion":
		_, err := c.Placement(name).Deletion(ctx)
		return err
	case "run":
		r, err := c.summary(ctx, name)
		if err == nil && !force && (r.State == stages.Running || r.State == stages.Stopping) {
			err = fmt.Errorf("run %s: %w", name, &stages.RefusedError{Verb: "Delete", State: r.State, Reason: "stop it first, or set --force"})
		}
		return err
	}
	all, err := c.Caps(ctx)
	if err == nil && !slices.ContainsFunc(all, func(c stages.Cap) bool { return c.Name == name }) {
		err = errdef.NotFound(errdef.Cap, name, "")
	}
	return err
}

func newDelete(o *options) *cobra.Command {
	var placed fleet.DeleteOptions
	var force bool
	var d deletion
	kind := func(kind, short string, do func(c call, ctx context.Context, name string) (done string, err error)) *cobra.Command {
		var sure cli.Confirmation
		cmd := o.writing(kind+" NAME", short,
			"", func(ctx context.Context, c call) error {
				name := strings.TrimPrefix(c.args[0], kind+"/")
				if err := checkPolicy(placed.Policy); err != nil {
					return err
				}
				if !sure.Given() {
					if err := deletable(ctx, c, kind, name, force); err != nil {
						return err
					}
					if err := o.askToDelete(ctx, c, []declare.Change{{Kind: kind, Name: name, Action: declare.Deleted}}, sure, placed); err != nil {
						return err
					}
				}
				done, err := do(c, ctx, name)
				if err != nil {
					return err
				}
				return o.Recorded(kind+"/"+name, "%s", done)
			})
		sure.AddFlags(cmd.Flags())
		return cmd
	}
	simply := func(do func(c call, ctx context.Context, name string) error) func(call, context.Context, string) (string, error) {
		return func(c call, ctx context.Context, name string) (string, error) { return "deleted", do(c, ctx, name) }
	}
	one := kind("placement", "Delete a placement, and its objects on the clusters", func(c call, ctx context.Context, name string) (string, error) {
		err := deletable(ctx, c, "placement", name, force)
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return "", err
		}
		placed.Force = force
		gone, err := deletePlacement(ctx, c, name, placed)
		if gone {
			return "deleted", err
		}
		return "deleting, " + byAnEngine(c), err
	})
	one.Flags().StringVar((*string)(&placed.Policy), "policy", "",
		"fate of the objects on the clusters: DeleteCreated, Delete or Abandon; default: the policy of the placement")
	one.Flags().BoolVar(&force, "force", false, "also delete a placement with a run in progress, which ends as Superseded")
	run := kind("run", "Delete a run with its events",
		simply(func(c call, ctx context.Context, name string) error { return c.Run(name).Delete(ctx, force) }))
	run.Flags().BoolVar(&force, "force", false, "also delete a run that has not ended; clusters in flight keep their current state")
	all := o.command("delete -f FILE", "Delete the objects in files, or one placement, strategy, run or cap",
		"slipway delete -f fleet/ --dry-run\nslipway delete placement web", func(ctx context.Context, c call) error { return o.deleteFiles(ctx, c, d) }, &d.dry)
	fileFlag(all, &d.files)
	all.Flags().BoolVar(&d.dry, "dry-run", false, "only show what would be deleted")
	d.sure.AddFlags(all.Flags())
	all.Flags().BoolVar(&d.force, "force", false, "also delete runs in progress, and placements with such runs; clusters in flight keep their current state")
	all.Flags().StringVar((*string)(&d.placed.Policy), "policy", "",
		"fate of the objects on the clusters of placements: DeleteCreated, Delete or Abandon; default: the policy of each placement")
	deleteFiles := all.RunE
	all.Args = nil
	all.ValidArgsFunction = nil
	all.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return cli.UnknownCommand(cmd, args[0])
		case len(d.files) == 0:
			return cmd.Help()
		}
		return deleteFiles(cmd, args)
	}
	all.AddCommand(one, run,
		kind("strategy", "Delete a declared strategy; runs have a copy of it", simply(call.DeleteStrategy)),
		kind("cap", "Delete a cap that no run holds or waits for; not on a hub", simply(call.DeleteCap)),
		kind("deletion", "Delete the record of a placement's deletion, which says how it ended",
			simply(func(c call, ctx context.Context, name string) error { return c.Placement(name).ForgetDeletion(ctx) })))
	return all
}
