package fleet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Wait reads the store only when something changes, retries errors, and returns an error when the
// run is deleted.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		if _, err := e.Run("missing").Wait(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that does not exist: %v", err)
		}
		for _, again := range []bool{false, true} {
			create(t, e, specOf("r", 0))
			ended := make(chan error, 1)
			go func() { _, err := e.Run("r").Wait(t.Context()); ended <- err }()
			synctest.Wait()
			if err := e.Run("r").Delete(t.Context(), forced); err != nil {
				t.Fatal(err)
			}
			if again {
				create(t, e, specOf("r", 0))
			}
			if err := <-ended; !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("deleted, and created again %v: %v", again, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		log := &logStore{Store: w.store}
		if _, err := w.engine(log.hooked(), "waits").Run("r").Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a run that does not end: %v", err)
		}
		if n := log.count(""); n > 600 {
			t.Errorf("waiting for an hour took %d calls of a store that cannot be watched", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		create(t, e, specOf("r", 0))
		flaky := &flakyStore{Store: w.store}
		flaky.down.Store(true)
		ended := make(chan fleet.Status, 1)
		go func() { s, _ := w.engine(flaky, "waits").Run("r").Wait(t.Context()); ended <- s }()
		defer running(t, e)()
		time.Sleep(time.Minute)
		flaky.down.Store(false)
		if s := <-ended; s.Run.State != stages.Completed || s.Holder != "" {
			t.Errorf("after the store failed: %+v", s)
		}
	})
}
