package member

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// lateG returns a kit after a late creation of default/g: the leader was already followed by a
// leader with revision A, as on a member without fences. The ledger has the object as doubtful.
func lateG(t *testing.T) *kit {
	k := newKitG(t)
	g := newGate(6) // the creation of default/g
	end := g.start(t.Context(), k.leader(hookUnfenced(g.before)), k.want("G", 1, "old"))
	g.reached(end)
	k.place("A", 2, "r1")
	close(g.release)
	<-end
	if l := k.ledger(); k.objects()["ConfigMap/default/g"] != "1+ours" || len(l.Suspects) != 1 {
		t.Fatalf("%v, %+v", k.objects(), l)
	}
	return k
}

// TestLateCreationIsOwned checks that an object which was created late and is desired later belongs
// to the placement, and is removed with it.
func TestLateCreationIsOwned(t *testing.T) {
	k := lateG(t)
	k.place("G", 3, "r2")
	k.place("", 3, "r3")
	wantObjects(t, k, k.expected("", false))
}

// TestASuspectObjectIsMarked checks that a doubtful object that the older leader is about to delete
// is marked, too.
func TestASuspectObjectIsMarked(t *testing.T) {
	k := lateG(t)
	f, held, release := &fenceWatch{k: k}, make(chan struct{}), make(chan struct{})
	old, wanted := k.want("B", 3, "r2"), k.want("B", 4, "r3")
	end := new(gate).start(t.Context(), f.leader(old, true, func(op string, id snapshot.ID) {
		if op == "delete" && id.Name == "g" {
			close(held)
			<-release
		}
	}), old)
	<-held
	wrote := false
	k.must(f.leader(wanted, false, func(op string, id snapshot.ID) {
		if wrote {
			wrote = false
			close(release)
			<-end
		}
		wrote = op == "apply" && id == ledgerID(kitPlacement) && k.ledger().Epoch == 3
	}), wanted)
	f.judge(0)
	wantObjects(t, k, k.expected("B", false))
}

// markedBy returns a kit with an open intent of a leader of epoch 2 to apply B over A. A leader of
// epoch 3 has marked the existing objects and died before it wrote the ledger.
func markedBy(t *testing.T, epoch int64) *kit {
	k := newKit(t)
	k.place("A", 1, "r1")
	dies := func(epoch int64, last func(op string, id snapshot.ID) bool) {
		ctx, cancel := context.WithCancel(t.Context())
		u := k.leader(hook(func(op string, id snapshot.ID) {
			if last(op, id) {
				cancel()
			}
		}))
		if _, err := u.Update(ctx, k.want("B", epoch, "r2")); !errors.Is(err, context.Canceled) {
			t.Fatalf("the leader was to die: %v", err)
		}
	}
	dies(2, func(op string, id snapshot.ID) bool { return op == "apply" && id.Name == "a" })
	dies(epoch, func(op string, id snapshot.ID) bool { return op == "apply" && id == ledgerID(kitPlacement) })
	if l := k.ledger(); l.Epoch != 2 || !l.open() {
		t.Fatalf("the ledger is %+v", l)
	}
	return k
}

// marks returns the marks on the placement's objects.
func (k *kit) marks() map[string]mark {
	out := map[string]mark{}
	for _, obj := range k.member.List("") {
		if m := markOn(obj, kitPlacement); m != (mark{}) {
			out[obj.GetName()] = m
		}
	}
	return out
}

// TestMarkOfALeaderThatDied checks that a mark stops an older leader, even if the engine that left
// it died before it wrote the ledger. The mark does not stop the next leader.
func TestMarkOfALeaderThatDied(t *testing.T) {
	k := markedBy(t, 3)
	if m := k.marks(); len(m) != 3 || m["a"].epoch != 3 || m["a"].generation != 1 {
		t.Fatalf("marks: %v", m)
	}
	k.member.Record(true)
	if _, err := k.leader(nil).Update(t.Context(), k.want("B", 2, "r2")); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the older leader: %v", err)
	}
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("the older leader wrote %v", log)
	}
	r := k.place("A", 4, "r3")
	if !r.Current || !r.Healthy {
		t.Errorf("the next leader: %+v", r)
	}
	wantObjects(t, k, k.expected("A", false))
	if m := k.marks(); m["a"].epoch != 4 {
		t.Errorf("marks: %v", m)
	}
}

// TestOwnMarkStands checks that a leader which died before it wrote the ledger, and returns with
// its epoch, does not mark again.
func TestOwnMarkStands(t *testing.T) {
	k := markedBy(t, 3)
	k.member.Record(true)
	k.place("B", 3, "r2")
	for _, w := range k.member.Log() {
		if w.Manager == marker(kitPlacement) {
			t.Errorf("%s was marked again", w.ID)
		}
	}
	wantObjects(t, k, k.expected("B", false))
}

// TestOwnMarksDoNotFence checks that a newer leader of the same epoch is not stopped by its own
// marks if the older leader completes its work in between.
func TestOwnMarksDoNotFence(t *testing.T) {
	k := newKit(t)
	k.place("A", 2, "r1")
	g := newGate(13) // the write that closes the ledger
	end := g.start(t.Context(), k.leader(hook(g.before)), k.want("B", 2, "r2"))
	g.reached(end)
	done := false
	u := k.leader(hook(func(op string, id snapshot.ID) {
		if op == "apply" && id == ledgerID(kitPlacement) && !done {
			done = true
			close(g.release)
			if err := <-end; err != nil {
				t.Errorf("the older leader: %v", err)
			}
		}
	}))
	if r := k.must(u, k.want("A", 2, "r3")); !done || !r.Current {
		t.Errorf("%v, %+v", done, r)
	}
	wantObjects(t, k, k.expected("A", false))
}

// TestMarksOfAnotherLedger checks that marks have no meaning for another ledger. After a store was
// restored and the ledger was deleted, epochs begin at low numbers again.
func TestMarksOfAnotherLedger(t *testing.T) {
	k := markedBy(t, 30)
	if err := k.member.Delete(ledgerID(kitPlacement)); err != nil {
		t.Fatal(err)
	}
	if r := k.place("B", 1, "r1"); !r.Current || !r.Healthy {
		t.Errorf("%+v", r)
	}
	k.place("C", 1, "r2")
}

// TestTakeoverOfIdenticalObjectsWritesOnlyMarks checks that a takeover of a cluster that already
// has everything writes only the marks, the intent and its end. A mark is no drift, and no released
// object keeps it.
func TestTakeoverOfIdenticalObjectsWritesOnlyMarks(t *testing.T) {
	k := newKit(t)
	k.place("C", 1, "r1")
	ctx, cancel := context.WithCancel(t.Context())
	u := k.leader(hook(func(op string, id snapshot.ID) {
		if op == "apply" && id == ledgerID(kitPlacement) && k.ledger().open() {
			cancel()
		}
	}))
	k.exists(configMap("app", "a", "edited"))
	if _, err := u.Update(ctx, k.want("C", 2, "r2")); err == nil {
		t.Fatal("the leader was to die")
	}
	k.member.Record(true)
	k.place("C", 3, "r2")
	by := map[string]int{}
	for _, w := range k.member.Log() {
		by[w.Manager]++
	}
	if by[marker(kitPlacement)] != 3 || by[manager(kitPlacement)] != 2 || len(k.member.Log()) != 5 {
		t.Errorf("writes: %v, want three marks and two of the ledger", k.member.Log())
	}
	if r, err := k.leader(nil).Observe(t.Context(), k.want("C", 3, "r2")); err != nil || !r.Current {
		t.Errorf("%+v, %v", r, err)
	}
	k.member.Record(false)
	k.member.Record(true)
	k.place("C", 3, "r2")
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("an update of what is marked wrote %v", log)
	}
	k.place("A", 3, "r3")
	k.place("", 3, "r4")
	if m := k.marks(); len(m) != 0 {
		t.Errorf("left on what was given up: %v", m)
	}
}

// TestRefusedMark checks that an object whose mark the member refuses or drops does not delay the
// others. Only that object is not proven.
func TestRefusedMark(t *testing.T) {
	refuse := func(k *kit) func(backend.Conn) backend.Conn {
		k.member.Refuse(func(obj *unstructured.Unstructured) error {
			if markOn(obj, kitPlacement) != (mark{}) {
				return errors.New("admission says no")
			}
			return nil
		})
		return nil
	}
	drop := func(*kit) func(backend.Conn) backend.Conn {
		return func(c backend.Conn) backend.Conn { return &unmarkingConn{c} }
	}
	for name, disturb := range map[string]func(*kit) func(backend.Conn) backend.Conn{"refused": refuse, "dropped": drop} {
		for to, ok := range map[string]bool{"A": false, "D": true} {
			k := newKit(t)
			k.place("A", 1, "r1")
			ctx, cancel := context.WithCancel(t.Context())
			u := k.leader(hook(func(op string, id snapshot.ID) {
				if op == "apply" && id.Name == "a" {
					cancel()
				}
			}))
			if _, err := u.Update(ctx, k.want("B", 2, "r2")); err == nil {
				t.Fatal("the leader was to die")
			}
			_, err := k.leader(disturb(k)).Update(t.Context(), k.want(to, 3, "r3"))
			if ok && err != nil || !ok && !errors.Is(err, backend.ErrPermanent) {
				t.Errorf("%s, to %s: %v", name, to, err)
			}
			if l := k.ledger(); l.Epoch != 3 || l.open() == ok {
				t.Errorf("%s, to %s: %+v", name, to, l)
			}
		}
	}
}

// unmarkingConn is a connection to a member that removes marks from all objects.
type unmarkingConn struct{ backend.Conn }

func (c *unmarkingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if markOn(obj, kitPlacement) != (mark{}) {
		obj = onlyName(snapshot.IDOf(obj))
	}
	return c.Conn.Apply(ctx, obj, o)
}
