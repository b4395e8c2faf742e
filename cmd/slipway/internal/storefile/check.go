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

func newCheck(o *cli.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read all of the file of a store, and say what an engine could not read",
		Long: "Read all of the file of a store: its pages and checksums, then the placements, snapshots, overrides, runs, plans, events\n" +
			"and caps that an engine reads of it. The exit code is 1 where anything is damaged or of a newer version.",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
			problems, err := check(ctx, s)
			if err != nil {
				return err
			}
			if problems.Len() == 0 {
				return report(o, args[0], s, "nothing is wrong")
			}
			return errors.Join(o.Print(problems), fmt.Errorf("records of %s that cannot be read: %d", args[0], problems.Len()))
		}),
	}
}

// check lists the records that an engine cannot read. The engine knows no clusters and is not run, so it writes nothing.
func check(ctx context.Context, s *bolt.Store) (*cli.List, error) {
	none := memory.NewFleet()
	e, err := fleet.New(fleet.Config{Store: s, Inventory: none, Dialer: none, Name: "check"})
	if err != nil {
		return nil, err
	}
	problems := &cli.List{Kind: "record", Columns: []string{"Record", "Problem"}, Narrow: 2}
	found := func(record string, err error) {
		if _, missed := errors.AsType[*fleet.MissedError](err); err != nil && !missed { // events that are no longer kept are no damage
			problems.Add(record, map[string]string{"record": record, "error": err.Error()}, err)
		}
	}
	for record, err := range s.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		switch kind, name, _ := strings.Cut(record.Key, "/"); kind {
		case "placement":
			found(record.Key, readPlacement(ctx, e, name))
		case "run":
			_, _, err := e.Progress(ctx, name, 0)
			found(record.Key, err)
		}
	}
	_, err = e.Caps(ctx)
	found("cap/", err)
	return problems, ctx.Err()
}

// readPlacement reads a placement with all that its record refers to.
func readPlacement(ctx context.Context, e *fleet.Engine, name string) error {
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
