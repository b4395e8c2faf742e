package caps

import (
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// TestSweepCap checks that Sweep removes the shares that a crash left: of deleted runs, of runs
// that were replaced by another run of the same name, and of ended runs without a lease.
func TestSweepCap(t *testing.T) {
	ctx, store := t.Context(), memory.NewStore()
	cs := New(store, state.New(state.Options{Store: store}))
	put := func(name string, state stages.State, holder string) {
		rr := &record.Run{Run: step.Run{Placement: "web", Plan: "plan", Attempt: 1}}
		rr.Run.Name, rr.Run.UID, rr.Run.State, rr.Lease.Holder = name, "uid-"+name, state, holder
		if _, err := store.Put(ctx, record.RunKey(name), rr.Encode(), ""); err != nil {
			t.Fatal(err)
		}
	}
	put("active", stages.Running, "")
	put("ended", stages.Completed, "")
	put("ending", stages.Completed, "one")
	put("replaced", stages.Running, "one")
	if _, err := store.Put(ctx, record.RunKey("damaged"), []byte("{"), backend.Revision("")); err != nil {
		t.Fatal(err)
	}
	_, err := cs.Update(ctx, "x", true, func(c stages.Cap) (stages.Cap, error) {
		c = c.Resize(10)
		for run, uid := range map[string]string{
			"active": "uid-active", "ended": "uid-ended", "ending": "uid-ending", "replaced": "uid-before", "deleted": "uid-deleted", "damaged": "uid-damaged",
		} {
			c, _ = c.Claim(stages.Claim{UID: uid, Run: run, Uses: 1, Wants: 1})
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cs.Sweep(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	c, _, err := cs.Get(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]bool{"active": true, "ended": false, "ending": true, "before": false, "deleted": false, "damaged": true} {
		if _, has := c.Share("uid-" + run); has != want {
			t.Errorf("%s has a share: %t, want %t", run, has, want)
		}
	}
}
