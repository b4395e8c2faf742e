package fleet_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Only the last epoch remains of a deletion that is forgotten.
func TestADeletionIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		old := ledgerOf(w.fleet.Cluster("member2"), ep).Epoch
		deleteAndWait(t, e, fleet.DeleteOptions{Force: true})
		time.Sleep(time.Minute)
		for range 2 {
			if err := e.Placement(ep).ForgetDeletion(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := e.Placement(ep).Deletion(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("deletion %+v, %v", d, err)
		}
		w.declareAgain(e)
		ranTo(t, e, specOf("second", 0), stages.Completed)
		if now := ledgerOf(w.fleet.Cluster("member2"), ep).Epoch; now <= old {
			t.Errorf("epoch %d after %d", now, old)
		}
	})
}

// Ended is set when the deletion can be forgotten, and not before the placement's own record is
// deleted.
func TestADeletionHasEndedWhenItCanBeForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		stop()
		last := false
		drives := w.engine(&hookedStore{w.store, inTurn(turn{"delete placement/", func() {
			last = true
			if d := must(e.Placement(ep).Deletion(t.Context()))(t); !d.Ended.IsZero() {
				t.Errorf("it has ended at %v, and the record of the placement is there", d.Ended)
			}
		}})}, "drives")
		defer running(t, drives)()
		deleteAndWait(t, e, fleet.DeleteOptions{Force: true})
		if err := e.Placement(ep).ForgetDeletion(t.Context()); err != nil || !last {
			t.Errorf("the deletion is forgotten: %v, its last write was seen: %v", err, last)
		}
	})
}

// The run that cleans is an ordinary run: a cluster can be skipped, and an abort leaves the
// remaining clusters.
func TestADeletionCanBeCutShort(t *testing.T) {
	for _, c := range []stages.Command{{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "member2"}, {Verb: stages.Abort}} {
		synctest.Test(t, func(t *testing.T) {
			w, e, stop := rolledOut(t, nil)
			defer stop()
			w.fleet.Hang("member2", true)
			if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			if err := e.Run(must(e.Placement(ep).Deletion(t.Context()))(t).Run).Command(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			d := must(e.Placement(ep).Deletion(t.Context()))(t)
			if d.Ended.IsZero() || d.Skipped != 1 || d.SkippedClusters[0].Name != "member2" || d.SkippedClusters[0].Reason == "" {
				t.Errorf("%s: deletion %+v", c.Verb, d)
			}
			w.wantErased()
		})
	}
}

// A placement that never had a snapshot is deleted at once, without an engine and without an
// inventory, and can be declared again. Impossible options are refused.
func TestADeletionOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		refused(t, w.store, "a deadline", func() error {
			return e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Deadline: metav1.Duration{Duration: -1}, MaxConcurrency: percent("0%")})
		}, "deadline", "maxConcurrency")
		if _, err := e.Placement(ep).Resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		down := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			return func(yield func(placement.Cluster, error) bool) {
				yield(placement.Cluster{}, errors.New("the inventory is down"))
			}
		})
		if err := w.newEngine(fleet.Config{Inventory: down}).Placement(ep).Delete(t.Context(), fleet.DeleteOptions{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		if d := must(e.Placement(ep).Deletion(t.Context()))(t); d.Ended.IsZero() || d.By != "ann" || d.Run != "" || d.Clusters != 0 || d.Skipped != 0 {
			t.Errorf("deletion %+v", d)
		}
		w.wantErased()
		w.declareAgain(e)
		defer running(t, e)()
		ranTo(t, e, specOf("second", 0), stages.Completed)
	})
}

// Whichever write of the deletion fails, before or after it took effect, a repeated call completes
// the deletion, and so does an engine.
func TestAnInterruptedDeletionOfNothing(t *testing.T) {
	for _, fault := range []faulty.Fault{faulty.Before(nil), faulty.After(nil)} {
		for n, failed := 1, true; failed; n++ {
			for _, byAnEngine := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					w, e := declared(t, nil)
					broken := w.engine(faulty.NewPlan(faulty.NthWrite(n, fault)).Store(w.store), "broken")
					failed = broken.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}) != nil
					if byAnEngine {
						defer running(t, e)()
						time.Sleep(time.Minute)
					}
					if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
						t.Errorf("write %d failed: %v", n, err)
					}
					w.wantErased()
				})
			}
		}
	}
}

// A collection may store a note about a failed run creation while all data of a placement is
// deleted. The note is deleted too.
func TestADeletionErasesConcurrentWrites(t *testing.T) {
	for range 20 { // engines work concurrently, and sometimes the collection is too late to store a note
		noted := false
		synctest.Test(t, func(t *testing.T) { noted = noteWhileErased(t) })
		if noted || t.Failed() {
			return
		}
	}
	t.Error("no collection noted anything while a placement was erased")
}

// noteWhileErased reports whether a collection stored something about a placement while all its
// data was deleted.
func noteWhileErased(t *testing.T) (noted bool) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	listed, marked := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(marked) })
	drives := w.engine(&hookedStore{w.store, inTurn(turn{"list watch/", func() {
		close(listed)
		<-marked
	}})}, "drives")
	slow := w.engine(&hookedStore{w.store, inTurn(
		turn{"put placement/", func() { must(0, e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}))(t) }},
		turn{"put placement/", func() {}}, // the run is refused and retired, and a collection begins
		turn{"get placement/", func() {
			t.Cleanup(running(t, drives))
			<-listed
		}},
		turn{"put intent/", func() {}},
		turn{"put placement/", func() {
			noted = true
			release()
			endOfDeletion(t, e)
		}},
	)}, "slow")
	if _, err := slow.CreateRun(t.Context(), specOf("r", 0)); !errors.Is(err, errdef.ErrDeleting) {
		t.Errorf("the run is created: %v", err)
	}
	release()
	time.Sleep(time.Minute)
	w.wantErased()
	return noted
}
