package state

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// A lease is free when it has ended, or when its record did not change for a lease duration plus
// skew, whatever time it contains. It is not free within a lease duration of a change that was
// seen.
func TestFreeFrom(t *testing.T) {
	const length, skew = 15 * time.Second, time.Second
	since := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		until time.Duration // after since
		alive bool
		want  time.Duration
	}{
		"it ends":                                 {until: 5 * time.Second, want: 5*time.Second + skew + time.Millisecond},
		"it ended long ago":                       {until: -time.Hour, want: -time.Hour + skew + time.Millisecond},
		"the holder's clock is ahead":             {until: time.Hour, want: length + skew},
		"the holder is alive":                     {until: 5 * time.Second, alive: true, want: length},
		"the holder is alive, its clock behind":   {until: -time.Hour, alive: true, want: length},
		"the holder is alive, its clock is ahead": {until: time.Hour, alive: true, want: length + skew},
	} {
		if got := FreeFrom(since.Add(c.until), since, c.alive, length, skew).Sub(since); got != c.want {
			t.Errorf("%s: free after %v, want %v", name, got, c.want)
		}
	}
}

// An engine takes a run at an epoch above that of the placement and of every run before. The record
// of the placement is written first, so that no two engines have the same epoch.
func TestAcquire(t *testing.T) {
	k := on(t, memory.NewStore())
	k.placed()
	rr, rev := k.recorded("r", k.planned("x"))
	rev, placed, err := k.Acquire(t.Context(), rr, rev)
	if err != nil {
		t.Fatal(err)
	}
	stored, at, err := k.Run(t.Context(), "r")
	if err != nil || at != rev || stored.Lease.Holder != "me" || stored.Lease.Epoch != 6 || stored.Seq != 1 || stored.Journal.Events != 1 {
		t.Errorf("the run is %+v at %s, %v", stored, at, err)
	}
	p, _, err := k.Placement(t.Context(), "p")
	if err != nil || p.Epoch != 6 || placed.Epoch != 6 {
		t.Errorf("the placement is at epoch %d, returned %d, %v", p.Epoch, placed.Epoch, err)
	}
	if rr.Lease.Epoch != 6 || rr.Seq != 1 {
		t.Errorf("the caller's record has lease %+v", rr.Lease)
	}
}

// The record of a placement that an engine has in memory may be old. Then nothing is written, and
// the epoch follows the current record.
func TestAcquireWithAnOldPlacementInMemory(t *testing.T) {
	k := on(t, memory.NewStore())
	p := k.placed()
	if _, _, err := k.SeenPlacement(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	p.Epoch = 9
	k.put(record.PlacementKey("p"), record.Encode(p))
	rr, rev := k.recorded("r", k.planned("x"))
	if _, placed, err := k.Acquire(t.Context(), rr, rev); err != nil || rr.Lease.Epoch != 10 || placed.Epoch != 10 {
		t.Errorf("taken at epoch %d of %d, %v", rr.Lease.Epoch, placed.Epoch, err)
	}
}

// If another engine has saved the run since it was read, it is not taken. The epoch has risen
// nevertheless, and the next try takes the run at a still newer one.
func TestAcquireARunThatAnotherEngineHasSaved(t *testing.T) {
	k := on(t, memory.NewStore())
	k.placed()
	rr, old := k.recorded("r", k.planned("x"))
	saved := *rr
	saved.Seq++
	now := k.put(record.RunKey("r"), saved.Encode())
	if _, _, err := k.Acquire(t.Context(), rr, old); !errors.Is(err, backend.ErrConflict) {
		t.Fatalf("taken: %v", err)
	}
	if stored, at, _ := k.Run(t.Context(), "r"); at != now || stored.Lease.Holder != "other" {
		t.Errorf("the run was written: %+v", stored.Lease)
	}
	if _, _, err := k.Acquire(t.Context(), &saved, now); err != nil || saved.Lease.Epoch != 7 {
		t.Errorf("taken at epoch %d, %v", saved.Lease.Epoch, err)
	}
}

// A crash after any write of Acquire leaves the run to the engine that had it, or to the one that
// takes it; no epoch is used twice.
func TestAcquireAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		store := memory.NewStore()
		k := on(t, store, faulty.CrashAfter(n))
		k.placed()
		plan := on(t, store).planned("x")
		rr, rev := k.recorded("r", plan)
		_, _, err := k.Acquire(t.Context(), rr, rev)
		if !k.calls.Crashed() {
			if err != nil || n < 3 {
				t.Errorf("%d writes, %v", n-1, err)
			}
			return
		}
		next := on(t, store)
		rr, rev, err = next.Run(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		before := rr.Lease.Epoch
		if _, _, err := next.Acquire(t.Context(), rr, rev); err != nil || rr.Lease.Epoch <= before || rr.Lease.Epoch < 7 {
			t.Errorf("a crash after write %d: taken at epoch %d after %d, %v", n, rr.Lease.Epoch, before, err)
		}
	}
}

// An engine holds the lease of a run as long as the record names its epoch, and the run has not
// ended.
func TestLeaseHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*record.Run)
		held   bool
	}{
		"held":            {func(*record.Run) {}, true},
		"a newer epoch":   {func(rr *record.Run) { rr.Lease.Epoch++ }, false},
		"another run":     {func(rr *record.Run) { rr.Run.UID = "other" }, false},
		"the run's end":   {func(rr *record.Run) { rr.Run.State = stages.Aborted }, false},
		"another's lease": {func(rr *record.Run) { rr.Lease.Holder = "other" }, true}, // the epoch counts
	} {
		k := on(t, memory.NewStore())
		k.placed()
		rr, _ := k.recorded("r", k.planned("x"))
		a := member.WithKey(backend.Assignment{Run: "r", RunUID: rr.Run.UID, Epoch: rr.Lease.Epoch}, nil)
		c.change(rr)
		k.put(record.RunKey("r"), rr.Encode())
		if err := k.LeaseHeld(t.Context(), a); (err == nil) != c.held || !c.held && !errors.Is(err, backend.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
		a.Run = "deleted"
		if err := k.LeaseHeld(t.Context(), a); !errors.Is(err, backend.ErrFenced) {
			t.Errorf("a run without a record: %v", err)
		}
	}
}
