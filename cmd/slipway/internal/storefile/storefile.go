// Package storefile has the verbs of the command that are about the file of a store itself, rather than about
// what an engine makes of it: check reads all of it, records shows what is stored, and backup copies it.
//
// They never write to the file, which nothing may have open for writing meanwhile. A file that is in use,
// damaged or of a newer version is not shown at all. A record in it that is damaged or newer is reported by
// check, and the others are read nevertheless.
//
// Objects that are rolled out may be Secrets, and overrides may carry what is in them. So the records under
// content/ and placement/ are not shown without --reveal. A backup has everything.
package storefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// New returns the verb store.
func New(o *cli.Options) *cobra.Command {
	return cli.Group("store", "Check, show and copy the file of a store", newCheck(o), newRecords(o), newBackup(o))
}

// onFile calls do with the store of the file that the first argument names.
func onFile(o *cli.Options, do func(context.Context, *bolt.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if err := o.CheckOutput(); err != nil {
			return err
		}
		s, err := bolt.Open(args[0], bolt.Options{ReadOnly: true})
		switch {
		case errors.Is(err, bolt.ErrInUse):
			return fmt.Errorf("%w: it can be read when that has closed it", err)
		case errors.Is(err, bolt.ErrDamaged):
			return fmt.Errorf("%w: nothing of it is shown; a backup may be whole", err)
		case errors.Is(err, bolt.ErrNewer):
			return fmt.Errorf("%w: read it with that version", err)
		case err != nil:
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return do(cmd.Context(), s, args)
	}
}

// content says how much a file has.
type content struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"`
}

// say shows it, after what was done.
func (c content) say(o *cli.Options, done string) error {
	if o.IsValue() {
		return o.PrintValue(c)
	}
	return o.Said("%s: %s: records %d, size %s", cli.Printable(c.File), done, c.Records, size(c.Bytes))
}

func size(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String() + "B"
}

func newBackup(o *cli.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE TO",
		Short: "Copy the file of a store to a new file, and check the copy",
		Args:  cli.Arguments(cobra.ExactArgs(2)),
		RunE: onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
			to := args[1]
			f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists: a backup is made to a new file", to)
			}
			if err != nil {
				return err
			}
			c := content{File: to}
			c.Bytes, err = s.Backup(ctx, f)
			if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
				c.Records, err = recordsIn(to)
			}
			if err != nil {
				return errors.Join(err, os.Remove(to))
			}
			return c.say(o, "copied and checked")
		}),
	}
}

// recordsIn opens a store, which checks all of it.
func recordsIn(path string) (int64, error) {
	s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	return s.Stats().Records, s.Close()
}
