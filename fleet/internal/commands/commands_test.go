package commands

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// inbox returns the inbox of a store, at a time.
func inbox(store backend.Store, now time.Time) *Inbox {
	log := slog.New(slog.DiscardHandler)
	return New(store, state.New(state.Options{Store: store, Clock: func() time.Time { return now }, Log: log}), log)
}

// A command may be sent again under its ID; it is stored once, with its first date. Another command
// under the same ID is refused. Without an ID, each call sends a command of its own.
func TestACommandIsStoredOnceUnderItsID(t *testing.T) {
	store := memory.NewStore()
	first := time.Unix(1000, 0)
	for i, c := range []stages.Command{{ID: "x", Verb: stages.Stop}, {ID: "x", Verb: stages.Stop}, {Verb: stages.Stop}, {Verb: stages.Stop}} {
		if err := inbox(store, first.Add(time.Duration(i)*time.Second)).Send(t.Context(), "uid", c); err != nil {
			t.Fatal(err)
		}
	}
	in := inbox(store, first)
	if err := in.Send(t.Context(), "uid", stages.Command{ID: "x", Verb: stages.Start}); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("another command under the ID: %v", err)
	}
	if err := in.Send(t.Context(), "other", stages.Command{ID: "x", Verb: stages.Start}); err != nil {
		t.Errorf("the ID for another run: %v", err)
	}
	cs, stored, err := in.List(t.Context(), "uid")
	if err != nil || len(cs) != 3 || len(stored) != 3 || cs[0].ID != "x" || !cs[0].At.Equal(first) || cs[1].ID == cs[2].ID {
		t.Errorf("commands %+v, %v", cs, err)
	}
}

// Commands are listed in the order of their dates. One that cannot be read has no ID, so that the
// driver deletes it; one of a newer format is left to a newer engine.
func TestTheListOfCommands(t *testing.T) {
	store := memory.NewStore()
	for i, id := range []string{"c", "b", "a"} {
		if err := inbox(store, time.Unix(int64(1000+i/2), 0)).Send(t.Context(), "uid", stages.Command{ID: id, Verb: stages.Stop}); err != nil {
			t.Fatal(err)
		}
	}
	for id, text := range map[string]string{"damaged": "{", "newer": `{"format":999}`} {
		if _, err := store.Put(t.Context(), record.CommandKey("uid", id), []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	cs, stored, err := inbox(store, time.Time{}).List(t.Context(), "uid")
	var ids, keys []string
	for _, c := range cs {
		ids = append(ids, c.ID)
	}
	for _, s := range stored {
		if s.ID == "" {
			keys = append(keys, s.Key)
		}
	}
	if err != nil || !slices.Equal(ids, []string{"b", "c", "a"}) || !slices.Equal(keys, []string{record.CommandKey("uid", "damaged")}) || len(stored) != 4 {
		t.Errorf("commands %q, unreadable %q of %d, %v", ids, keys, len(stored), err)
	}
}

// Read returns the stored commands of the keys as List does.
func TestReadReturnsTheCommandsOfItsKeys(t *testing.T) {
	store := memory.NewStore()
	for i, id := range []string{"late", "early", "other"} {
		if err := inbox(store, time.Unix(int64(1000-i), 0)).Send(t.Context(), "uid", stages.Command{ID: id, Verb: stages.Stop}); err != nil {
			t.Fatal(err)
		}
	}
	damaged := record.CommandKey("uid", "damaged")
	if _, err := store.Put(t.Context(), damaged, []byte("{"), ""); err != nil {
		t.Fatal(err)
	}
	keys := []string{record.CommandKey("uid", "late"), record.CommandKey("uid", "gone"), damaged, record.CommandKey("uid", "early")}
	cs, stored, err := inbox(store, time.Time{}).Read(t.Context(), keys)
	if err != nil || len(cs) != 2 || cs[0].ID != "early" || cs[1].ID != "late" {
		t.Fatalf("commands %+v, %v", cs, err)
	}
	if len(stored) != 3 || stored[1].ID != "" || stored[1].Key != damaged {
		t.Errorf("records %+v", stored)
	}
}
