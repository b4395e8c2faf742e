package storefile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
)

// problem is a record that an engine could not read, with what it refers to.
type problem struct {
	Record string `json:"record"`
	Error  string `json:"error"`
}

func newCheck(o *cli.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read all of the file of a store, and say what an engine could not read",
		Long: "Read all of the file of a store: its pages and checksums, then what an engine reads of it, which are the\n" +
			"placements with their snapshots and overrides, the runs with their plans, the events and the caps.\n" +
			"The exit code is 1 where anything is damaged or of a newer version.",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
			problems, err := check(ctx, s)
			if err != nil {
				return err
			}
			if len(problems) == 0 {
				return content{args[0], s.Stats().FileBytes, s.Stats().Records}.say(o, "nothing is wrong")
			}
			l := &cli.List{Kind: "record", Columns: []string{"Record", "Problem"}, Narrow: 2}
			for _, p := range problems {
				l.Add(p.Record, p, p.Error)
			}
			return errors.Join(o.Print(l), fmt.Errorf("records of %s that cannot be read: %d", args[0], len(problems)))
		}),
	}
}

// check reads what an engine reads of a store. The engine knows no clusters and is not run, so it writes nothing.
func check(ctx context.Context, s *bolt.Store) ([]problem, error) {
	none := memory.NewFleet()
	e, err := fleet.New(fleet.Config{Store: s, Inventory: none, Dialer: none, Name: "check"})
	if err != nil {
		return nil, err
	}
	var problems []problem
	found := func(record string, err error) {
		if _, missed := errors.AsType[*fleet.MissedError](err); err != nil && !missed { // events that are no longer kept are no damage
			problems = append(problems, problem{record, err.Error()})
		}
	}
	for record, err := range s.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		switch kind, name, _ := strings.Cut(record.Key, "/"); kind {
		case "placement":
			found(record.Key, checkPlacement(ctx, e, name))
		case "run":
			_, err := e.Status(ctx, name)
			if err == nil {
				_, err = e.History(ctx, name, 0)
			}
			found(record.Key, err)
		}
	}
	_, err = e.Caps(ctx)
	found("cap/", err)
	return problems, ctx.Err()
}

// checkPlacement reads a placement with all that its record refers to.
func checkPlacement(ctx context.Context, e *fleet.Engine, name string) error {
	v, err := e.View(ctx, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range v.Snapshots() {
		_, err := v.Content(ctx, s.Index)
		_, also := v.Overrides(ctx, s.Index)
		errs = append(errs, err, also)
	}
	for _, err := range v.Placed(ctx) {
		errs = append(errs, err)
	}
	_, err = e.PlacementHistory(ctx, name, 0)
	return errors.Join(append(errs, err)...)
}
