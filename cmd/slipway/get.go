package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/spf13/cobra"
)

// getter reads what there is of a kind: with names these, of which one that is not there is an error.
type getter func(ctx context.Context, e *fleet.Engine, g *getOptions, names []string) (*cli.List, error)

type getOptions struct{ placement, run string }

// kinds are the getters by kind, and the other words for it.
var kinds = []struct {
	names []string
	get   getter
}{
	{[]string{"placements", "placement"}, getPlacements},
	{[]string{"runs", "run"}, getRuns},
	{[]string{"snapshots", "snapshot"}, getSnapshots},
	{[]string{"approvals", "approval"}, getApprovals},
	{[]string{"caps", "cap"}, getCaps},
	{[]string{"leases", "lease"}, getLeases},
}

func newGet(o *options) *cobra.Command {
	var g getOptions
	cmd := &cobra.Command{
		Use:   "get KIND [NAME...]",
		Short: "List placements, runs, snapshots, approvals, caps or leases",
		Args:  cli.Arguments(cobra.MinimumNArgs(1)),
	}
	cmd.Flags().StringVar(&g.placement, "placement", "", "only what belongs to this placement")
	cmd.Flags().StringVar(&g.run, "run", "", "only the approvals of this run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		get, err := getterOf(args[0])
		if err != nil {
			return err
		}
		return o.withEngine(func(e *fleet.Engine) error {
			l, err := get(cmd.Context(), e, &g, args[1:])
			if err != nil {
				return err
			}
			return o.Print(l)
		}, true)
	}
	return cmd
}

func getterOf(word string) (getter, error) {
	var all []string
	for _, k := range kinds {
		if slices.Contains(k.names, word) {
			return k.get, nil
		}
		all = append(all, k.names[0])
	}
	return nil, cli.UsageError{Err: fmt.Errorf("there is no kind %q: want %s", word, strings.Join(all, ", "))}
}

// pick returns those of all that are named, all without names. One that is not there is an error.
func pick(kind string, all, names []string) ([]string, error) {
	if len(names) == 0 {
		return all, nil
	}
	var missing []error
	for _, name := range names {
		if !slices.Contains(all, name) {
			missing = append(missing, fmt.Errorf("%s %s: %w", kind, name, backend.ErrNotFound))
		}
	}
	return names, errors.Join(missing...)
}

func getPlacements(ctx context.Context, e *fleet.Engine, _ *getOptions, names []string) (*cli.List, error) {
	all, err := e.Placements(ctx)
	if err == nil {
		all, err = pick("placement", all, names)
	}
	if err != nil {
		return nil, err
	}
	l := &cli.List{Kind: "placement", Columns: []string{"Name", "Snapshots", "Latest", "Taken", "Runs", "Owner"}, Narrow: 5}
	for _, name := range all {
		p, err := e.Placement(ctx, name)
		if err != nil {
			return nil, err
		}
		view, err := e.View(ctx, name)
		if err != nil {
			return nil, err
		}
		runs, err := e.Runs(ctx, name)
		if err != nil {
			return nil, err
		}
		taken := view.Snapshots()
		latest, at := "", any("")
		if n := len(taken); n > 0 {
			latest, at = taken[n-1].Name(), taken[n-1].TakenAt
		}
		l.Add(name, p, len(taken), latest, at, len(runs), p.Owner)
	}
	return l, nil
}

// runInfo is a run in a list.
type runInfo struct {
	Run     stages.Run `json:"run"`
	Holder  string     `json:"holder,omitempty"`
	Index   int        `json:"index"`
	Done    int        `json:"completed"`
	Failed  int        `json:"failed"`
	Skipped int        `json:"skipped"`
	Total   int        `json:"clusters"`
}

// runsOf returns the runs of a placement, or of all.
func runsOf(ctx context.Context, e *fleet.Engine, placement string) ([]string, error) {
	if placement != "" {
		return e.Runs(ctx, placement)
	}
	placements, err := e.Placements(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, p := range placements {
		runs, err := e.Runs(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

func getRuns(ctx context.Context, e *fleet.Engine, g *getOptions, names []string) (*cli.List, error) {
	all, err := runsOf(ctx, e, g.placement)
	if err == nil {
		all, err = pick("run", all, names)
	}
	if err != nil {
		return nil, err
	}
	l := &cli.List{Kind: "run", Columns: []string{"Name", "Placement", "State", "Stage", "Done", "Failed", "Snapshot", "Engine", "Created", "Reason"}, Narrow: 7}
	for _, name := range all {
		s, err := e.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		r := &s.Run
		info := runInfo{Run: s.Run, Holder: s.Holder, Index: s.Plan.Index, Total: s.Plan.Len()}
		for _, state := range stages.States(s.Plan, r) {
			switch state {
			case stages.Completed:
				info.Done++
			case stages.Failed:
				info.Failed++
			case stages.Skipped:
				info.Skipped++
			}
		}
		stage := ""
		if r.Stage < len(s.Plan.Stages) {
			stage = s.Plan.Stages[r.Stage].Name
		}
		l.Add(name, info, r.Placement, r.State, stage, fmt.Sprintf("%d/%d", info.Done, info.Total), info.Failed,
			info.Index, s.Holder, r.Created.Time(), r.Reason)
	}
	return l, nil
}

func getSnapshots(ctx context.Context, e *fleet.Engine, g *getOptions, names []string) (*cli.List, error) {
	placements, err := e.Placements(ctx)
	if err != nil {
		return nil, err
	}
	if g.placement != "" {
		if placements, err = pick("placement", placements, []string{g.placement}); err != nil {
			return nil, err
		}
	}
	l := &cli.List{Kind: "snapshot", Columns: []string{"Name", "Placement", "Objects", "Taken", "Digest"}, Narrow: 4}
	var there []string
	for _, p := range placements {
		view, err := e.View(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, s := range view.Snapshots() {
			there = append(there, s.Name())
			if len(names) == 0 || slices.Contains(names, s.Name()) {
				l.Add(s.Name(), s, s.Placement, s.Objects, s.TakenAt, s.Digest)
			}
		}
	}
	_, err = pick("snapshot", there, names)
	return l, err
}

func getApprovals(ctx context.Context, e *fleet.Engine, g *getOptions, names []string) (*cli.List, error) {
	runs, err := runsOf(ctx, e, g.placement)
	if err == nil && g.run != "" {
		runs, err = pick("run", runs, []string{g.run})
	}
	if err != nil {
		return nil, err
	}
	l := &cli.List{Kind: "approval", Columns: []string{"Name", "Run", "Snapshot", "Opened", "Decisions", "Starter"}, Narrow: 5}
	var there []string
	for _, run := range runs {
		open, err := e.Requests(ctx, run)
		if err != nil {
			return nil, err
		}
		for _, r := range open {
			there = append(there, r.Name)
			if len(names) == 0 || slices.Contains(names, r.Name) {
				l.Add(r.Name, r, r.Run, r.Snapshot, r.Opened, len(r.Decisions), r.Starter.Name)
			}
		}
	}
	_, err = pick("approval", there, names)
	return l, err
}

func getCaps(ctx context.Context, e *fleet.Engine, _ *getOptions, names []string) (*cli.List, error) {
	all, err := e.Caps(ctx)
	if err != nil {
		return nil, err
	}
	l := &cli.List{Kind: "cap", Columns: []string{"Name", "Limit", "Held", "Runs"}, Narrow: 4}
	var there []string
	for _, c := range all {
		there = append(there, c.Name)
		if len(names) == 0 || slices.Contains(names, c.Name) {
			l.Add(c.Name, c, c.Limit, c.Held(), len(c.Shares))
		}
	}
	_, err = pick("cap", there, names)
	return l, err
}

// leaseInfo is a lease whose error is text.
type leaseInfo struct {
	fleet.Lease
	Err string `json:",omitempty"`
}

func getLeases(ctx context.Context, e *fleet.Engine, g *getOptions, names []string) (*cli.List, error) {
	all, err := e.Leases(ctx)
	if err != nil {
		return nil, err
	}
	l := &cli.List{Kind: "lease", Columns: []string{"Run", "Placement", "State", "Engine", "Until", "Overdue", "Epoch", "Problem"}, Narrow: 6}
	var there []string
	for _, one := range all {
		there = append(there, one.Run)
		if (len(names) > 0 && !slices.Contains(names, one.Run)) || (g.placement != "" && one.Placement != g.placement) {
			continue
		}
		info := leaseInfo{Lease: one}
		if one.Err != nil {
			info.Err = one.Err.Error()
		}
		l.Add(one.Run, info, one.Placement, one.State, one.Holder, one.Until, one.Overdue, one.Epoch, info.Err)
	}
	_, err = pick("lease", there, names)
	return l, err
}
