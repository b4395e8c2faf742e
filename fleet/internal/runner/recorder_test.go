package runner

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// recorded returns the recorder of a run whose writes have the faults of these rules, and its store
// without faults.
func recorded(t *testing.T, rules ...faulty.Rule) (*recorder, *memory.Store) {
	store := memory.NewStore()
	rr, plan, rev, _ := started(t, store, "test")
	return newRecorder(newEngine(options(faulty.NewPlan(rules...).Store(store))), plan, rr, rev), store
}

// next returns a step that changes the run of a recorder.
func next(r *recorder) *step.Ready {
	run := *r.run()
	run.Now++
	return &step.Ready{Run: run, Changed: true}
}

// A save may fail with an unknown outcome. The recorder reads the record before the next save, and
// finds the one attempt that has taken effect: its part of the input is consumed, and nothing else.
func TestSavesWithAnUnknownOutcome(t *testing.T) {
	unsure := errors.New("timed out")
	for name, c := range map[string]struct {
		faults []faulty.Fault // of the saves 1, 2, …
		// after each save, the save that a read finds to have taken effect; 0 for none
		found []int
		seq   int64
	}{
		"it took effect":                              {[]faulty.Fault{faulty.After(unsure)}, []int{1}, 1},
		"it had no effect":                            {[]faulty.Fault{faulty.Before(unsure)}, []int{0}, 0},
		"it takes effect right before the read":       {[]faulty.Fault{faulty.LateCalls(unsure, 1)}, []int{1}, 1},
		"it takes effect right before the next save":  {[]faulty.Fault{faulty.LateCalls(unsure, 2)}, []int{0, 1}, 1},
		"it comes too late":                           {[]faulty.Fault{faulty.LateCalls(unsure, 3)}, []int{0, 2, 3}, 2},
		"neither of two had an effect":                {[]faulty.Fault{faulty.Before(unsure), faulty.Before(unsure)}, []int{0, 0}, 0},
		"the second of two took effect":               {[]faulty.Fault{faulty.LateCalls(unsure, 3), faulty.After(unsure)}, []int{0, 2}, 1},
		"the first of two took effect after the read": {[]faulty.Fault{faulty.LateCalls(unsure, 3), faulty.LateCalls(unsure, 9)}, []int{0, 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []faulty.Rule
			for i, f := range c.faults {
				rules = append(rules, faulty.NthWrite(i+1, f))
			}
			r, store := recorded(t, rules...)
			var found []int
			for n := 1; n <= len(c.found); n++ {
				took, err := r.save(t.Context(), next(r), mark{observations: n}, nil)
				if err != nil {
					var late *attempt
					if late, err = r.resolve(t.Context()); late != nil {
						took = *late
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, took.mark.observations)
			}
			if diff := cmp.Diff(c.found, found); diff != "" {
				t.Errorf("the saves that took effect: %s", diff)
			}
			isStored(t, store, r, c.seq)
		})
	}
}

// isStored checks that a recorder has the record of the store, after so many saves.
func isStored(t *testing.T, store *memory.Store, r *recorder, seq int64) {
	t.Helper()
	stored, err := store.Get(t.Context(), record.RunKey("r"))
	if err != nil {
		t.Fatal(err)
	}
	var rec record.Run
	if err := record.Decode(stored, &rec); err != nil {
		t.Fatal(err)
	}
	if rec.Seq != seq || r.rec.Seq != seq || r.rev != stored.Revision {
		t.Errorf("the record has %d saves at revision %s, the recorder %d at %s, want %d", rec.Seq, stored.Revision, r.rec.Seq, r.rev, seq)
	}
}

// If a save took effect but its deletions did not, they are made when that is found out.
func TestDeletionsOfASaveThatTookEffect(t *testing.T) {
	r, store := recorded(t, faulty.NthWrite(1, faulty.After(nil)))
	rev, err := store.Put(t.Context(), "command/uid-r/1", []byte("{}"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.save(t.Context(), next(r), mark{}, []backend.Write{record.Delete("command/uid-r/1", rev)}); err == nil {
		t.Fatal("the save succeeded")
	}
	if _, err := store.Get(t.Context(), "command/uid-r/1"); err != nil {
		t.Fatalf("the outcome is unknown, and the command: %v", err)
	}
	if took, err := r.resolve(t.Context()); took == nil || err != nil {
		t.Fatalf("the save took effect: %v, %v", took, err)
	}
	if _, err := store.Get(t.Context(), "command/uid-r/1"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the command after the save: %v", err)
	}
}

// The outcome stays unknown while the record cannot be read, and nothing is saved in between.
func TestAnOutcomeThatCannotBeRead(t *testing.T) {
	r, _ := recorded(t, faulty.NthWrite(1, faulty.After(nil)), faulty.Nth(2, faulty.Before(nil)))
	_, _ = r.save(t.Context(), next(r), mark{observations: 7}, nil)
	if took, err := r.resolve(t.Context()); took != nil || err == nil {
		t.Fatalf("resolved without a read: %v, %v", took, err)
	}
	if took, err := r.resolve(t.Context()); err != nil || took == nil || took.mark.observations != 7 {
		t.Errorf("resolved by the next read: %v, %v", took, err)
	}
	if took, err := r.resolve(t.Context()); took != nil || err != nil || r.unsure {
		t.Errorf("resolved again: %v, %v", took, err)
	}
}

// An engine that finds the run at another epoch, or another run of the same name, has lost it.
func TestAnOutcomeAfterATakeoverIsFenced(t *testing.T) {
	for name, change := range map[string]func(*record.Run){
		"a newer epoch":             func(rr *record.Run) { rr.Lease = record.Lease{Holder: "other", Epoch: 3} },
		"another run of that name":  func(rr *record.Run) { rr.Run.UID = "other" },
		"a newer epoch and no lock": func(rr *record.Run) { rr.Lease = record.Lease{Epoch: 3} },
	} {
		r, store := recorded(t, faulty.NthWrite(1, faulty.Before(nil)))
		_, _ = r.save(t.Context(), next(r), mark{}, nil)
		other := *r.rec
		change(&other)
		if _, err := store.Put(t.Context(), record.RunKey("r"), other.Encode(), r.rev); err != nil {
			t.Fatal(err)
		}
		if _, err := r.resolve(t.Context()); !errors.Is(err, backend.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A save renews the lease in the record, and knows its own writes among those that a watch reports.
func TestASaveRenewsTheLease(t *testing.T) {
	r, _ := recorded(t)
	began := time.Now()
	took, err := r.save(t.Context(), next(r), mark{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if until := r.rec.Lease.Until.Time(); until.Before(began.Add(r.length).Truncate(time.Millisecond)) || took.began.Before(began) {
		t.Errorf("a lease of %v that was saved at %v lasts until %v", r.length, began, until)
	}
	for rev, own := range map[backend.Revision]bool{r.rev: true, "other": false} {
		r.own.reported(rev)
		if r.own.last() != own {
			t.Errorf("the change to revision %s is the driver's own: %t", rev, r.own.last())
		}
	}
}

// A record whose sequence number is corrupt does not stop its driver: the number overflows.
func TestASequenceNumberOverflows(t *testing.T) {
	r, _ := recorded(t)
	r.rec.Seq = math.MaxInt64
	for range 10 {
		if _, err := r.save(t.Context(), next(r), mark{}, nil); err != nil {
			t.Fatal(err)
		}
		if r.own.reported(r.rev); !r.own.last() {
			t.Errorf("save %d is not the driver's own", r.rec.Seq)
		}
	}
}

// An engine that gives a run back releases its lease, so that another engine can take it at once. A
// run that has ended keeps the holder until its end is recorded with the placement. Before that the
// engine finds out whether its last save took effect.
func TestReleasingARun(t *testing.T) {
	for name, c := range map[string]struct {
		state  stages.State
		rules  []faulty.Rule
		holder string
		seq    int64
	}{
		"running":              {state: stages.Running, seq: 2},
		"ended":                {state: stages.Completed, holder: "test", seq: 2},
		"the save took effect": {state: stages.Running, rules: []faulty.Rule{faulty.NthWrite(1, faulty.After(nil))}, seq: 2},
		"the save did not":     {state: stages.Running, rules: []faulty.Rule{faulty.NthWrite(1, faulty.Before(nil))}, seq: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, store := recorded(t, c.rules...)
			ready := next(r)
			ready.Run.State = c.state
			_, _ = r.save(t.Context(), ready, mark{}, nil)
			r.giveBack(t.Context())
			stored, err := store.Get(t.Context(), record.RunKey("r"))
			var rec record.Run
			if err = errors.Join(err, record.Decode(stored, &rec)); err != nil {
				t.Fatal(err)
			}
			if rec.Lease.Holder != c.holder || rec.Lease.Until != 0 || rec.Lease.Epoch != 2 || rec.Seq != c.seq {
				t.Errorf("the record has lease %+v after %d saves", rec.Lease, rec.Seq)
			}
		})
	}
}

// Observations wait for others at most four times as long as the fastest of the last four saves
// took, not at all if that is less than 4 ms, and never longer than 100 ms.
func TestBatchDelayFollowsSaveDurations(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		saves []time.Duration
		batch time.Duration
	}{
		{nil, 0},
		{[]time.Duration{10 * ms, 10 * ms, 10 * ms}, 0}, // too few to know
		{[]time.Duration{10 * ms, 20 * ms, 10 * ms, 12 * ms}, 40 * ms},
		{[]time.Duration{900 * ms, 900 * ms, 900 * ms, 0}, 0},
		{[]time.Duration{900 * ms, 900 * ms, 900 * ms, 900 * ms}, 100 * ms},
		{[]time.Duration{0, 5 * ms, 5 * ms, 5 * ms, 5 * ms}, 20 * ms},
	} {
		var p pace
		for _, took := range c.saves {
			p.add(took)
		}
		if got := p.batch(); got != c.batch {
			t.Errorf("after saves of %v observations wait %v, want %v", c.saves, got, c.batch)
		}
	}
}
