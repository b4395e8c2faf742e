package fleet_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// The tutorial runs on a store that makes several writes at once. Every batch is ended at every one
// of its writes: before and after a crash, with an unknown outcome, and with the rest landing late.
func TestCrashInEveryBatchOfTheTutorial(t *testing.T) {
	t.Parallel()
	batched := tutorialStory
	batched.batched = true
	want := batched.undisturbed(t)
	t.Logf("%d writes", want.writes)
	batched.checkAll(t, want, upTo(want.writes))
}

// batchLog records the writes, grouped by batch.
type batchLog struct {
	*memory.Store
	mu      sync.Mutex
	batches [][]backend.Write
}

func (s *batchLog) note(writes ...backend.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, slices.Clone(writes))
}

func (s *batchLog) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.note(backend.Write{Key: key, Prev: prev})
	return s.Store.Put(ctx, key, value, prev)
}

func (s *batchLog) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.note(backend.Write{Key: key, Prev: prev, Delete: true})
	return s.Store.Delete(ctx, key, prev)
}

func (s *batchLog) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	s.note(writes...)
	return s.Store.WriteAll(ctx, writes)
}

// All writes of a save are in one batch: the pages, then the record that names them, then the
// deletions of the commands and pages that it no longer needs.
func TestASaveIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		log := &batchLog{Store: w.store}
		e := w.newEngine(fleet.Config{Name: "one", Store: log})
		stop := running(t, e)
		defer stop()
		if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		create(t, e, fleet.RunSpec{Name: "r", Placement: ep, Strategy: oneStage()})
		for range 10 { // events enough for a page
			must(0, fleet.LateCommand(t.Context(), e, log, "r", stages.Command{Verb: stages.Stop}))(t)
			quiet()
			must(0, fleet.LateCommand(t.Context(), e, log, "r", stages.Command{Verb: stages.Start}))(t)
			quiet()
		}
		endOf(t, e, "r")
		quiet()
		saves, paged := 0, 0
		for _, batch := range log.batches {
			record := slices.IndexFunc(batch, func(w backend.Write) bool { return strings.HasPrefix(w.Key, "run/") })
			if record < 0 {
				record = slices.IndexFunc(batch, func(w backend.Write) bool { return strings.HasPrefix(w.Key, "placement/") })
			}
			for i, w := range batch {
				page := strings.HasPrefix(w.Key, "inflight/") || strings.HasPrefix(w.Key, "journal/")
				if page && record < 0 && !w.Delete || record >= 0 && w.Delete != (i > record) {
					t.Errorf("write %d of a batch of %d is out of place, its record is %d: %+v", i, len(batch), record, w)
				}
			}
			if record >= 0 {
				saves++
				paged += min(record, 1)
			}
		}
		commands := slices.IndexFunc(log.batches, func(b []backend.Write) bool {
			return strings.HasPrefix(b[len(b)-1].Key, "command/") && b[len(b)-1].Delete && len(b) > 1
		})
		if saves < 8 || paged == 0 || commands < 0 {
			t.Errorf("%d saves were batches, %d with pages; of commands that were deleted in one: %t", saves, paged, commands >= 0)
		}
	})
}
