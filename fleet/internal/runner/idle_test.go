package runner

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// listingStore calls listed after each list of commands.
type listingStore struct {
	backend.Store
	listed func()
}

func (s *listingStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for rec, err := range s.Store.List(ctx, prefix) {
			if !yield(rec, err) {
				return
			}
		}
		if strings.HasPrefix(prefix, "command/") && s.listed != nil {
			s.listed()
		}
	}
}

// A run that has ended is not read again until it receives a command, even if that command comes
// right after the list of its commands was read.
func TestCommandArrivingAtAnIdleRunIsRead(t *testing.T) {
	ctx, store := t.Context(), &listingStore{Store: memory.NewStore()}
	rr, _, rev, _ := started(t, store, "")
	rr.Run.State = stages.Failed
	if _, err := store.Put(ctx, record.RunKey("r"), rr.Encode(), rev); err != nil {
		t.Fatal(err)
	}
	r := New(options(store))
	if after, err := r.reconcileRun(ctx, "r"); after != 0 || err != nil || !r.isIdle("r") {
		t.Fatalf("an ended run: again after %v, %v, idle: %t", after, err, r.isIdle("r"))
	}
	r.forget("r")
	store.listed = func() {
		store.listed = nil
		c := stages.Command{ID: "retry", Verb: stages.Retry}
		if err := record.PutCommand(ctx, store, "uid-r", c); err != nil {
			t.Fatal(err)
		}
		r.commandGiven(ctx, backend.Change{Key: record.CommandKey("uid-r", "retry")})
	}
	if _, err := r.reconcileRun(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	if r.isIdle("r") {
		t.Error("the run counts as idle, and its command is never read")
	}
}
