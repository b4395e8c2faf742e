package runner

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/stages"
)

// prompt is an updater whose clusters reach their content at once.
type prompt struct{}

func (prompt) Update(_ context.Context, a member.Assignment) (backend.Proof, error) {
	return backend.Proof{Sent: true, Applied: true, Current: true, Healthy: true, Revision: a.Revision}, nil
}

func (p prompt) Observe(ctx context.Context, a member.Assignment) (backend.Proof, error) {
	return p.Update(ctx, a)
}

// A panic during a step of a run is logged with its stack and has no other effect than a short
// interruption: the run is taken again with a newer epoch, and reaches its end.
func TestRunIsRetakenAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		o := options(store)
		started(t, store, "")
		var log bytes.Buffer
		o.Log, o.Updater, o.Limiter = slog.New(slog.NewTextHandler(&log, nil)), prompt{}, member.NewLimiter(1)
		var panicked atomic.Bool
		o.Clock = func() time.Time {
			if !panicked.Swap(true) {
				panic("the clock has stopped")
			}
			return time.Now()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { New(o).Run(ctx) })
		time.Sleep(10 * time.Second)
		cancel()
		running.Wait()
		rr, _, err := o.State.Run(t.Context(), "r")
		if err != nil || rr.Run.State != stages.Completed || rr.Lease.Epoch != 4 { // taken at epoch 3, lost, and taken again
			t.Errorf("the run is %s at epoch %d: %v", rr.Run.State, rr.Lease.Epoch, err)
		}
		if text := log.String(); !panicked.Load() || !strings.Contains(text, "the clock has stopped") || !strings.Contains(text, "driver.go") {
			t.Errorf("the log has no panic with its stack: %s", text)
		}
	})
}
