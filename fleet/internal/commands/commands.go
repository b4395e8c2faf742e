// Package commands keeps what is asked of runs until the engine that drives the run has taken it in.
package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// Inbox keeps commands until the driver of their run has taken them in. Its methods may be called
// concurrently.
type Inbox struct {
	store backend.Store
	state *state.State
	log   *slog.Logger
}

// New returns the commands that are kept in a store.
func New(store backend.Store, s *state.State, log *slog.Logger) *Inbox { return &Inbox{store, s, log} }

// Later returns the later of two moments.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Send stores a command of a host, under a new ID where it has none.
func (in *Inbox) Send(ctx context.Context, uid string, c stages.Command) error {
	if c.ID == "" {
		c.ID = record.NewUID()
	}
	c.At = in.state.Now()
	return in.Put(ctx, uid, c)
}

// Put stores a command; one of the same ID that is stored already is
// left as it is, and it is an error if that is another one.
func (in *Inbox) Put(ctx context.Context, uid string, c stages.Command) error {
	err := record.PutCommand(ctx, in.store, uid, c)
	if errors.Is(err, backend.ErrConflict) {
		return in.sameCommand(ctx, uid, record.NewCommand(c))
	}
	return err
}

// sameCommand returns an error if the command that is stored under the ID of
// another one asks for something else. One that is gone was carried out.
func (in *Inbox) sameCommand(ctx context.Context, uid string, want record.Command) error {
	rec, err := in.store.Get(ctx, record.CommandKey(uid, want.Command.ID))
	if state.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var have record.Command
	if err := record.Decode(rec, &have); err != nil {
		return err
	}
	if !bytes.Equal(record.Encode(have.Undated()), record.Encode(want.Undated())) {
		return OtherCommand(want.Command.ID)
	}
	return nil
}

// OtherCommand is the error of a command whose ID another one has.
func OtherCommand(id string) error {
	return fmt.Errorf("id %s: %w: it was given to another command before; give each its own, or none", id, backend.ErrConflict)
}

// List returns what is asked of a run, in the order in which it was asked,
// and the records. A damaged record has no id; one of a newer format is left
// for an engine that knows it.
func (in *Inbox) List(ctx context.Context, uid string) ([]stages.Command, []Stored, error) {
	var cs []stages.Command
	var taken []Stored
	for rec, err := range in.store.List(ctx, record.CommandKey(uid, "")) {
		if err != nil {
			return nil, nil, err
		}
		var c record.Command
		err := record.Decode(rec, &c)
		if newer := (*versioned.FormatError)(nil); errors.As(err, &newer) {
			in.log.Warn("a command was left alone", "error", err)
			continue
		}
		if err != nil {
			in.log.Error("a command was dropped", "error", err)
			taken = append(taken, Stored{Record: rec})
			continue
		}
		taken = append(taken, Stored{Record: rec, ID: c.Command.ID})
		cs = append(cs, c.Command)
	}
	slices.SortStableFunc(cs, func(a, b stages.Command) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	return cs, taken, nil
}

// Stored is the record of a command that is in the driver's input.
type Stored struct {
	backend.Record
	ID string
}
