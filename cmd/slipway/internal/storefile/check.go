package storefile

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet/storecheck"
)

func newCheck(o *cli.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check the file of a store, and report what an engine could not read",
		Long: "Read all of the file of a store: its pages and checksums, then the placements, snapshots, overrides, runs, plans, events\n" +
			"and caps that an engine reads of it. The exit code is 1 if a record is damaged or of a newer version.",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
			problems, err := storecheck.Check(ctx, s)
			if err != nil {
				return err
			}
			if len(problems) == 0 {
				return report(o, args[0], s, "nothing is wrong")
			}
			l := &cli.List{Kind: "record", Columns: []string{"Record", "Problem"}}
			for _, p := range problems {
				l.Add(p.Record, map[string]string{"record": p.Record, "error": p.Err.Error()}, p.Err)
			}
			return errors.Join(o.Print(l), fmt.Errorf("records of %s that cannot be read: %d", args[0], len(problems)))
		}),
	}
}
