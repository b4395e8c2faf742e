package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// rolledOut returns an environment whose clusters have the tutorial's placement.
func rolledOut(t *testing.T, change func(*fleet.Placement)) (*engineEnv, *fleet.Engine, func()) {
	t.Helper()
	w, e := declared(t, change)
	w.capture(e, "v0")
	stop := running(t, e)
	ranTo(t, e, specOf("first", 0), stages.Completed)
	return w, e, stop
}

// deleteAndWait deletes the tutorial's placement and returns the report of the deletion.
func deleteAndWait(t *testing.T, e *fleet.Engine, o fleet.DeleteOptions) fleet.Deletion {
	t.Helper()
	if err := e.Placement(ep).Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return endOfDeletion(t, e)
}

// endOfDeletion waits for the end of a deletion, for an hour at most.
func endOfDeletion(t *testing.T, e *fleet.Engine) (d fleet.Deletion) {
	t.Helper()
	for range 3600 {
		if d = must(e.Placement(ep).Deletion(t.Context()))(t); !d.Ended.IsZero() {
			return d
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("the deletion has not ended: %+v", d)
	return d
}

// wantErased checks that only the report of its deletion is stored of the tutorial's placement.
func (w *engineEnv) wantErased() {
	w.t.Helper()
	quiet()
	for key := range dump(w.t, w.store) {
		if key != "deleted/"+ep && !strings.HasPrefix(key, "engine/") {
			w.t.Errorf("left in the store: %s", key)
		}
	}
}

// wantClean checks that a cluster has only the objects from before the placement, and no ledger.
func (w *engineEnv) wantClean(clusters ...string) {
	w.t.Helper()
	for _, name := range clusters {
		for _, obj := range w.fleet.Cluster(name).List("") {
			if n := obj.GetName(); n != "kube-system" && n != "default" && n != "slipway-system" {
				w.t.Errorf("cluster %s has %s", name, snapshot.IDOf(obj))
			}
		}
	}
}

// A deleted placement is removed from all clusters, with its ledgers, and from the store.
func TestADeletedPlacementGoesFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		d := deleteAndWait(t, e, fleet.DeleteOptions{By: "ann"})
		if d.Clusters != 3 || d.Done != 3 || d.Skipped != 0 || d.By != "ann" || d.Since.IsZero() {
			t.Errorf("deletion %+v", d)
		}
		time.Sleep(time.Minute)
		w.wantClean("member1", "member2", "member3")
		w.wantErased()
		if _, err := e.Placement(ep).Get(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("the placement is there: %v", err)
		}
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
			t.Errorf("deleting it again: %v", err)
		}
		if err := e.Placement("none").Delete(t.Context(), fleet.DeleteOptions{}); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("deleting another one: %v", err)
		}
	})
}

// A placement that is being deleted refuses all other requests, and says why.
func TestPlacementBeingDeletedRefusesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		w.fleet.Hang("member2", true)
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		ctx := t.Context()
		for what, do := range map[string]func() error{
			"PutPlacement":   func() error { return e.PutPlacement(ctx, tutorialPlacement()) },
			"Capture":        func() error { return second1(e.Placement(ep).Capture(ctx)) },
			"Resolve":        func() error { return second1(e.Placement(ep).Resolve(ctx)) },
			"Preview":        func() error { return second1(e.Preview(ctx, specOf("r", 0))) },
			"CreateRun":      func() error { return second1(e.CreateRun(ctx, specOf("r", 0))) },
			"CatchUp":        func() error { return second1(e.Run("first").CatchUp(ctx, "r", approval.Identity{})) },
			"ForgetDeletion": func() error { return e.Placement(ep).ForgetDeletion(ctx) },
		} {
			err := do()
			if e, ok := errors.AsType[*errdef.Error](err); !ok || !errors.Is(err, errdef.ErrDeleting) || e.Kind != errdef.Placement || e.Name != ep {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := e.Placement(ep).Delete(ctx, fleet.DeleteOptions{Policy: placement.Abandon}); err != nil {
			t.Errorf("asked again: %v", err)
		}
		if d := must(e.Placement(ep).Deletion(ctx))(t); d.Orphan || !d.Ended.IsZero() || d.Done != 2 || d.Clusters != 3 {
			t.Errorf("deletion %+v", d)
		}
	})
}

// A deletion supersedes all earlier runs: the active run, a waiting run, a run that was never
// started and a stopped run.
func TestADeletionSupersedesAllRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		w.capture(e, "v1")
		w.fleet.Hang("member1", true)
		must(e.CreateRun(t.Context(), specOf("active", 1)))(t)
		must(e.CreateRun(t.Context(), specOf("waits", 1)))(t)
		held := specOf("held", 1)
		held.Hold = true
		must(e.CreateRun(t.Context(), held))(t)
		time.Sleep(time.Second)
		f := must(e.Placement(ep).Follow(""))(t)
		var events []stages.Event
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ev, err := range f.Events(ctx) {
				if err == nil {
					events = append(events, ev)
				}
			}
		}()
		before := dump(t, w.store)
		err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{})
		if _, refused := errors.AsType[*stages.RefusedError](err); !refused || err.Error() != "placement example-placement has run active, which is Running: stop or abort it first, or force the deletion" {
			t.Errorf("a deletion that is not forced: %v", err)
		}
		if diff := cmp.Diff(before, dump(t, w.store)); diff != "" {
			t.Errorf("a refused deletion writes:\n%s", diff)
		}
		for range 2 { // a repeated call changes nothing
			if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
			t.Errorf("a repeated call that is not forced: %v", err)
		}
		time.Sleep(time.Second)
		w.fleet.Hang("member2", true) // when member2 is cleaned, the deletion ends and removes the runs and their events
		w.fleet.Hang("member1", false)
		time.Sleep(time.Minute)
		w.fleet.Hang("member2", false)
		if d := endOfDeletion(t, e); d.Done != 3 {
			t.Errorf("deletion %+v", d)
		}
		time.Sleep(time.Minute)
		w.wantClean("member1", "member2", "member3")
		w.wantErased()
		cancel()
		<-done
		ended := map[string]stages.EventType{}
		for _, ev := range events {
			switch ev.Type {
			case stages.RunSuperseded, stages.RunCompleted, stages.PlacementDeleting, stages.PlacementDeleted:
				ended[ev.Run] = ev.Type
			case stages.CommandRefused:
				t.Errorf("refused: %+v", ev)
			}
		}
		want := map[string]stages.EventType{"first": stages.RunCompleted, "active": stages.RunSuperseded, "waits": stages.RunSuperseded, "held": stages.RunSuperseded, "": stages.PlacementDeleted}
		for run, how := range want {
			if ended[run] != how {
				t.Errorf("run %q ends by %s, want %s", run, ended[run], how)
			}
		}
	})
}

// A cluster that is down forever delays the deletion up to the deadline, and the report names it.
// When it comes back, the objects left there are still fenced, and a new placement of that name
// takes them over.
func TestDeletionSkipsUnreachableClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		w.fleet.Hang("member2", true)
		began := time.Now()
		d := deleteAndWait(t, e, fleet.DeleteOptions{Deadline: metav1.Duration{Duration: 3 * time.Minute}})
		if took := time.Since(began); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("it took %v", took)
		}
		if d.Done != 2 || d.Skipped != 1 || len(d.SkippedClusters) != 1 || d.SkippedClusters[0].Name != "member2" || !strings.Contains(d.SkippedClusters[0].Reason, "3m0s") {
			t.Errorf("deletion %+v", d)
		}
		w.wantClean("member1", "member3")
		time.Sleep(time.Minute)
		w.wantErased()
		w.wantDeleted("left on member2: ")
		w.fleet.Hang("member2", false)
		old := ledgerOf(w.fleet.Cluster("member2"), ep)
		w.holds("v1")
		w.declareAgain(e)
		ranTo(t, e, specOf("second", 0), stages.Completed)
		if now := ledgerOf(w.fleet.Cluster("member2"), ep); now.Epoch <= old.Epoch || now.Run != "second" || w.value("member2") != "v1" {
			t.Errorf("the ledger was %+v, is %+v", old, now)
		}
		if d := deleteAndWait(t, e, fleet.DeleteOptions{}); d.Done != 3 || d.Skipped != 0 {
			t.Errorf("the second deletion %+v", d)
		}
		w.wantClean("member1", "member2", "member3")
	})
}

// wantDeleted checks that exactly one event reports that the placement is gone.
func (w *engineEnv) wantDeleted(message string) {
	w.t.Helper()
	n := 0
	for _, ev := range w.past(1) {
		if ev.Type == stages.PlacementDeleted {
			n++
			if !strings.HasPrefix(ev.Message, message) || ev.Placement != ep {
				w.t.Errorf("event %+v", ev)
			}
		}
	}
	if n != 1 {
		w.t.Errorf("it is told %d times that the placement is gone", n)
	}
}

func (w *engineEnv) declareAgain(e *fleet.Engine) {
	w.t.Helper()
	w.declare(e, tutorialPlacement())
	if _, err := e.Placement(ep).Deletion(w.t.Context()); !errors.Is(err, backend.ErrNotFound) {
		w.t.Errorf("a deletion of a placement that was declared again: %v", err)
	}
	if s := must(e.Placement(ep).Capture(w.t.Context()))(w.t); s.Index != 0 {
		w.t.Errorf("its first snapshot is %d", s.Index)
	}
}

// A cluster that left the inventory does not delay the deletion, and the report names it.
func TestADeletionReportsClustersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		w.fleet.Remove("member3")
		time.Sleep(time.Minute)
		d := deleteAndWait(t, e, fleet.DeleteOptions{})
		want := []fleet.UncleanedCluster{{Name: "member3", Reason: "the inventory does not have the cluster: what was placed there was left"}}
		if diff := cmp.Diff(want, d.SkippedClusters); diff != "" || d.Done != 2 || d.Clusters != 3 {
			t.Errorf("deletion %+v\n%s", d, diff)
		}
		time.Sleep(time.Minute)
		w.wantErased()
	})
}

// A deletion releases adopted objects: an adopted namespace stays with its other contents, and the
// objects that the placement created in it are deleted.
func TestDeletionReleasesAdoptedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("theirs", "x")} {
			if err := w.fleet.Cluster("member1").Update(obj); err != nil {
				t.Fatal(err)
			}
		}
		before := w.objects()["member1"]
		w.capture(e, "v0")
		defer running(t, e)()
		ranTo(t, e, specOf("first", 0), stages.Completed)
		if d := deleteAndWait(t, e, fleet.DeleteOptions{}); d.Done != 3 {
			t.Errorf("deletion %+v", d)
		}
		w.wantClean("member2", "member3")
		if diff := cmp.Diff(before, without(w.objects()["member1"], "slipway-system")); diff != "" {
			t.Errorf("member1 (-before +after):\n%s", diff)
		}
	})
}

// without returns the elements of all that do not contain part.
func without(all []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Contains(s, part) })
}

// An orphaning deletion keeps the objects and removes every trace of the placement from them.
func TestAnOrphaningDeletionLeavesTheObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		if d := deleteAndWait(t, e, fleet.DeleteOptions{Policy: placement.Abandon}); d.Done != 3 || !d.Orphan {
			t.Errorf("deletion %+v", d)
		}
		for _, name := range []string{"member1", "member2", "member3"} {
			if v := w.value(name); v != "v0" {
				t.Errorf("%s has %s", name, v)
			}
			for _, obj := range w.fleet.Cluster(name).List("") {
				if text := fmt.Sprint(obj.Object); strings.Contains(text, "slipway.dev") || strings.Contains(text, "slipway/") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
		time.Sleep(time.Minute)
		w.wantErased()
	})
}

// A deletion waits for an object with a foreign finalizer. Until the object is gone, its ledger
// stays, and so do other objects that its removal may need.
func TestADeletionWaitsForFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		finalize := func(with []string) {
			obj := must(w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}))(t)
			obj.SetFinalizers(with)
			if err := w.fleet.Cluster("member1").Update(obj); err != nil {
				t.Fatal(err)
			}
		}
		finalize([]string{"example.com/slow"})
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if l := ledgerOf(w.fleet.Cluster("member1"), ep); l.Phase != "Applying" || l.Target != "" {
			t.Errorf("ledger %+v", l)
		}
		if ns := must(w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "Namespace", Name: "test-namespace"}))(t); ns.GetDeletionTimestamp() != nil {
			t.Error("the namespace is deleted before what is in it is gone")
		}
		finalize(nil)
		if d := endOfDeletion(t, e); d.Done != 3 {
			t.Errorf("deletion %+v", d)
		}
		w.wantClean("member1")
	})
}

// If a finalizer blocks an object beyond the deadline, the object stays with other objects that its
// removal may need, and the report names it.
func TestDeletionNamesObjectsBlockedByFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		obj := must(w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}))(t)
		obj.SetFinalizers([]string{"example.com/never"})
		if err := w.fleet.Cluster("member1").Update(obj); err != nil {
			t.Fatal(err)
		}
		d := deleteAndWait(t, e, fleet.DeleteOptions{Deadline: metav1.Duration{Duration: 3 * time.Minute}})
		if d.Done != 2 || len(d.SkippedClusters) != 1 || d.SkippedClusters[0].Name != "member1" ||
			!strings.Contains(d.SkippedClusters[0].Reason, "ConfigMap.v1 test-namespace/test-cm is still there, its deletion waits for finalizer example.com/never") {
			t.Errorf("deletion %+v", d)
		}
	})
}

// If a finalizer blocks a namespace on a cluster, the deletion of its placement waits up to the
// deadline. Then the reason names the object that is left, and the finalizer.
func TestADeletionWaitsForATerminatingNamespace(t *testing.T) {
	for name, freed := range map[string]bool{"until it is gone": true, "until the deadline": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e, stop := rolledOut(t, nil)
				defer stop()
				c := w.fleet.Cluster("member2")
				hold := func(finalizers ...string) {
					t.Helper()
					ns, err := c.Get(snapshot.IDOf(namespace("test-namespace")))
					if err != nil {
						t.Fatal(err)
					}
					ns.SetFinalizers(finalizers)
					must(0, c.Update(ns))(t)
				}
				hold("example.com/hold")
				must(0, e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Deadline: metav1.Duration{Duration: 10 * time.Minute}}))(t)
				time.Sleep(5 * time.Minute)
				if d := must(e.Placement(ep).Deletion(t.Context()))(t); !d.Ended.IsZero() || d.Done != d.Clusters-1 {
					t.Fatalf("after five minutes: %+v", d)
				}
				if freed {
					hold()
				}
				d := endOfDeletion(t, e)
				if freed != (d.Skipped == 0) || freed != (len(d.SkippedClusters) == 0) {
					t.Fatalf("%+v", d)
				}
				if freed {
					w.wantClean("member2")
					return
				}
				if why := d.SkippedClusters[0].Reason; !strings.Contains(why, "Namespace.v1 test-namespace is still there, its deletion waits for finalizer example.com/hold") {
					t.Errorf("the reason is %q", why)
				}
			})
		})
	}
}
