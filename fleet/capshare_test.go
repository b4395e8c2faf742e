package fleet

import (
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// A driver uses nothing of a cap before it has made a claim under its own epoch:
// what it has read may be on its way to be given back by the driver before it.
func TestNothingIsUsedOfACapBeforeAClaim(t *testing.T) {
	c, _ := stages.Cap{Name: "x", Limit: 4}.Claim(stages.Claim{UID: "uid", Run: "r", Wants: 4})
	starving, _ := c.Claim(stages.Claim{UID: "other", Run: "o", Wants: 1})
	for name, tt := range map[string]struct {
		share *capShare
		state stages.State
		want  int
	}{
		"no cap":          {&capShare{cap: c, claimed: true}, stages.Running, 0},
		"no claim":        {&capShare{name: "x", cap: c}, stages.Running, 0},
		"not even given":  {&capShare{name: "x", cap: c, given: true}, stages.Running, 0},
		"the run is over": {&capShare{name: "x", cap: c, claimed: true}, stages.Failed, 0},
		"a claim":         {&capShare{name: "x", cap: c, claimed: true}, stages.Running, 4},
		"somebody waits":  {&capShare{name: "x", cap: starving, claimed: true}, stages.Running, 0},
		"just given":      {&capShare{name: "x", cap: starving, claimed: true, given: true}, stages.Running, 4},
	} {
		d := &driver{uid: "uid", rec: &record.Run{Run: stages.Run{State: tt.state}}}
		d.share.name, d.share.cap, d.share.claimed, d.share.given = tt.share.name, tt.share.cap, tt.share.claimed, tt.share.given
		if got := d.slots(); got != tt.want {
			t.Errorf("%s: %d slots, want %d", name, got, tt.want)
		}
	}
}

// What a crash left of runs that are over is found by the runs that wait: of a run that was deleted, that is
// another one by now, or that has ended and nobody has.
func TestSweepCap(t *testing.T) {
	members := memory.NewFleet()
	e, err := New(Config{Store: memory.NewStore(), Inventory: members, Dialer: members})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put := func(name string, state stages.State, holder string) {
		rr := &record.Run{Run: stages.Run{Placement: "web", Plan: "plan", Attempt: 1}}
		rr.Run.Name, rr.Run.UID, rr.Run.State, rr.Lease.Holder = name, "uid-"+name, state, holder
		if _, err := e.store.Put(ctx, record.RunKey(name), rr.Encode(), ""); err != nil {
			t.Fatal(err)
		}
	}
	put("active", stages.Running, "")
	put("ended", stages.Completed, "")
	put("ending", stages.Completed, "one")
	put("replaced", stages.Running, "one")
	if _, err := e.store.Put(ctx, record.RunKey("damaged"), []byte("{"), backend.Revision("")); err != nil {
		t.Fatal(err)
	}
	if err := e.SetCap(ctx, "x", 10); err != nil {
		t.Fatal(err)
	}
	_, err = e.updateCap(ctx, "x", false, func(c stages.Cap) (stages.Cap, error) {
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
	if err := e.sweepCap(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	c, _, err := e.capAt(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]bool{"active": true, "ended": false, "ending": true, "before": false, "deleted": false, "damaged": true} {
		if _, has := c.Share("uid-" + run); has != want {
			t.Errorf("%s has a share: %t, want %t", run, has, want)
		}
	}
}
