package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// A driver acts only after a save: while saves fail, no worker starts. A save with an unknown
// outcome that took effect is acted on without another save.
func TestDriverSavesBeforeItActs(t *testing.T) {
	for name, c := range map[string]struct {
		fault faulty.Fault
	}{
		"saved": {}, "not saved": {faulty.Before(nil)}, "saved after all": {faulty.After(nil)}, "saved late": {faulty.LateCalls(nil, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				rr, plan, rev, _ := started(t, store, "")
				updater := &clusters{update: func(ctx context.Context, _ member.Assignment) (backend.Proof, error) {
					<-ctx.Done()
					return backend.Proof{}, ctx.Err()
				}}
				failed := false
				o := options(faulty.NewPlan(func(call faulty.Call) faulty.Fault {
					if failed || call.Op != "put" || call.Key != record.RunKey("r") {
						return faulty.Fault{}
					}
					failed = true
					return c.fault
				}).Store(store))
				o.Updater, o.Limiter = updater, member.NewLimiter(1)
				placed, _, err := o.State.Placement(t.Context(), "p")
				if err != nil {
					t.Fatal(err)
				}
				d := newDriver(newEngine(o), taken{
					rec: rr, rev: rev, plan: plan, placement: placed, began: time.Now(), over: func() {}, wake: func() {},
				})
				defer d.end()
				for turn := 1; ; turn++ {
					_, err := d.reconcile(t.Context())
					updates := updater.updated()
					if (err != nil) != (turn == 1 && name != "saved") || err != nil && (len(updates) > 0 || !isRetried(err)) {
						t.Fatalf("turn %d: updates %v, %v", turn, updates, err)
					}
					if err == nil {
						stored, _, rerr := o.State.Run(t.Context(), "r")
						if rerr != nil || len(updates) != 1 || stored.Seq != 1 || stored.InFlight.Here == nil {
							t.Errorf("turn %d: updates %v after %d saves, %v", turn, updates, stored.Seq, rerr)
						}
						return
					}
				}
			})
		})
	}
}
