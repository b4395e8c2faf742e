package fleet_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
)

// If the store does not answer, an engine logs that once, and not with each try.
func TestAStoreThatDoesNotAnswerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if c.Op == "watch" {
				return faulty.Before(errors.New("connection refused"))
			}
			return faulty.Fault{}
		})
		var log bytes.Buffer
		e := w.newEngine(fleet.Config{Store: plan.Store(w.store), Name: "a", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		stop := running(t, e)
		time.Sleep(10 * time.Minute)
		stop()
		if n := strings.Count(log.String(), `msg="records cannot be followed, which is tried again" records=run/ error=`); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, log.String())
		}
	})
}
