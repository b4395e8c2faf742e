package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// session is a verb that is carried out.
type session struct {
	*cli.Options
	flags *pflag.FlagSet
	// group, fleet and name are values of flags, and path is the file of the store.
	group, fleet, name, path string

	// file is nil where another process has the store open.
	file *file
	// record is that of the fleet, and runs is asked of runs: as the process has them that has the store open.
	record *record
	runs   interface {
		RunSummaries(ctx context.Context, placement string) ([]fleet.RunSummary, error)
		Progress(ctx context.Context, run string, after int64) (fleet.Status, fleet.History, error)
		Command(ctx context.Context, run string, c stages.Command) error
		Decide(ctx context.Context, run string, a fleet.Answer) error
		DeleteRun(ctx context.Context, run string) error
	}
	// seen are the numbers of the events of runs that come next, and waits is what was said that they wait for.
	seen  map[string]int64
	waits map[string]bool
}

// patience is how long the file may be in use by a process that is about to end, or does not answer yet, and moment
// how long it takes until it is tried again, and until runs are read again.
const (
	patience = 5 * time.Second
	moment   = 100 * time.Millisecond
)

// open opens the store, or reaches the process that has it open.
func (s *session) open(ctx context.Context, v verb) (err error) {
	for began := time.Now(); ctx.Err() == nil; pause(ctx) {
		if s.file, err = openFile(ctx, s, v.use == "create"); err == nil {
			s.record, s.runs = &s.file.record, s.file.engine
			return nil
		}
		if !errors.Is(err, bolt.ErrInUse) || time.Since(began) > patience {
			return err
		}
	}
	return ctx.Err()
}

func (s *session) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(moment):
	}
}

// by is the identity that asks: that of --as, or the user of the machine.
func (s *session) by() (approval.Identity, error) {
	if u, err := user.Current(); s.As == "" && err == nil {
		return approval.Identity{Name: u.Username}, nil
	}
	return s.Identity()
}

// id is the resource id of something of the fleet. There is no subscription.
func (s *session) id(kind, name string) string {
	return fmt.Sprintf("/resourceGroups/%s/providers/Microsoft.ContainerService/fleets/%s/%s/%s", s.group, s.fleet, kind, name)
}

// note says on the other stream what became of what was asked for.
func (s *session) note(format string, args ...any) { fmt.Fprintf(s.ErrOut, format+"\n", args...) }

func missing(what, name string) error {
	return fmt.Errorf("there is no %s %s: the verb list shows which there are", what, name)
}

// storeVerbs list, show and delete what the record of the fleet has of a kind.
func storeVerbs[T any](what string, of func(*record) map[string]T, print func(context.Context, *session, ...T) error) []verb {
	named := func(do func(ctx context.Context, s *session, one T) error) func(context.Context, *session) error {
		return func(ctx context.Context, s *session) error {
			one, there := of(s.record)[s.name]
			if !there {
				return missing(what, s.name)
			}
			return do(ctx, s, one)
		}
	}
	return []verb{
		{use: "list", short: "List each " + what, do: func(ctx context.Context, s *session) error {
			var list []T
			for _, name := range slices.Sorted(maps.Keys(of(s.record))) {
				list = append(list, of(s.record)[name])
			}
			return print(ctx, s, list...)
		}},
		{use: "show", short: "Show the " + what, needs: "name", do: named(func(ctx context.Context, s *session, one T) error {
			return print(ctx, s, one)
		})},
		{use: "delete", short: "Delete the " + what, needs: "name", writes: true, do: named(func(ctx context.Context, s *session, _ T) error {
			delete(of(s.record), s.name)
			return s.file.save(ctx)
		})},
	}
}

// show shows values as az does, a list of them or the one that is named, or the table of them.
func show[T any](s *session, list []T, table *cli.List) error {
	switch {
	case s.IsValue() && s.name != "":
		return s.PrintValue(list[0])
	case s.IsValue():
		return s.PrintValue(append([]T{}, list...))
	case s.Output == cli.Name && s.name != "":
		return s.Said("%s/%s", table.Kind, s.name)
	}
	return s.Print(table)
}
