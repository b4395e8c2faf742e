package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

func newDescribe(o *options) *cobra.Command {
	var g getter
	cmd := o.reading("describe KIND NAME", "Show all details of a placement, a run, a cluster, an approval, a snapshot, a cap or a lease",
		"slipway describe run web-v2\nslipway describe cluster eu-1 --run web-v2", func(ctx context.Context, c call) error {
			l, err := g.list(ctx, c, c.args[0], c.args[1])
			if err != nil {
				return err
			}
			name := l.Names()[0]
			switch {
			case !o.IsTable() && l.Kind != "run":
				return o.Print(l)
			case l.Kind == "placement":
				if err := o.describePlacement(ctx, c, name); err != nil {
					return err
				}
				return o.describe(ctx, c, l, getter{placement: name}, "Runs", "Snapshots", "Clusters")
			case l.Kind == "run":
				err := o.describeRun(ctx, c, name)
				if s, _ := c.unrecorded(ctx, name, err); s != nil {
					return o.describeUnrecorded(s)
				}
				if o.isUnreadable(err) {
					err = o.describe(ctx, c, l, getter{run: name}, "Approvals")
				}
				return err
			case l.Kind == "approval":
				return o.describeApproval(ctx, c, l.Values()[0].(approval.Request))
			case l.Kind == "snapshot":
				return errors.Join(o.Fields(l), o.snapshotObjects(ctx, c, l.Values()[0].(snapshot.Snapshot)))
			}
			return o.Fields(l)
		})
	g.flags(cmd)
	return cmd
}

// describe shows an object, and lists of related objects, titled by their kinds. If the records
// of a hub may not be read, it shows only the lists that are made of objects.
func (o *options) describe(ctx context.Context, c call, l *cli.List, g getter, belonging ...string) error {
	if err := o.Fields(l); err != nil {
		return err
	}
	for _, title := range belonging {
		l, err := g.list(ctx, c, strings.ToLower(title))
		switch {
		case o.isUnreadable(err):
			return nil // the following lists cannot be read, either
		case err != nil:
			return err
		}
		if err := o.Section(title, l); err != nil {
			return err
		}
	}
	return nil
}

// describePlacement shows the selectors of a placement and the clusters that it picks.
func (o *options) describePlacement(ctx context.Context, c call, name string) error {
	p, err := c.Placement(name).Get(ctx)
	if err != nil {
		return err
	}
	policy := &cli.List{Kind: "policy", Columns: []string{"Policy", "Clusters", "Named", "Required terms", "Preferences", "Spread"}}
	policy.Add(string(cmp.Or(p.Policy.Type, placement.PickAll)), p, p.Policy.NumberOfClusters, strings.Join(p.Policy.ClusterNames, ", "),
		len(p.Policy.Required), len(p.Policy.Preferred), len(p.Policy.Spread))
	selectors := &cli.List{Kind: "selector", Columns: []string{"Kind", "Group", "Version", "Namespace", "Name", "Labels"}}
	for _, s := range p.Selectors {
		labels := ""
		if s.LabelSelector != nil {
			labels = metav1.FormatLabelSelector(s.LabelSelector)
		}
		selectors.Add(s.Kind, s, s.Group, s.Version, s.Namespace, s.Name, labels)
	}
	return errors.Join(o.Fields(policy), o.Section("Selects", selectors))
}

// snapshotObjects shows the objects of a snapshot.
func (o *options) snapshotObjects(ctx context.Context, c call, s snapshot.Snapshot) error {
	all, err := c.Placement(s.Placement).SnapshotObjects(ctx, s.Index)
	if err != nil {
		return err
	}
	l := &cli.List{Kind: "object", Columns: []string{"Kind", "Version", "Namespace", "Name", "Envelope"}}
	for _, one := range all {
		envelope := ""
		if e := one.Envelope; e != nil {
			envelope = e.Kind + " " + e.Name
		}
		l.Add(schema.GroupKind{Group: one.Group, Kind: one.Kind}.String(), one, one.Version, one.Namespace, one.Name, envelope)
	}
	return o.Section("Objects", l)
}

// isUnreadable reports whether the records of a hub may not be read, and warns about that,
// because only the content of objects is shown then.
func (o *options) isUnreadable(err error) bool {
	refusal, is := errors.AsType[*httpapi.Error](err)
	if is = is && refusal.Reason == "Forbidden"; is {
		o.Warn("only what objects show is shown: %v", err)
	}
	return is
}

// lastEvents is the maximum number of events in a description.
const lastEvents = 10

func (o *options) describeRun(ctx context.Context, c call, name string) error {
	h, err := c.Run(name).History(ctx, 0)
	if err != nil {
		return err
	}
	s := h.Status
	r := &s.Run
	fields := &cli.List{
		Kind: "run", Value: s,
		Columns: []string{
			"Name", "Title", "Placement", "State", "Reason", "Rolls back", "Rollback", "Snapshot", "Plan", "Clusters", "Starter", "Created", "Started", "Ended", "Engine",
		},
	}
	back, err := c.Run(name).RollbackStatus(ctx)
	if err != nil && !errors.Is(err, backend.ErrNotFound) { // a deleted placement has none
		return err
	}
	rollsBack := ""
	if s.Plan.Rollback != nil {
		rollsBack = s.Plan.Rollback.Run
	}
	rollback := cli.RollbackText(&back)
	if rollback == "" && r.Form(runstate.Key{}).RollbackRequest != nil {
		rollback = "requested: " + r.Form(runstate.Key{}).RollbackRequest.Message
	}
	placement := r.Placement
	if c.Hub != nil {
		placement, rollsBack = c.Hub.Shown(placement), c.Hub.Shown(rollsBack)
	}
	fields.Add(name, s, s.Title, placement, r.State, r.Reason, rollsBack, rollback, indexCell(s.Plan.Index), s.Plan.Digest, s.Plan.Len(), r.Starter.Name,
		r.Created.Time(), r.Started.Time(), r.Ended.Time(), s.Holder)
	return errors.Join(o.Fields(fields), o.Section("Stages", stagesOf(&s)), o.Section("Waits for", cli.Awaited(step.Waiting(s.Plan, r))),
		o.showRecorded(ctx, c, name, anyCommand),
		o.Section("Events", cli.EventsOfRun(h.Events[max(0, len(h.Events)-lastEvents):]...)))
}

// describeUnrecorded shows a run of a hub that has no record.
func (o *options) describeUnrecorded(s *fleet.RunSummary) error {
	fields := &cli.List{Kind: "run", Value: s, Columns: []string{"Name", "Placement", "State", "Reason", "Created", "Ended"}}
	fields.Add(s.Name, s, s.Placement, s.State, s.Reason, s.Created, s.Ended)
	return o.Fields(fields)
}

// stagesOf returns the stages of a run, a row for each group.
func stagesOf(s *fleet.Status) *cli.List {
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "Group", "State", "Done", "Failed", "Skipped", "In flight", "Gates"}}
	all := s.Run.Outline(s.Plan).Stages
	grouped := slices.ContainsFunc(all, func(st stages.StageOutline) bool {
		return slices.ContainsFunc(st.Groups, func(g stages.GroupOutline) bool { return g.Name != "" })
	})
	if !grouped { // a column without a value would only make the lines longer
		l.Columns = slices.Delete(l.Columns, 1, 2)
	}
	for _, st := range all {
		for _, g := range st.Groups {
			var gates []string
			for _, gate := range append(st.Gates, g.Gates...) {
				gates = append(gates, fmt.Sprintf("%s %s %s", strings.ToLower(string(gate.When)), gate.Type, gate.State))
			}
			state := g.State
			if g.Name == "" { // the stage waits for its gates after its only group has completed
				state = st.State
			}
			cells := []any{g.Name, state, fmt.Sprintf("%d/%d", g.Completed, g.Clusters), g.Failed, g.Skipped, g.InFlight, strings.Join(gates, ", ")}
			if !grouped {
				cells = cells[1:]
			}
			l.Add(st.Name, st, cells...)
		}
	}
	return l
}

// describeApproval shows the subject of an open request, and the decisions so far.
func (o *options) describeApproval(ctx context.Context, c call, r approval.Request) error {
	decisions := &cli.List{Kind: "decision", Columns: []string{"By", "Verdict", "At", "Comment"}}
	for _, d := range r.Decisions {
		decisions.Add(d.By.Name, d, d.Verdict, d.At, d.Comment)
	}
	return errors.Join(o.showRequest(ctx, c, r), o.Section("Decisions", decisions))
}

// showRequest shows a request in the form of a list, and its clusters.
func (o *options) showRequest(ctx context.Context, c call, r approval.Request) error {
	l := &cli.List{Kind: "approval", Columns: approvalColumns}
	addRequest(l, r)
	if !o.IsTable() {
		return o.Fields(l)
	}
	s, err := c.Run(r.Run).Status(ctx)
	switch {
	case o.isUnreadable(err):
		return o.Fields(l)
	case err != nil:
		return err
	}
	return errors.Join(o.Fields(l), o.Said("%s", strings.Join(watch.Affected(s.Plan, &r), "\n")),
		o.showRecorded(ctx, c, r.Run, func(c *stages.Command) bool { return c.Decision != nil && c.Decision.Binding == r.Binding }))
}

func anyCommand(*stages.Command) bool { return true }

// showRecorded shows the commands to a run that no engine has executed and that shows selects, but
// not with -o json. The state of the run and of its requests does not have them yet.
func (o *options) showRecorded(ctx context.Context, c call, run string, shows func(*stages.Command) bool) error {
	if !o.IsTable() {
		return nil
	}
	recorded, err := c.Run(run).Recorded(ctx)
	if err = served(err); o.isUnreadable(err) {
		return nil
	}
	var texts []string
	for i := range recorded {
		if shows(&recorded[i]) {
			texts = append(texts, step.CommandText(&recorded[i]))
		}
	}
	if err != nil || len(texts) == 0 {
		return err
	}
	return o.Said("recorded, not yet counted: %s", strings.Join(texts, ", "))
}

// newExplain explains the waiting of a run, or the state of one of its clusters.
func newExplain(o *options) *cobra.Command {
	return o.reading("explain RUN [CLUSTER]", "Explain the state of a run, or of a cluster in it, and what it waits for",
		"slipway explain web-v2\nslipway explain web-v2 eu-1", func(ctx context.Context, c call) error {
			run := c.run()
			if len(c.args) == 1 {
				waiting, err := c.Run(run).Waiting(ctx)
				if s, _ := c.unrecorded(ctx, run, err); s != nil {
					return o.explainState(run, s, s.State, s.Reason)
				}
				if err != nil {
					return err
				}
				if len(waiting) == 0 && !o.IsValue() {
					return o.explainEnd(ctx, c, run)
				}
				if err := o.Print(cli.Awaited(waiting)); err != nil {
					return err
				}
				return o.showRecorded(ctx, c, run, anyCommand)
			}
			why, err := c.Run(run).Explain(ctx, strings.TrimPrefix(c.args[1], "cluster/"))
			if err != nil {
				return err
			}
			if o.IsValue() {
				return o.PrintValue(why)
			}
			err = o.Recorded("cluster/"+why.Cluster, "%s in stage %s: %s", why.State, why.Stage, why.Reason)
			if err != nil || len(why.Waiting) == 0 || o.Output == cli.Name {
				return err
			}
			return o.Print(cli.Awaited(why.Waiting))
		})
}

// explainState shows the state of a run with its reason; value is the run for -o json.
func (o *options) explainState(run string, value any, state stages.State, reason string) error {
	if o.IsValue() {
		return o.PrintValue(value)
	}
	return o.Recorded("run/"+run, "%s", stateText(state, reason))
}

// explainEnd says how a run ended and why, which clusters failed, and which run rolled it back.
func (o *options) explainEnd(ctx context.Context, c call, run string) error {
	s, err := c.Run(run).Status(ctx)
	if err != nil {
		return err
	}
	end, err := endOf(ctx, c, run)
	if err != nil {
		return err
	}
	var why []string
	for _, text := range []string{s.Run.Reason, cli.RollbackText(&end.back)} {
		if text != "" {
			why = append(why, text)
		}
	}
	if err := o.explainState(run, s, s.Run.State, strings.Join(why, "; ")); err != nil || !o.IsTable() {
		return err
	}
	failed := &cli.List{Kind: "cluster", Columns: []string{"Name", "Stage", "State", "Message"}}
	for cluster := range s.Run.Clusters(s.Plan) {
		if cluster.State == stages.Failed {
			failed.Add(cluster.Name, cluster, cluster.Stage, cluster.State, cluster.Message)
		}
	}
	if failed.Len() == 0 {
		return nil
	}
	return o.Print(failed)
}
