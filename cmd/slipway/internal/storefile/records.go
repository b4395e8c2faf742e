package storefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// record is what is stored under a key.
type record struct {
	Key      string           `json:"key"`
	Revision backend.Revision `json:"revision"`
	Bytes    int              `json:"bytes"`
	// Value is the record if it is JSON, Text if it is not; a list of records has neither.
	Value json.RawMessage `json:"value,omitempty"`
	Text  string          `json:"text,omitempty"`
	// Hidden says why neither is there.
	Hidden string `json:"hidden,omitempty"`
}

func newRecords(o *cli.Options) *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "records FILE [KEY]",
		Short: "List the keys of what is stored, or show one record as it is stored",
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
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show a record that may hold what is in a Secret")
	return cmd
}

// showRecord shows one record: as JSON or YAML with its key and revision, otherwise its value alone.
func showRecord(ctx context.Context, o *cli.Options, s *bolt.Store, key string, reveal bool) error {
	stored, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("there is no record %s: %s store records FILE lists them", key, o.Name)
	}
	if err != nil {
		return err
	}
	r := record{Key: stored.Key, Revision: stored.Revision, Bytes: len(stored.Value)}
	kind, _, _ := strings.Cut(key, "/")
	switch {
	case (kind == "content" || kind == "placement") && !reveal:
		r.Hidden = "records under " + kind + "/ may hold what is in a Secret; --reveal shows them"
	case json.Valid(stored.Value) && utf8.Valid(stored.Value):
		r.Value = stored.Value
	case utf8.Valid(stored.Value):
		r.Text = string(stored.Value)
	default:
		r.Text = strconv.Quote(string(stored.Value))
	}
	switch {
	case o.IsValue():
		return o.PrintValue(r)
	case r.Value != nil:
		pretty := *o
		pretty.Output = cli.JSON
		return pretty.PrintValue(r.Value)
	}
	return o.Said("%s", cli.Printable(r.Hidden+r.Text))
}
