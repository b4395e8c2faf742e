// Package commands stores commands to runs until the engine that drives the run has processed them.
package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// Inbox stores commands until the driver of their run has processed them. Its methods may be called
// concurrently.
type Inbox struct {
	store backend.Store
	state *state.State
	log   *slog.Logger
	// checking has a channel for each run with a caller between its check of a command and the end
	// of its Send, which then closes the channel.
	checking sync.Map
}

// New returns the inbox of a store.
func New(store backend.Store, s *state.State, log *slog.Logger) *Inbox {
	return &Inbox{store: store, state: s, log: log}
}

// Lock waits until no other caller checks or sends a command to the run. The caller must call
// unlock.
func (in *Inbox) Lock(ctx context.Context, run string) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		other, locked := in.checking.LoadOrStore(run, mine)
		if !locked {
			return func() { in.checking.Delete(run); close(mine) }, nil
		}
		done, _ := other.(chan struct{})
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Send stores a command of a host, under a new ID if it has none.
func (in *Inbox) Send(ctx context.Context, uid string, c stages.Command) error {
	if c.ID == "" {
		c.ID = record.NewUID()
	}
	c.At = in.state.Now()
	return in.Put(ctx, uid, c)
}

// Put stores a command. A command already stored under the same ID is left unchanged; it is an
// error if the two differ.
func (in *Inbox) Put(ctx context.Context, uid string, c stages.Command) error {
	err := record.PutCommand(ctx, in.store, uid, c)
	if errors.Is(err, backend.ErrConflict) {
		return in.sameCommand(ctx, uid, record.NewCommand(c))
	}
	return err
}

// sameCommand returns an error if the command stored under the ID of want asks for something else.
// It returns nil if there is no such command, because then it was carried out.
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

// OtherCommand returns the error for a command whose ID another command has.
func OtherCommand(id string) error {
	return fmt.Errorf("id %s: %w: it was given to another command before; give each its own, or none", id, backend.ErrConflict)
}

// List returns the commands to a run in the order of their times, and their records. A damaged
// record has no ID. A record of a newer format is omitted, because a newer engine may process it.
func (in *Inbox) List(ctx context.Context, uid string) ([]stages.Command, []Stored, error) {
	return in.decode(in.store.List(ctx, record.CommandKey(uid, "")))
}

// Read is List for the commands with these keys, without those that are not stored any more.
func (in *Inbox) Read(ctx context.Context, keys []string) ([]stages.Command, []Stored, error) {
	return in.decode(func(yield func(backend.Record, error) bool) {
		for _, key := range keys {
			if rec, err := in.store.Get(ctx, key); !state.IsNotFound(err) && !yield(rec, err) {
				return
			}
		}
	})
}

// decode decodes the records of commands.
func (in *Inbox) decode(records iter.Seq2[backend.Record, error]) ([]stages.Command, []Stored, error) {
	var cs []stages.Command
	var taken []Stored
	for rec, err := range records {
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

// Stored is the record of a command that was passed to the driver.
type Stored struct {
	backend.Record
	ID string
}
