package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

func newDescribe(o *options) *cobra.Command {
	var g getter
	cmd := verb(o, "describe KIND NAME", "Show all of a placement, a run, a cluster, an approval, a snapshot, a cap or a lease",
		"slipway describe run web-v2\nslipway describe cluster eu-1 --run web-v2",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			g.Target = t
			name := args[1]
			switch kind := strings.TrimSuffix(args[0], "s"); kind {
			case "placement":
				return o.describe(ctx, &g, kind, name, getter{Target: t, placement: strings.TrimPrefix(name, "placement/")}, "Snapshots", "Runs", "Clusters")
			case "run":
				err := o.describeRun(ctx, &g, runName(name))
				if o.isUnreadable(err) {
					err = o.describe(ctx, &g, kind, name, getter{Target: t, run: runName(name)}, "Approvals")
				}
				return err
			case "approval":
				return o.describeApproval(ctx, &g, name)
			}
			return o.describe(ctx, &g, args[0], name, getter{})
		}))
	g.flags(cmd)
	return cmd
}

// section is a list below a title.
type section struct {
	title string
	list  *cli.List
}

// sections shows lists below what describes an object. With -o name, json and yaml that is shown alone.
func (o *options) sections(all ...section) error {
	for _, s := range all {
		if !o.IsTable() || s.list.Len() == 0 {
			continue
		}
		if err := o.Section(s.title, s.list); err != nil {
			return err
		}
	}
	return nil
}

// describe shows one object, and lists of what belongs to it, which are titled by their kinds. Of a hub whose records
// may not be read it shows those that are made of objects.
func (o *options) describe(ctx context.Context, g *getter, kind, name string, of getter, belonging ...string) error {
	l, err := g.list(ctx, kind, []string{name})
	if err != nil {
		return err
	}
	var all []section
	var unreadable error
	for _, title := range belonging {
		more, err := of.list(ctx, strings.ToLower(title), nil)
		switch {
		case err == nil:
			all = append(all, section{title, more})
		case !isForbidden(err):
			return err
		default:
			unreadable = err
		}
	}
	_ = o.isUnreadable(unreadable)
	return errors.Join(o.Fields(l), o.sections(all...))
}

// isUnreadable reports whether the records of a hub may not be read, and warns of that: what its objects show is shown
// without them.
func (o *options) isUnreadable(err error) bool {
	if !isForbidden(err) {
		return false
	}
	o.Warn("only what objects show is shown: %v", err)
	return true
}

func isForbidden(err error) bool {
	refusal, is := errors.AsType[*httpapi.Error](err)
	return is && refusal.Reason == "Forbidden"
}

// lastEvents is how many events a description has.
const lastEvents = 10

func (o *options) describeRun(ctx context.Context, g *getter, name string) error {
	s, err := g.Status(ctx, name)
	if err != nil {
		return err
	}
	if o.IsValue() {
		return o.PrintValue(s)
	}
	h, err := g.History(ctx, name, 0)
	if err != nil {
		return err
	}
	r := &s.Run
	fields := &cli.List{Kind: "run", Columns: []string{"Name", "Title", "Placement", "State", "Reason", "Snapshot", "Plan", "Clusters", "Starter", "Created", "Started", "Ended", "Engine"}}
	fields.Add(name, s, s.Title, r.Placement, r.State, r.Reason, s.Plan.Index, s.Plan.Digest, s.Plan.Len(), r.Starter.Name,
		r.Created.Time(), r.Started.Time(), r.Ended.Time(), s.Holder)
	return errors.Join(o.Fields(fields), o.sections(section{"Stages", stagesOf(&s)}, section{"Waits for", cli.Awaited(stages.Waiting(s.Plan, r))},
		section{"Events", cli.Events(h.Events[max(0, len(h.Events)-lastEvents):]...)}))
}

// stagesOf are the stages of a run, a row for each group.
func stagesOf(s *fleet.Status) *cli.List {
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "Group", "State", "Done", "Failed", "Skipped", "In flight", "Gates"}, Narrow: 8}
	for _, st := range stages.Derive(s.Plan, &s.Run).Stages {
		for _, g := range st.Groups {
			var gates []string
			for _, gate := range append(st.Gates, g.Gates...) {
				gates = append(gates, fmt.Sprintf("%s %s %s", strings.ToLower(string(gate.When)), gate.Type, gate.State))
			}
			l.Add(st.Name, st, g.Name, g.State, fmt.Sprintf("%d/%d", g.Completed, g.Clusters), g.Failed, g.Skipped, g.InFlight, strings.Join(gates, ", "))
		}
	}
	return l
}

// describeApproval shows what an open request is about, and how it was answered so far.
func (o *options) describeApproval(ctx context.Context, g *getter, name string) error {
	l, err := g.list(ctx, "approval", []string{name})
	if err != nil {
		return err
	}
	if !o.IsTable() {
		return o.Print(l)
	}
	for _, value := range l.Values() {
		r := value.(approval.Request)
		decisions := &cli.List{Kind: "decision", Columns: []string{"By", "Verdict", "At", "Comment"}, Narrow: 4}
		for _, d := range r.Decisions {
			decisions.Add(d.By.Name, d, d.Verdict, d.At, d.Comment)
		}
		if err := errors.Join(o.showRequest(ctx, g.Target, o.Out, r), o.sections(section{"Decisions", decisions})); err != nil {
			return err
		}
	}
	return nil
}
