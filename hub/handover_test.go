package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
)

// interrupted is the way of a hub to the store that loses its lead in the middle of
// a write: meanwhile is done first, and the write is not.
type interrupted struct {
	backend.Store
	prefix    string
	meanwhile func()
}

func (s *interrupted) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if do := s.meanwhile; do != nil && strings.HasPrefix(key, s.prefix) {
		s.meanwhile = nil
		do()
		return "", fmt.Errorf("put %s: %w", key, context.Canceled)
	}
	return s.Store.Put(ctx, key, value, prev)
}

// A hub loses its lead while it begins a run, and takes back what it had recorded. The
// next one has seen that, and begins the run nevertheless: nobody took it back.
func TestARunThatTheHubBeforeTookBackIsBegun(t *testing.T) {
	s := newStale(t)
	way := &interrupted{Store: s.store, prefix: "placement/"}
	before := staleOn(s.hubEnv, "before", s.store, way)
	s.place("v1")
	s.staged("")
	s.sync("crp", s.name, s.SyncPlacement)
	before.sync("crp", s.name, before.SyncPlacement)
	if _, err := s.engine.Capture(t.Context(), s.name); err != nil { // the hub before takes no snapshot, and only records the run
		t.Fatal(err)
	}
	run := s.runOf(s.name, "")
	run.Object["spec"].(map[string]any)["state"] = "Initialize"
	s.create(run)
	looks := 0
	way.meanwhile = func() {
		for range 3 {
			s.seen("csur", s.name)
			if err := s.SyncRun(t.Context(), s.name); err != nil {
				t.Errorf("the next hub: %v", err)
			}
			looks++
		}
	}
	s.eventually("the hub before to lose its lead", func() error {
		before.seen("csur", s.name)
		err := before.SyncRun(t.Context(), s.name)
		if looks == 0 {
			return fmt.Errorf("it has it: %w", err)
		}
		return nil
	})
	if _, err := s.engine.Status(t.Context(), s.name); err == nil {
		t.Error("the hub before did not take back what it had recorded: the test does not test enough")
	}
	s.eventually("the run to be begun", func() error {
		s.seen("csur", s.name)
		if err := s.SyncRun(t.Context(), s.name); err != nil {
			return err
		}
		return s.condition("csur", s.name, "Initialized", "True")
	})
}
