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

// getter reads what there is of a kind, of a placement or a run where these are set.
type getter struct {
	*target.Target
	placement, run string
}

// kind is one of the kinds of get and describe.
type kind struct {
	name string
	// columns are those of a table; the ones after the first narrow are shown with -o wide.
	columns []string
	narrow  int
	// add adds a row for each that there is.
	add func(ctx context.Context, g *getter, l *cli.List) error
}

var kinds = []kind{
	{"placement", []string{"Name", "Snapshots", "Latest", "Taken", "Runs", "Owner"}, 5, addPlacements},
	{"run", []string{"Name", "Placement", "State", "Stage", "Done", "Failed", "Snapshot", "Engine", "Created", "Reason"}, 7, addRuns},
	{"cluster", []string{"Name", "Placement", "Snapshot", "Run", "State", "Since", "Revision"}, 6, addClusters},
	{"approval", []string{"Name", "Run", "Snapshot", "Opened", "Decisions", "Starter"}, 5, addApprovals},
	{"snapshot", []string{"Name", "Placement", "Objects", "Taken", "Digest"}, 4, addSnapshots},
	{"cap", []string{"Name", "Limit", "Held", "Runs"}, 4, addCaps},
	{"lease", []string{"Run", "Placement", "State", "Engine", "Until", "Overdue", "Epoch", "Problem"}, 6, addLeases},
}

func kindNames() (out []string) {
	for _, k := range kinds {
		out = append(out, k.name+"s")
	}
	return out
}

// list reads what there is of a kind: with names these, of which one that is not there is an error.
func (g *getter) list(ctx context.Context, name string, names []string) (*cli.List, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return name == k.name || name == k.name+"s" })
	if i < 0 {
		return nil, cli.Usagef("there is no kind %q: want %s", name, strings.Join(kindNames(), ", "))
	}
	k := kinds[i]
	l := &cli.List{Kind: k.name, Columns: k.columns, Narrow: k.narrow}
	if err := k.add(ctx, g, l); err != nil || len(names) == 0 {
		return l, err
	}
	var missing []error
	for _, name := range names {
		if !slices.Contains(l.Names(), strings.TrimPrefix(name, k.name+"/")) {
			missing = append(missing, fmt.Errorf("%s %s: %w", k.name, name, backend.ErrNotFound))
		}
	}
	l.Keep(func(name string) bool { return slices.Contains(names, name) || slices.Contains(names, k.name+"/"+name) })
	return l, errors.Join(missing...)
}

func (g *getter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.placement, "placement", "", "only what belongs to this placement")
	cmd.Flags().StringVar(&g.run, "run", "", "only the approvals, or the clusters, of this run")
}

func newGet(o *options) *cobra.Command {
	var g getter
	var watch bool
	cmd := verb(o, "get KIND [NAME...]", "List placements, runs, clusters, approvals, snapshots, caps or leases",
		"slipway get runs --placement web -o wide\nslipway get clusters --run web-v2 --watch",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
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
		}))
	g.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show each row again as it changes")
	return cmd
}

// newLeases is get leases, in a word of its own.
func newLeases(o *options) *cobra.Command {
	return verb(o, "leases", "Show which engine drives which run", "", o.reading(func(ctx context.Context, t *target.Target, _ []string) error {
		l, err := (&getter{Target: t}).list(ctx, "leases", nil)
		if err != nil {
			return err
		}
		return o.Print(l)
	}))
}

func addPlacements(ctx context.Context, g *getter, l *cli.List) error {
	all, err := g.Placements(ctx)
	for _, p := range all {
		latest, at := "", time.Time{}
		if p.Latest != nil {
			latest, at = p.Latest.Name(), p.Latest.TakenAt
		}
		l.Add(p.Name, p, p.Snapshots, latest, at, p.Runs, p.Owner)
	}
	return err
}

func addRuns(ctx context.Context, g *getter, l *cli.List) error {
	all, err := g.RunSummaries(ctx, g.placement)
	for _, r := range all {
		reason := r.Reason
		if r.Problem != "" {
			reason = r.Problem
		}
		l.Add(r.Name, r, r.Placement, r.State, r.Stage, fmt.Sprintf("%d/%d", r.Completed, r.Clusters), r.Failed, r.Index, r.Holder, r.Created, reason)
	}
	return err
}

func addClusters(ctx context.Context, g *getter, l *cli.List) error {
	if g.run != "" {
		s, err := g.Status(ctx, runName(g.run))
		if err == nil {
			addClustersOfRun(&s, l)
		}
		return err
	}
	placements, err := g.placements(ctx)
	for _, p := range placements {
		placed, err := g.Placed(ctx, p)
		if err != nil {
			return err
		}
		for _, c := range placed {
			l.Add(c.Name, c, p, c.Index, c.Run, c.State, c.Since, c.Revision)
		}
	}
	return err
}

// placements returns the names of all placements, or the one that is set if it is among them.
func (g *getter) placements(ctx context.Context) (names []string, err error) {
	all, err := g.Placements(ctx)
	for _, p := range all {
		if g.placement == "" || g.placement == p.Name {
			names = append(names, p.Name)
		}
	}
	if err == nil && g.placement != "" && len(names) == 0 {
		err = fmt.Errorf("placement %s: %w", g.placement, backend.ErrNotFound)
	}
	return names, err
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

func addClustersOfRun(s *fleet.Status, l *cli.List) {
	l.Columns, l.Narrow = []string{"Name", "Stage", "Group", "State", "Phase", "Since", "Message"}, 5
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
}

func addSnapshots(ctx context.Context, g *getter, l *cli.List) error {
	placements, err := g.placements(ctx)
	for _, p := range placements {
		taken, err := g.Snapshots(ctx, p)
		if err != nil {
			return err
		}
		for _, s := range taken {
			l.Add(s.Name(), s, s.Placement, s.Objects, s.TakenAt, s.Digest)
		}
	}
	return err
}

func addApprovals(ctx context.Context, g *getter, l *cli.List) (err error) {
	var open []approval.Request
	if g.run != "" {
		open, err = g.Requests(ctx, runName(g.run))
	} else {
		open, err = g.AllRequests(ctx, g.placement)
	}
	for _, r := range open {
		l.Add(r.Name, r, r.Run, r.Snapshot, r.Opened, len(r.Decisions), r.Starter.Name)
	}
	return err
}

func addCaps(ctx context.Context, g *getter, l *cli.List) error {
	all, err := g.Caps(ctx)
	for _, c := range all {
		l.Add(c.Name, c, c.Limit, c.Held(), len(c.Shares))
	}
	return err
}

func addLeases(ctx context.Context, g *getter, l *cli.List) error {
	all, err := g.Leases(ctx)
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
	return err
}
