package state

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// Later returns the later of two moments.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (st *State) Send(ctx context.Context, uid string, c stages.Command) error {
	if c.ID == "" {
		c.ID = record.NewUID()
	}
	c.At = st.Now()
	return st.PutCommand(ctx, uid, c)
}

// OwnID begins the IDs of the engine's own commands. No ID that is given from
// outside does.
const OwnID = "_"

// PutCommand stores a command; one of the same ID that is stored already is
// left as it is, and it is an error if that is another one.
func (st *State) PutCommand(ctx context.Context, uid string, c stages.Command) error {
	err := st.storeCommand(ctx, uid, c)
	if errors.Is(err, backend.ErrConflict) {
		return st.sameCommand(ctx, uid, record.NewCommand(c))
	}
	return err
}

// storeCommand stores a command; that its ID is stored already is a conflict.
func (st *State) storeCommand(ctx context.Context, uid string, c stages.Command) error {
	_, err := st.store.Put(ctx, record.CommandKey(uid, c.ID), record.Encode(record.NewCommand(c)), "")
	return err
}

// sameCommand returns an error if the command that is stored under the ID of
// another one asks for something else. One that is gone was carried out.
func (st *State) sameCommand(ctx context.Context, uid string, want record.Command) error {
	rec, err := st.store.Get(ctx, record.CommandKey(uid, want.Command.ID))
	if IsNotFound(err) {
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

func OtherCommand(id string) error {
	return fmt.Errorf("id %s: %w: it was given to another command before; give each its own, or none", id, backend.ErrConflict)
}

// Commands returns what is asked of a run, in the order in which it was asked,
// and the records. A damaged record has no id; one of a newer format is left
// for an engine that knows it.
func (st *State) Commands(ctx context.Context, uid string) ([]stages.Command, []TakenCommand, error) {
	var cs []stages.Command
	var taken []TakenCommand
	for rec, err := range st.store.List(ctx, record.CommandKey(uid, "")) {
		if err != nil {
			return nil, nil, err
		}
		var c record.Command
		err := record.Decode(rec, &c)
		if newer := (*stages.FormatError)(nil); errors.As(err, &newer) {
			st.log.Warn("a command was left alone", "error", err)
			continue
		}
		if err != nil {
			st.log.Error("a command was dropped", "error", err)
			taken = append(taken, TakenCommand{Record: rec})
			continue
		}
		taken = append(taken, TakenCommand{Record: rec, ID: c.Command.ID})
		cs = append(cs, c.Command)
	}
	slices.SortStableFunc(cs, func(a, b stages.Command) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	return cs, taken, nil
}

// TakenCommand is the record of a command that is in the driver's input.
type TakenCommand struct {
	backend.Record
	ID string
}
