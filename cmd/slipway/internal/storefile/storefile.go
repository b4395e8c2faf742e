// Package storefile has the verbs of the command for the file of a store itself, instead of an
// engine's view of it: check reads all of it, records shows its records, and backup copies it.
//
// They never write to the file, and no program may have it open for writing. A file that is in
// use, damaged or of a newer version is not shown at all. check reports a damaged or newer record
// in it, and still reads the others.
//
// Objects that are rolled out may be Secrets, and overrides may contain their data. So the
// records under content/ and placement/ are not shown without --reveal. A backup contains
// everything.
package storefile

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

// New returns the verb store.
func New(o *cli.Options) *cobra.Command {
	return cli.Group("store", "Check, show and copy the file of a store", newCheck(o), newRecords(o), newBackup(o))
}

// onFile calls do with the store in the file of the first argument.
func onFile(o *cli.Options, do func(context.Context, *bolt.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := o.CheckOutput(); err != nil {
			return err
		}
		if target.InDatabase(args[0]) || target.CheckStore("", args[0]) != nil { // its URL may have a password
			return cli.Usagef("%s: want the file of a store: a database is checked and backed up by its own programs", cmd.CommandPath())
		}
		return opened(args[0], func(s *bolt.Store) error { return do(cmd.Context(), s, args) })
	}
}

// opened calls do with the store in a file; opening checks the whole file.
func opened(file string, do func(*bolt.Store) error) error {
	s, err := bolt.Open(file, bolt.Options{ReadOnly: true})
	if err != nil {
		return target.NotStore(file, err)
	}
	return errors.Join(do(s), s.Close())
}

// report reports what was done with a file, and its size.
func report(o *cli.Options, file string, s *bolt.Store, done string) error {
	has := s.Stats()
	if o.IsValue() {
		return o.PrintValue(map[string]any{"file": file, "bytes": has.FileBytes, "records": has.Records})
	}
	return o.Recorded("store/"+file, "%s: records %d, size %sB", done, has.Records, resource.NewQuantity(has.FileBytes, resource.BinarySI))
}

// record is a stored record.
type record struct {
	Key      string           `json:"key"`
	Revision backend.Revision `json:"revision"`
	Bytes    int              `json:"bytes"`
	// Value is the value, as text if it is no JSON. A list of records has no values.
	Value json.RawMessage `json:"value,omitempty"`
	// Hidden is the reason for a missing value.
	Hidden string `json:"hidden,omitempty"`
}

func newRecords(o *cli.Options) *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "records FILE [KEY]",
		Short: "List the keys of all records, or show one record in its stored form",
		Args:  cli.Arguments(cobra.RangeArgs(1, 2)),
	}
	cmd.RunE = onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
		if len(args) == 2 {
			return showRecord(ctx, o, s, args[1], reveal)
		}
		l := &cli.List{Kind: "record", Columns: []string{"Key", "Bytes", "Revision"}, Narrow: 2}
		for r, err := range s.List(ctx, "") {
			if err != nil {
				return err
			}
			l.Add(r.Key, record{Key: r.Key, Revision: r.Revision, Bytes: len(r.Value)}, len(r.Value), r.Revision)
		}
		return o.Print(l)
	})
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show a record that may contain values of Secrets")
	return cmd
}

// showRecord shows one record: with its key and revision if -o selects values, otherwise only its
// value.
func showRecord(ctx context.Context, o *cli.Options, s *bolt.Store, key string, reveal bool) error {
	stored, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	r := record{Key: stored.Key, Revision: stored.Revision, Bytes: len(stored.Value), Value: stored.Value}
	if kind, _, _ := strings.Cut(key, "/"); !reveal && (kind == "content" || kind == "placement") {
		r.Value, r.Hidden = nil, "records under "+kind+"/ may hold what is in a Secret; --reveal shows them"
	} else if !json.Valid(stored.Value) {
		r.Value, _ = json.Marshal(string(stored.Value))
	}
	switch {
	case o.IsValue():
		return o.PrintValue(r)
	case r.Hidden != "":
		return o.Said("%s", r.Hidden)
	}
	return o.PrintValue(r.Value)
}

func newBackup(o *cli.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE TO",
		Short: "Copy the file of a store to a new file, and check the copy",
		Args:  cli.Arguments(cobra.ExactArgs(2)),
		RunE: onFile(o, func(ctx context.Context, s *bolt.Store, args []string) error {
			f, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = s.Backup(ctx, f)
			if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
				err = opened(args[1], func(backup *bolt.Store) error { return report(o, args[1], backup, "copied and checked") })
			}
			if err != nil {
				return errors.Join(err, os.Remove(args[1]))
			}
			return nil
		}),
	}
}
