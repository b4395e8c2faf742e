package state

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// asked is the question of a run whether it is its turn.
func asked(name string) *Transition {
	return &Transition{Input: Always(lifecycle.TurnAsked{Entry: lifecycle.Entry{UID: "uid-" + name, Run: name}, Epoch: 5})}
}

// A decision is one write of the placement's record. The same question again writes nothing.
func TestADecisionIsOneWrite(t *testing.T) {
	k := on(t, memory.NewStore())
	plan := k.planned("x")
	k.placed(lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest})
	k.recorded("r", plan)
	before := k.calls.Writes()
	for range 2 {
		rec, out, err := k.Decide(t.Context(), "p", asked("r"))
		if err != nil || !out.Turn.Starts || rec.Queue.Active == nil || rec.Queue.Active.Run != "r" {
			t.Fatalf("turn %+v, %v", out.Turn, err)
		}
		if n := k.calls.Writes() - before; n != 1 {
			t.Errorf("%d writes", n)
		}
	}
}

// A decision begins with the record that the engine saw last. If another engine has written since,
// the decision is made again with the current record, whether there is something to write or not.
func TestADecisionWithAnOldRecordIsMadeAgain(t *testing.T) {
	for name, ask := range map[string]string{"with a write": "r", "without a write": "first"} {
		t.Run(name, func(t *testing.T) {
			k := on(t, memory.NewStore())
			plan := k.planned("x")
			p := k.placed(lifecycle.Run{Name: "first", UID: "uid-first", Plan: plan.Digest}, lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest})
			k.recorded("r", plan)
			k.recorded("first", plan)
			if _, _, err := k.Decide(t.Context(), "p", asked(ask)); err != nil {
				t.Fatal(err)
			}
			p.Queue.Active = &lifecycle.Entry{UID: "uid-other", Run: "other"}
			p.Runs = append(p.Runs, lifecycle.Run{Name: "other", UID: "uid-other", Plan: plan.Digest})
			k.recorded("other", plan)
			k.put(record.PlacementKey("p"), record.Encode(p))
			if rec, out, err := k.Decide(t.Context(), "p", asked(ask)); err != nil || out.Turn.WaitsFor != "other" || rec.Queue.Active.Run != "other" {
				t.Errorf("turn %+v, %v", out.Turn, err)
			}
		})
	}
}

// The effects of a decision are carried out after its save, and not at all if it is not saved.
func TestEffectsAreCarriedOutAfterTheSave(t *testing.T) {
	for name, rule := range map[string]faulty.Rule{
		"saved": faulty.NthWrite(99, faulty.Before(nil)),
		"not saved": faulty.On(func(c faulty.Call) bool { return c.Op == "put" && c.Key == record.PlacementKey("p") },
			faulty.Before(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			k := on(t, memory.NewStore(), rule)
			plan := k.planned("x")
			p := k.placed(lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest}, lifecycle.Run{Name: "old", UID: "uid-old", Plan: plan.Digest})
			p.Queue.Active = &lifecycle.Entry{UID: "uid-old", Run: "old"}
			p.Placement.Admission = "Supersede"
			k.put(record.PlacementKey("p"), record.Encode(p))
			k.recorded("r", plan)
			k.recorded("old", plan)
			_, out, err := k.Advance(t.Context(), "p", asked("r"))
			sent := false
			for c, err := range k.under.List(t.Context(), record.CommandKey("uid-old", "")) {
				sent = err == nil && c.Key != ""
			}
			if sent != (err == nil) || sent != (name == "saved") {
				t.Errorf("turn %+v, command sent: %t, %v", out.Turn, sent, err)
			}
		})
	}
}

// An engine has the record of a placement in memory and decodes it again only after a change. If a
// watch reports the revision that is in memory, the store is not read.
func TestAPlacementInMemory(t *testing.T) {
	k := on(t, memory.NewStore())
	p := k.placed()
	first, rev, err := k.SeenPlacement(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	before := k.calls.Calls()
	if again, err := k.AtRevision(t.Context(), "p", rev)(); err != nil || again != first || k.calls.Calls() != before {
		t.Errorf("%d calls, %v", k.calls.Calls()-before, err)
	}
	p.Epoch = 8
	changed := k.put(record.PlacementKey("p"), record.Encode(p))
	for range 2 {
		if now, err := k.AtRevision(t.Context(), "p", changed)(); err != nil || now.Epoch != 8 {
			t.Errorf("after a change: %+v, %v", now, err)
		}
	}
	if n := k.calls.Calls() - before; n != 1 {
		t.Errorf("a change was read %d times", n)
	}
}

// The record of a run is missing, damaged, or under the wrong name. The revision of a damaged
// record is known, so that it can be deleted.
func TestTheRecordOfARun(t *testing.T) {
	k := on(t, memory.NewStore())
	rr, _ := k.recorded("r", k.planned("x"))
	k.put(record.RunKey("damaged"), []byte("{"))
	k.put(record.RunKey("renamed"), rr.Encode())
	for name, want := range map[string]error{
		"r": nil, "none": backend.ErrNotFound, "damaged": backend.ErrPermanent, "renamed": backend.ErrPermanent, "../x": backend.ErrNotFound,
	} {
		if _, rev, err := k.Run(t.Context(), name); !errors.Is(err, want) || (rev == "") != IsNotFound(want) {
			t.Errorf("run %s at %q: %v", name, rev, err)
		}
	}
}

// A caller can wait until this process is done with a run.
func TestARunThatThisProcessIsBusyWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Busy
		if !b.Wait(t.Context(), "r") || b.Has("r") {
			t.Error("it is busy before it begins")
		}
		end := b.Begin("r")
		waited := false
		go func() { waited = b.Wait(t.Context(), "r") }()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if waited || !b.Has("r") || b.Wait(ended, "r") {
			t.Error("it is not busy before it ends")
		}
		again := b.Begin("r")
		end()
		synctest.Wait()
		if !waited || !b.Has("r") {
			t.Errorf("after the end of the first: waited %t, busy %t", waited, b.Has("r"))
		}
		if again(); b.Has("r") {
			t.Error("it is busy after the end of both")
		}
	})
}
