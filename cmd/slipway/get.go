package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

// getter reads what there is of a kind.
type getter struct {
	*target.Target
	placement, run string
}

// kinds are the kinds by their names, with what lists them.
var kinds = []struct {
	name, names string
	list        func(ctx context.Context, g *getter) (*cli.List, error)
}{
	{"placement", "placements", getPlacements},
	{"run", "runs", getRuns},
	{"cluster", "clusters", getClusters},
	{"approval", "approvals", getApprovals},
	{"snapshot", "snapshots", getSnapshots},
	{"cap", "caps", getCaps},
	{"lease", "leases", getLeases},
}

func kindNames() (out []string) {
	for _, k := range kinds {
		out = append(out, k.names)
	}
	return out
}

// list reads what there is of a kind: with names these, of which one that is not there is an error.
func (g *getter) list(ctx context.Context, kind string, names []string) (*cli.List, error) {
	for _, k := range kinds {
		if kind != k.name && kind != k.names {
			continue
		}
		l, err := k.list(ctx, g)
		if err != nil || len(names) == 0 {
			return l, err
		}
		var missing []error
		for _, name := range names {
			if !l.Has(strings.TrimPrefix(name, k.name+"/")) {
				missing = append(missing, fmt.Errorf("%s %s: %w", k.name, name, backend.ErrNotFound))
			}
		}
		l.Keep(func(name string) bool { return slices.Contains(names, name) || slices.Contains(names, k.name+"/"+name) })
		return l, errors.Join(missing...)
	}
	return nil, cli.Usagef("there is no kind %q: want %s", kind, strings.Join(kindNames(), ", "))
}

func (g *getter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.placement, "placement", "", "only what belongs to this placement")
	cmd.Flags().StringVar(&g.run, "run", "", "only the approvals, or the clusters, of this run")
}

func newGet(o *options) *cobra.Command {
	var g getter
	var watch bool
	cmd := &cobra.Command{
		Use:               "get KIND [NAME...]",
		Short:             "List placements, runs, clusters, approvals, snapshots, caps or leases",
		Args:              cli.Arguments(cobra.MinimumNArgs(1)),
		ValidArgsFunction: o.completeKinds,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			g.Target = t
			get := func() (*cli.List, error) { return g.list(ctx, args[0], args[1:]) }
			if watch && t.Live {
				return o.Watch(ctx, get)
			}
			l, err := get()
			if err == nil {
				err = o.Print(l)
			}
			if err == nil && watch {
				err = nothingGoesOn(t)
			}
			return err
		}),
	}
	g.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show each row again as it changes")
	return cmd
}

func getPlacements(ctx context.Context, g *getter) (*cli.List, error) {
	all, err := g.Placements(ctx)
	l := &cli.List{Kind: "placement", Columns: []string{"Name", "Snapshots", "Latest", "Taken", "Runs", "Owner"}, Narrow: 5}
	for _, p := range all {
		latest, at := "", time.Time{}
		if p.Latest != nil {
			latest, at = p.Latest.Name(), p.Latest.TakenAt
		}
		l.Add(p.Name, p, p.Snapshots, latest, at, p.Runs, p.Owner)
	}
	return l, err
}

func getRuns(ctx context.Context, g *getter) (*cli.List, error) {
	all, err := g.RunSummaries(ctx, g.placement)
	l := &cli.List{Kind: "run", Columns: []string{"Name", "Placement", "State", "Stage", "Done", "Failed", "Snapshot", "Engine", "Created", "Reason"}, Narrow: 7}
	for _, r := range all {
		reason := r.Reason
		if r.Problem != "" {
			reason = r.Problem
		}
		l.Add(r.Name, r, r.Placement, r.State, r.Stage, fmt.Sprintf("%d/%d", r.Completed, r.Clusters), r.Failed, r.Index, r.Holder, r.Created, reason)
	}
	return l, err
}

// clusterOfRun is what a cluster has come to in a run.
type clusterOfRun struct {
	Name    string       `json:"name"`
	Stage   string       `json:"stage"`
	Group   string       `json:"group,omitempty"`
	State   stages.State `json:"state"`
	Phase   string       `json:"phase,omitempty"`
	Since   time.Time    `json:"since,omitzero"`
	Message string       `json:"message,omitempty"`
}

// phases are those of a cluster in flight, in words.
var phases = map[stages.ClusterPhase]string{
	stages.Applying: "Applying", stages.Settling: "Settling", stages.Soaking: "Soaking", stages.BackingOff: "BackingOff",
}

func getClusters(ctx context.Context, g *getter) (*cli.List, error) {
	if g.run != "" {
		s, err := g.Status(ctx, runName(g.run))
		if err != nil {
			return nil, err
		}
		return clustersOfRun(&s), nil
	}
	l := &cli.List{Kind: "cluster", Columns: []string{"Name", "Placement", "Snapshot", "Run", "State", "Since", "Revision"}, Narrow: 6}
	placements, err := g.Placements(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range placements {
		if g.placement != "" && g.placement != p.Name {
			continue
		}
		placed, err := g.Placed(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		for _, c := range placed {
			l.Add(c.Name, c, p.Name, c.Index, c.Run, c.State, c.Since, c.Revision)
		}
	}
	if g.placement != "" && !slices.ContainsFunc(placements, func(p httpapi.PlacementSummary) bool { return p.Name == g.placement }) {
		return nil, fmt.Errorf("placement %s: %w", g.placement, backend.ErrNotFound)
	}
	return l, nil
}

func clustersOfRun(s *fleet.Status) *cli.List {
	l := &cli.List{Kind: "cluster", Columns: []string{"Name", "Stage", "Group", "State", "Phase", "Since", "Message"}, Narrow: 5}
	reasons := map[int]string{}
	for _, u := range s.Run.Unsuccessful {
		for pos := u.First; pos <= u.Last; pos++ {
			reasons[pos] = u.Reason
		}
	}
	flying := map[int]stages.InFlight{}
	for _, f := range s.Run.InFlight {
		if f.Attempt != 0 {
			flying[f.Pos] = f
		}
	}
	for pos, state := range stages.States(s.Plan, &s.Run) {
		stage, group := s.Plan.StageOf(pos)
		c := clusterOfRun{Name: s.Plan.Clusters[pos].Name, Stage: s.Plan.Stages[stage].Name, Group: s.Plan.Stages[stage].Groups[group].Name, State: state, Message: reasons[pos]}
		if f, is := flying[pos]; is {
			c.Phase, c.Since, c.Message = phases[f.Phase], f.Started.Time(), f.Message
		}
		l.Add(c.Name, c, c.Stage, c.Group, c.State, c.Phase, c.Since, c.Message)
	}
	return l
}

func getSnapshots(ctx context.Context, g *getter) (*cli.List, error) {
	placements := []string{g.placement}
	if g.placement == "" {
		all, err := g.Placements(ctx)
		if err != nil {
			return nil, err
		}
		placements = nil
		for _, p := range all {
			placements = append(placements, p.Name)
		}
	}
	l := &cli.List{Kind: "snapshot", Columns: []string{"Name", "Placement", "Objects", "Taken", "Digest"}, Narrow: 4}
	for _, p := range placements {
		taken, err := g.Snapshots(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, s := range taken {
			l.Add(s.Name(), s, s.Placement, s.Objects, s.TakenAt, s.Digest)
		}
	}
	return l, nil
}

func getApprovals(ctx context.Context, g *getter) (*cli.List, error) {
	var open []approval.Request
	var err error
	if g.run != "" {
		open, err = g.Requests(ctx, runName(g.run))
	} else {
		open, err = g.AllRequests(ctx, g.placement)
	}
	l := &cli.List{Kind: "approval", Columns: []string{"Name", "Run", "Snapshot", "Opened", "Decisions", "Starter"}, Narrow: 5}
	for _, r := range open {
		l.Add(r.Name, r, r.Run, r.Snapshot, r.Opened, len(r.Decisions), r.Starter.Name)
	}
	return l, err
}

func getCaps(ctx context.Context, g *getter) (*cli.List, error) {
	all, err := g.Caps(ctx)
	l := &cli.List{Kind: "cap", Columns: []string{"Name", "Limit", "Held", "Runs"}, Narrow: 4}
	for _, c := range all {
		l.Add(c.Name, c, c.Limit, c.Held(), len(c.Shares))
	}
	return l, err
}

func getLeases(ctx context.Context, g *getter) (*cli.List, error) {
	all, err := g.Leases(ctx)
	l := &cli.List{Kind: "lease", Columns: []string{"Run", "Placement", "State", "Engine", "Until", "Overdue", "Epoch", "Problem"}, Narrow: 6}
	for _, one := range all {
		if g.placement != "" && one.Placement != g.placement {
			continue
		}
		problem := ""
		if one.Err != nil {
			problem = one.Err.Error()
		}
		l.Add(one.Run, httpapi.LeaseRecord{Lease: one, Problem: problem}, one.Placement, one.State, one.Holder, one.Until, one.Overdue, one.Epoch, problem)
	}
	return l, err
}

// newLeases is get leases, in a word of its own.
func newLeases(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "leases",
		Short: "Show which engine drives which run",
		Args:  cli.Arguments(cobra.NoArgs),
		RunE: o.reading(func(ctx context.Context, t *target.Target, _ []string) error {
			l, err := getLeases(ctx, &getter{Target: t})
			if err != nil {
				return err
			}
			return o.Print(l)
		}),
	}
}
