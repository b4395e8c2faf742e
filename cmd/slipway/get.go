package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// kind is one of the kinds of get and describe.
type kind struct {
	name string
	// of is the flag, placement or run, that filters the objects, if any; its value may be empty. A
	// kind with a different list for the other flag has two entries.
	of string
	// columns are the columns of a table; those after the first narrow ones are shown with -o wide.
	columns []string
	narrow  int
	// add adds a row for each object.
	add func(ctx context.Context, c call, of string, l *cli.List) error
}

// kindOf returns a kind: read returns the objects, and row adds one of them to a list.
func kindOf[T any](name, of string, narrow int, columns []string, read func(call, context.Context, string) ([]T, error), row func(*cli.List, T)) kind {
	return kind{name, of, columns, narrow, func(ctx context.Context, c call, of string, l *cli.List) error {
		all, err := read(c, ctx, of)
		for _, one := range all {
			row(l, one)
		}
		return err
	}}
}

// all reads objects without a filter.
func all[T any](read func(call, context.Context) ([]T, error)) func(call, context.Context, string) ([]T, error) {
	return func(c call, ctx context.Context, _ string) ([]T, error) { return read(c, ctx) }
}

// placed is an object of a placement.
type placed[T any] struct {
	placement string
	it        T
}

// ofPlacements reads the objects of the named placement, or of all placements.
func ofPlacements[T any](read func(httpapi.PlacementHandle, context.Context) ([]T, error)) func(call, context.Context, string) ([]placed[T], error) {
	return func(c call, ctx context.Context, name string) (out []placed[T], err error) {
		names := []string{name}
		if name == "" {
			all, err := c.Placements(ctx)
			if err != nil {
				return nil, err
			}
			names = nil
			for _, p := range all {
				names = append(names, p.Name)
			}
		}
		for _, name := range names {
			all, unread := read(c.Placement(name), ctx)
			err = errors.Join(err, unread)
			for _, one := range all {
				out = append(out, placed[T]{name, one})
			}
		}
		return out, err
	}
}

// runs returns the runs of the named placement, or all.
func (c call) runs(ctx context.Context, placement string) ([]fleet.RunSummary, error) {
	if placement == "" {
		return c.Runs(ctx)
	}
	return c.Placement(placement).Runs(ctx)
}

// requests returns the open requests of the named placement, or all.
func (c call) requests(ctx context.Context, placement string) ([]approval.Request, error) {
	if placement == "" {
		return c.Requests(ctx)
	}
	return c.Placement(placement).Requests(ctx)
}

func (c call) requestsOfRun(ctx context.Context, run string) ([]approval.Request, error) {
	return c.Run(run).Requests(ctx)
}

var approvalColumns = []string{"Name", "Run", "Snapshot", "Opened", "Decisions", "Starter", "Gate", "Missing", "Placement", "Plan"}

var kinds = []kind{
	kindOf("placement", "", 5, []string{"Name", "Snapshots", "Latest", "Runs", "State", "Taken", "Deleting since", "Owner"}, all(call.Placements),
		func(l *cli.List, p httpapi.PlacementSummary) {
			latest, at := "", time.Time{}
			if p.Latest != nil {
				latest, at = p.Latest.Name(), p.Latest.TakenAt
			}
			state := "Declared"
			if !p.DeletingSince.IsZero() {
				state = "Deleting"
			}
			l.Add(p.Name, p, p.Snapshots, latest, p.Runs, state, at, p.DeletingSince, p.Owner)
		}),
	kindOf("strategy", "", 4, []string{"Name", "Stages", "Profile", "Rollback"}, all(call.Strategies),
		func(l *cli.List, s httpapi.DeclaredStrategy) {
			var names []string
			for i := range s.Stages {
				names = append(names, s.Stages[i].Name)
			}
			l.Add(s.Name, s, strings.Join(names, ", "), s.Profile, s.Rollback != nil)
		}),
	{"run", "placement", []string{"Name", "Placement", "State", "Stage", "Done", "Failed", "Snapshot", "Engine", "Created", "Reason"}, 7, addRuns},
	kindOf("cluster", "placement", 6, []string{"Name", "Placement", "Snapshot", "Run", "State", "Since", "Revision"}, ofPlacements(httpapi.PlacementHandle.Placed),
		func(l *cli.List, p placed[fleet.PlacedCluster]) {
			state := string(p.it.State)
			if p.it.Run == "" {
				state = cmp.Or(state, "idle")
			}
			l.Add(p.it.Name, p.it, p.placement, indexCell(p.it.Index), p.it.Run, state, p.it.Since, p.it.Revision)
		}),
	kindOf("cluster", "run", 5, []string{"Name", "Stage", "Group", "State", "Phase", "Since", "Message"}, call.clustersOfRun,
		func(l *cli.List, c stages.ClusterOutline) {
			l.Add(c.Name, c, c.Stage, c.Group, c.State, c.Phase, c.Since, c.Message)
		}),
	kindOf("approval", "placement", 5, approvalColumns, call.requests, addRequest),
	kindOf("approval", "run", 5, approvalColumns, call.requestsOfRun, addRequest),
	kindOf("snapshot", "placement", 4, []string{"Name", "Placement", "Objects", "Taken", "Digest"}, ofPlacements(httpapi.PlacementHandle.Snapshots),
		func(l *cli.List, p placed[snapshot.Snapshot]) {
			l.Add(p.it.Name(), p.it, p.placement, p.it.Objects, p.it.TakenAt, p.it.Digest)
		}),
	kindOf("cap", "", 4, []string{"Name", "Limit", "Held", "Runs"}, all(call.Caps),
		func(l *cli.List, c stages.Cap) { l.Add(c.Name, c, c.Limit, c.Held(), len(c.Shares)) }),
	kindOf("lease", "", 6, []string{"Run", "Placement", "State", "Engine", "Until", "Overdue", "Epoch", "Problem"}, all(call.Leases),
		func(l *cli.List, one fleet.Lease) {
			record := httpapi.LeaseRecord{Lease: one}
			if one.Err != nil {
				record.Problem = one.Err.Error()
			}
			l.Add(one.Run, record, one.Placement, one.State, one.Holder, one.Until, one.Overdue, one.Epoch, record.Problem)
		}),
}

func kindNames() (out []string) {
	for _, k := range kinds {
		out = append(out, cli.Plural(k.name))
	}
	return slices.Compact(out)
}

// addRuns adds a row for each run. If a run was rolled back, the number of its clusters says so.
func addRuns(ctx context.Context, c call, placement string, l *cli.List) error {
	all, err := c.runs(ctx, placement)
	if err != nil {
		return err
	}
	states := map[string]stages.State{}
	for i := range all {
		states[all[i].Name] = all[i].State
	}
	for _, r := range all {
		done, reason := fmt.Sprintf("%d/%d", r.Completed, r.Clusters), cmp.Or(r.Problem, r.Reason)
		if r.RolledBackBy != "" {
			done += ", " + rollbackWord(states[r.RolledBackBy])
			reason = strings.TrimPrefix(reason+"; "+cli.RollbackText(&fleet.Rollback{By: r.RolledBackBy, State: states[r.RolledBackBy]}), "; ")
		}
		l.Add(r.Name, r, r.Placement, r.State, r.Stage, done, r.Failed, indexCell(r.Index), r.Holder, r.Created, reason)
	}
	return nil
}

// rollbackWord returns how far the rollback of a run is; the state is empty if its run was deleted.
func rollbackWord(back stages.State) string {
	switch by := (step.Run{State: back}); {
	case back == stages.Completed || back == "":
		return "rolled back"
	case by.IsEnded():
		return "rollback " + string(back)
	default:
		return "rolling back"
	}
}

// getter filters the objects of a kind by their placement or run.
type getter struct{ placement, run string }

func (g *getter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.placement, "placement", "", "only what belongs to this placement")
	cmd.Flags().StringVar(&g.run, "run", "", "only the approvals, or the clusters, of this run")
}

// list reads the objects of a kind. If names are given, it reads only these, and a missing one is
// an error.
func (g *getter) list(ctx context.Context, c call, name string, names ...string) (*cli.List, error) {
	flag, of := "placement", g.placement
	if g.run != "" {
		flag, of = "run", runName(g.run)
	}
	named := func(k kind) bool { return name == k.name || name == cli.Plural(k.name) }
	i := slices.IndexFunc(kinds, func(k kind) bool { return named(k) && (of == "" || k.of == flag) })
	switch {
	case name == "override" || name == "overrides":
		return nil, cli.Usagef("overrides are stored with their placements: get placements -o yaml shows both")
	case !slices.ContainsFunc(kinds, named):
		return nil, cli.Usagef("there is no kind %q: want %s", name, strings.Join(kindNames(), ", "))
	case g.placement != "" && g.run != "":
		return nil, cli.Usagef("--placement and --run are both set: want one of them")
	case i < 0:
		return nil, cli.Usagef("--%s: leave it out, because %s cannot be filtered by it", flag, cli.Plural(kinds[slices.IndexFunc(kinds, named)].name))
	}
	k := kinds[i]
	l := &cli.List{Kind: k.name, Columns: k.columns, Narrow: k.narrow}
	if k.name == "cluster" {
		l.None = "no cluster has a snapshot yet"
	}
	if err := k.add(ctx, c, of, l); err != nil || len(names) == 0 {
		return l, err
	}
	var missing []error
	known := l.Names()
	for _, name := range l.Only(names...) {
		missing = append(missing, errdef.NotFound(errdef.Kind(k.name), name, didYouMean(name, known)))
	}
	return l, errors.Join(missing...)
}

func newGet(o *options) *cobra.Command {
	var g getter
	var watch bool
	cmd := o.reading("get KIND [NAME...]", "List placements, strategies, runs, clusters, approvals, snapshots, caps or leases",
		"slipway get runs --placement web -o wide\nslipway get clusters --run web-v2 --watch\nslipway get placements -o yaml >placements.yaml", func(ctx context.Context, c call) error {
			get := func() (*cli.List, error) { return g.list(ctx, c, c.args[0], c.args[1:]...) }
			if watch && c.Live {
				return o.Watch(ctx, get)
			}
			l, err := get()
			if err == nil && o.IsValue() {
				l.Value, err = documents(ctx, c, l)
			}
			if err == nil {
				err = o.Print(l)
			}
			if err == nil && watch {
				err = noEngine(c)
			}
			return err
		})
	g.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show each row again as it changes")
	return cmd
}

// newLeases is get leases as a separate verb.
func newLeases(o *options) *cobra.Command {
	return o.reading("leases", "Show which engine drives which run",
		"", func(ctx context.Context, c call) error {
			l, err := new(getter).list(ctx, c, "lease")
			if err != nil {
				return err
			}
			return o.Print(l)
		})
}

func (c call) clustersOfRun(ctx context.Context, run string) ([]stages.ClusterOutline, error) {
	s, err := c.Run(run).Status(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Collect(s.Run.Clusters(s.Plan)), nil
}

func addRequest(l *cli.List, r approval.Request) {
	gate := fmt.Sprintf("%s stage %s, attempt %d", strings.ToLower(string(r.When)), r.Stage, r.Attempt)
	if r.Group != "" {
		gate = fmt.Sprintf("%s group %s of stage %s, attempt %d", strings.ToLower(string(r.When)), r.Group, r.Stage, r.Attempt)
	}
	var missing []string
	for _, q := range approval.Missing(r) {
		missing = append(missing, strings.TrimSpace(fmt.Sprintf("%d %s", q.Count, q.Group)))
	}
	l.Add(r.Name, r, r.Run, indexCell(r.Snapshot), r.Opened, len(r.Decisions), r.Starter.Name, gate, strings.Join(missing, ", "), r.Placement, r.Plan)
}
