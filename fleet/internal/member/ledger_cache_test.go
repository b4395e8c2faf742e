package member

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// TestAnOlderLeaderWithAKeptLedgerIsRefused checks that a leader with a cached ledger is refused
// like a leader that reads it, wherever a newer leader came in between. The objects of the newer
// leader stay, except an object that the older leader was about to create. The older leader gets
// an error that reports the newer leader.
func TestAnOlderLeaderWithAKeptLedgerIsRefused(t *testing.T) {
	for _, next := range []string{"A", "B", "C", ""} {
		for n, more := 0, true; more; n++ {
			synctest.Test(t, func(t *testing.T) { more = keptAndFollowed(t, next, n) })
			if t.Failed() {
				t.Fatalf("then %q, followed before call %d", next, n)
			}
		}
	}
}

// keptAndFollowed lets a newer leader place B before the nth call of a leader that has the ledger
// of A cached and must place next. If n is 0, that happens before the first call. It reports
// whether there was an nth call.
func keptAndFollowed(t *testing.T, next string, n int) bool {
	k := newKit(t)
	calls, counting, creating := 0, false, false
	follow := func() {
		k.place("B", 5, "newer")
		time.Sleep(5 * time.Second)
	}
	older := k.leader(hook(func(op string, id snapshot.ID) {
		if !counting {
			return
		}
		if calls++; calls == n {
			_, err := k.member.Get(id)
			creating = op == "apply" && err != nil
			follow()
		}
	}))
	k.must(older, k.want("A", 1, "older"))
	if counting = true; n == 0 {
		follow()
	}
	_, err := older.Update(t.Context(), k.want(next, 1, "older"))
	if n > calls {
		return false
	}
	got, want := k.objects(), k.expected("B", k.objects()["ConfigMap/default/x"] == "ours") // C had it, and it was released
	for id := range maps.Keys(got) {
		if _, there := want[id]; !there && creating {
			delete(got, id)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || k.ledger().Run != "newer" || k.ledger().Epoch != 5 {
		t.Errorf("%v, want %v; ledger %+v", got, want, k.ledger())
	}
	if !errors.Is(err, backend.ErrFenced) && n < calls {
		t.Errorf("the older leader was told: %v", err)
	}
	return true
}

// closedLedger returns a closed ledger with the given number of objects.
func closedLedger(t *testing.T, placement string, objects int) *ledgerAt {
	t.Helper()
	l := &ledger{Placement: placement, Epoch: 1, Phase: ledgerApplied, Revision: "r"}
	for i := range objects {
		l.Objects = append(l.Objects, ledgerObject{ID: snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: fmt.Sprint("c", i)}})
	}
	text, err := l.encode(goldenKey)
	if err != nil {
		t.Fatal(err)
	}
	return &ledgerAt{ledger: l, uid: "u", version: "1", text: text, key: goldenKey}
}

// TestFewLedgersAreKept checks that the cache is bounded, and that it keeps no open ledger.
func TestFewLedgersAreKept(t *testing.T) {
	k := newLedgerCache()
	closed := func(placement string, objects int) *ledgerAt { return closedLedger(t, placement, objects) }
	for i := range 100 {
		k.keep(closed(fmt.Sprint("p", i), 3))
	}
	if n := k.kept.Len(); n != ledgersKept {
		t.Errorf("%d are kept", n)
	}
	open := closed("open", 3)
	open.Phase = ledgerApplying
	gone := closed("gone", 3)
	gone.uid = ""
	for _, l := range []*ledgerAt{open, gone, closed("big", 1000)} {
		k.keep(l)
		if _, ok := k.take(l.Placement); ok {
			t.Errorf("%s is kept", l.Placement)
		}
	}
	twice := closed("twice", 1)
	k.keep(twice)
	got, first := k.take("twice")
	if d := cmp.Diff(twice.ledger.Objects, got.Objects); d != "" || got.Revision != "r" {
		t.Error(got.Revision, d)
	}
	if _, second := k.take("twice"); !first || second {
		t.Errorf("taken: %v, and again: %v", first, second)
	}
}

// TestAKeptLedgerIsConfirmed checks that an update which finds nothing to do confirms a cached
// ledger, because its leader may have been followed.
func TestAKeptLedgerIsConfirmed(t *testing.T) {
	k := newKit(t)
	older := k.leader(nil)
	k.must(older, k.want("A", 1, "older"))
	if r := k.must(older, k.want("A", 1, "older")); !r.Applied || !r.Current {
		t.Errorf("again: %+v", r)
	}
	k.place("A", 5, "newer")
	if r, err := older.Update(t.Context(), k.want("A", 1, "older")); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("after a newer leader: %+v, %v", r, err)
	}
}

// TestARefusalByAKeptLedgerIsConfirmed lets a newer leader write the ledger, and then makes an
// object belong to another placement: the older leader must be told of the newer leader.
func TestARefusalByAKeptLedgerIsConfirmed(t *testing.T) {
	k := newKit(t)
	older := k.leader(nil)
	k.must(older, k.want("A", 1, "older"))
	k.place("B", 5, "newer")
	other, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	annotations := other.GetAnnotations()
	annotations[digestMark+"other"] = "digest"
	other.SetAnnotations(annotations)
	k.exists(other)
	if _, err := older.Update(t.Context(), k.want("A", 1, "older")); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the error is %v, want that the leader is fenced", err)
	}
}
