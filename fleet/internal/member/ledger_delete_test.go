package member

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// asking returns an updater with the given Held function. It calls before ahead of every call to
// the member.
func (k *kit) asking(before func(op string, id snapshot.ID), held func() error) *Applier {
	d := backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
		return &hookedConn{k.member.Conn(), before}, nil
	})
	return NewApplier(NewConns(d, 0), k.load, kstatusProber{}, Options{
		LeaseHeld: func(context.Context, Assignment) error { return held() },
	})
}

// end returns the assignment that cleans the member because the placement is deleted.
func (k *kit) end(epoch int64) Assignment {
	a := k.want("", epoch, "end")
	a.Final = true
	return a
}

// TestStaleLeaderIsFencedByADeletion checks that an older leader, at any call, ends when
// its placement is deleted, even if another run had the member before. It places nothing more,
// except an object that it was about to create, and deletes a ledger that it created.
func TestStaleLeaderIsFencedByADeletion(t *testing.T) {
	for _, from := range []string{"", "A", "B"} {
		for n, more := 1, true; more; n++ {
			synctest.Test(t, func(t *testing.T) { more = lateForADeletion(t, from, n) })
			if t.Failed() {
				t.Fatalf("from %q, before call %d", from, n)
			}
		}
	}
}

// lateForADeletion deletes the placement before the nth call of a leader, and reports whether there
// was such a call.
func lateForADeletion(t *testing.T, from string, n int) bool {
	k := newKit(t)
	if from != "" {
		k.place(from, 1, "before")
	}
	calls, creating := 0, false
	before := func(op string, id snapshot.ID) {
		if calls++; calls == n {
			_, err := k.member.Get(id)
			creating = op == "apply" && err != nil && !reserved(id)
			k.must(k.leader(nil), k.end(3))
			time.Sleep(5 * time.Second)
		}
	}
	_, err := k.asking(before, func() error {
		if calls >= n {
			return backend.ErrFenced
		}
		return nil
	}).Update(t.Context(), k.want("C", 2, "late"))
	if calls < n {
		return false
	}
	got, want := k.objects(), k.expected("", false)
	if err == nil && calls > n {
		t.Error("no error")
	}
	if more := len(got) - len(want); more > 0 && !creating || more > 1 || k.ledgerOrNil() != nil {
		t.Errorf("%v, ledger %+v", got, k.ledgerOrNil())
	}
	return true
}

// TestALedgerOfUnknownOriginIsAskedAbout checks that a ledger whose write was reported as failed
// does not count as a ledger that proved a revision: the store is asked.
func TestALedgerOfUnknownOriginIsAskedAbout(t *testing.T) {
	k := newKit(t)
	late := k.want("A", 2, "late")
	refuse := k.asking(func(string, snapshot.ID) {}, func() error { return errors.New("the store is down") })
	u := k.leader(nil)
	m, err := u.conns.get(t.Context(), late.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	w := u.newWork(m, late)
	for _, step := range []func(context.Context) error{w.read, w.prepare, w.intend} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := refuse.Update(t.Context(), late); err == nil || len(k.objects()) > len(k.expected("", false)) {
		t.Errorf("%v: %v", err, k.objects())
	}
}

// TestTheLedgerGoesWithThePlacement checks that the ledger is deleted with the placement, once no
// object is left, and that it is not created again.
func TestTheLedgerGoesWithThePlacement(t *testing.T) {
	k := newKit(t)
	k.place("C", 1, "before")
	for range 2 {
		if r := k.must(k.leader(nil), k.end(2)); !r.Current || !r.Applied || k.ledgerOrNil() != nil {
			t.Errorf("report %+v, ledger %+v", r, k.ledgerOrNil())
		}
		r, err := k.leader(nil).Observe(t.Context(), k.end(2))
		if err != nil || !r.Current {
			t.Errorf("observed: %+v, %v", r, err)
		}
	}
}
