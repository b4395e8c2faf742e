package fleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// slowSight is a store that loses the first write of a placement after a run is recorded. Its next
// read of the placement takes some time to return.
type slowSight struct {
	backend.Store
	recorded, lost, slept bool
	// loses is called when the write is lost.
	loses func()
}

func (s *slowSight) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if s.recorded && !s.lost && strings.HasPrefix(key, "placement/") {
		s.lost = true
		s.loses()
		return "", errors.New("lost")
	}
	rev, err := s.Store.Put(ctx, key, value, prev)
	s.recorded = s.recorded || strings.HasPrefix(key, "run/")
	return rev, err
}

func (s *slowSight) Get(ctx context.Context, key string) (backend.Record, error) {
	rec, err := s.Store.Get(ctx, key)
	if s.lost && !s.slept && strings.HasPrefix(key, "placement/") {
		s.slept = true
		time.Sleep(5 * time.Second)
	}
	return rec, err
}

// The admission of a run failed for its creator, but an engine has taken and admitted the run
// since. The run is not withdrawn.
func TestARunThatAnEngineHasTakenIsNotWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		e := w.engine(w.store, "a")
		if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		stop := func() {}
		defer func() { stop() }()
		s := &slowSight{Store: w.store, loses: func() { stop = running(t, e) }}
		made, err := w.engine(s, "client").CreateRun(t.Context(), fleet.RunSpec{Name: "one", Placement: "example-placement", Strategy: inOneStage()})
		if err != nil || !s.slept {
			t.Fatalf("%v, slept: %v", err, s.slept)
		}
		got, err := e.Run("one").Wait(t.Context())
		if err != nil || got.Run.State != stages.Completed || got.Run.UID != made.Run.UID {
			t.Errorf("run one is %s, %v", got.Run.State, err)
		}
	})
}
