package hub

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// partialRig is a watch of runs whose API server says what the test has it say.
type partialRig struct {
	t       *testing.T
	server  *watch.FakeWatcher
	watched watch.Interface
	written written
	// cached is what was last told of, stored what the server has, refusal what it
	// answers instead.
	cached, stored *unstructured.Unstructured
	refusal        error
	reads          int
}

func newPartialRig(t *testing.T) *partialRig {
	t.Helper()
	gvr := clusterScope.gvr(runKind)
	r := &partialRig{t: t, server: watch.NewFake()}
	objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	objects.PrependReactor("get", gvr.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		r.reads++
		if r.refusal != nil {
			return true, nil, r.refusal
		}
		return true, r.stored.DeepCopy(), nil
	})
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	meta := metadatafake.NewSimpleMetadataClient(scheme)
	meta.PrependWatchReactor(gvr.Resource, clienttesting.DefaultWatchReactor(r.server, nil))
	w := &partialWatch{
		kind: clusterScope.gvk(runKind), objects: objects.Resource(gvr), meta: meta.Resource(gvr), written: &r.written,
		seen: func(key) *unstructured.Unstructured { return r.cached },
	}
	var err error
	if r.watched, err = w.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.watched.Stop)
	return r
}

// tell has the server tell of an object, and returns what the watch makes of it; false
// for nothing.
func (r *partialRig) tell(kind watch.EventType, m *metav1.PartialObjectMetadata) (watch.Event, bool) {
	r.t.Helper()
	r.server.Action(kind, m)
	synctest.Wait()
	select {
	case e := <-r.watched.ResultChan():
		return e, true
	default:
		return watch.Event{}, false
	}
}

// runAt is a run of a version, with the status reason.
func runAt(version, reason string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun",
		"metadata": map[string]any{"name": "run", "uid": "u", "resourceVersion": version, "generation": int64(1)},
		"spec":     map[string]any{"placementName": "web"},
		"status":   map[string]any{"reason": reason},
	}}
}

func metadataAt(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "run", UID: "u", ResourceVersion: version, Generation: 1,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager}},
	}}
}

func ownStatus(before, version string) statusMark {
	return statusMark{before: before, version: version, readAgain: map[string]any{"reason": "own"}}
}

// What the hub wrote itself is not read, and everything else is.
func TestAWatchReadsWhatTheHubDidNotWrite(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		event   watch.EventType
		cached  *unstructured.Unstructured
		version string
		change  func(*metav1.PartialObjectMetadata)
		own     statusMark
		reads   int
		want    string // the status
	}{
		"its own status":                    {watch.Modified, runAt("1", "old"), "2", nil, ownStatus("1", "2"), 0, "own"},
		"its own status, labelled before":   {watch.Modified, runAt("1", "old"), "2", func(m *metav1.PartialObjectMetadata) { m.Labels = map[string]string{"a": "b"} }, ownStatus("1", "2"), 0, "own"},
		"another's status":                  {watch.Modified, runAt("1", "old"), "2", nil, ownStatus("0", "1"), 1, "stored"},
		"another's after its own":           {watch.Modified, runAt("1", "old"), "3", nil, ownStatus("1", "2"), 1, "stored"},
		"a status that is not read again":   {watch.Modified, runAt("1", "old"), "2", nil, statusMark{version: "2"}, 1, "stored"},
		"a new object":                      {watch.Added, nil, "2", nil, statusMark{}, 1, "stored"},
		"a spec":                            {watch.Modified, runAt("1", "old"), "2", func(m *metav1.PartialObjectMetadata) { m.Generation = 2 }, ownStatus("1", "2"), 1, "stored"},
		"another object of the name":        {watch.Modified, runAt("1", "old"), "2", func(m *metav1.PartialObjectMetadata) { m.UID = "v" }, ownStatus("1", "2"), 1, "stored"},
		"one that is being deleted":         {watch.Modified, runAt("1", "old"), "2", func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = &now }, ownStatus("1", "2"), 1, "stored"},
		"one of which nothing was told yet": {watch.Modified, nil, "2", nil, ownStatus("1", "2"), 1, "stored"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPartialRig(t)
				r.cached, r.stored = test.cached, runAt("9", "stored")
				m := metadataAt(test.version)
				if test.change != nil {
					test.change(m)
				}
				r.written.note(m.UID, test.own)
				e, ok := r.tell(test.event, m)
				got, is := e.Object.(*unstructured.Unstructured)
				if !ok || !is || e.Type != test.event || r.reads != test.reads {
					t.Fatalf("%v, %v reads, want %v of an object and %v", e, r.reads, test.event, test.reads)
				}
				want := runAt(test.version, test.want) // the version is the one that was told of, whichever was read
				if test.reads == 0 {
					want.SetLabels(m.Labels)
				}
				if diff := gocmp.Diff(want.Object, withoutTimes(got).Object); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func withoutTimes(u *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u
}

// An object of which the hub changed the metadata is what the server answered, in that
// version only and once.
func TestAWatchKnowsWhatTheHubChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPartialRig(t)
		r.cached, r.stored = runAt("1", "old"), runAt("9", "stored")
		r.written.keep(runAt("2", "answered"))
		for _, step := range []struct {
			version, want string
			reads         int
		}{{"2", "answered", 0}, {"2", "stored", 1}, {"3", "stored", 2}} {
			e, _ := r.tell(watch.Modified, metadataAt(step.version))
			got, ok := e.Object.(*unstructured.Unstructured)
			if !ok || r.reads != step.reads {
				t.Fatalf("version %s: %v, %d reads, want %d", step.version, e, r.reads, step.reads)
			}
			if diff := gocmp.Diff(runAt(step.version, step.want).Object, withoutTimes(got).Object); diff != "" {
				t.Errorf("version %s: %s", step.version, diff)
			}
		}
		r.written.keep(runAt("4", "answered"))
		if e, _ := r.tell(watch.Modified, metadataAt("5")); r.reads != 3 {
			t.Errorf("a later version than the one that was answered: %v, %d reads", e, r.reads)
		}
		r.written.forget("u")
		if len(r.written.changed) != 0 {
			t.Error("what is gone is kept")
		}
	})
}

// What the hub did to the metadata of an object wakes no loop, unlike the same done by
// somebody else.
func TestTheHubDoesNotWakeItself(t *testing.T) {
	var s service
	labelled := func(version string) *unstructured.Unstructured {
		u := runAt(version, "old")
		u.SetLabels(map[string]string{"a": "b"})
		return u
	}
	if _, own := s.onlyOwn(runAt("1", "old"), labelled("2")); own {
		t.Error("what somebody did is taken for the hub's own")
	}
	s.written.keep(labelled("2"))
	if s.written.take("u", "2") == nil {
		t.Error("what was kept is not there")
	}
	if k, own := s.onlyOwn(runAt("1", "old"), labelled("2")); !own || k.Name != "run" {
		t.Errorf("what the hub did is taken for somebody's: %v", k)
	}
	if _, own := s.onlyOwn(runAt("1", "old"), labelled("3")); own {
		t.Error("what somebody did after the hub is taken for the hub's own")
	}
	if _, own := s.onlyOwn(runAt("1", "old"), runAt("2", "new")); !own {
		t.Error("a status wakes the loop")
	}
}

// A watch may tell of a write before its answer is there.
func TestAWatchWaitsForAWriteThatIsOnItsWay(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		reads int
	}{{"answered", longestWrite / 2, 0}, {"not answered", 2 * longestWrite, 1}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPartialRig(t)
				r.cached, r.stored = runAt("1", "old"), runAt("2", "stored")
				end := r.written.begin("u")
				go func() {
					time.Sleep(test.after)
					r.written.note("u", ownStatus("1", "2"))
					end()
				}()
				if e, ok := r.tell(watch.Modified, metadataAt("2")); ok {
					t.Fatalf("told of %v before the write had ended", e)
				}
				begun := time.Now()
				e := <-r.watched.ResultChan()
				if waited := time.Since(begun); e.Type != watch.Modified || r.reads != test.reads || waited != min(test.after, longestWrite) {
					t.Errorf("%v after %v, %d reads, want %d", e, waited, r.reads, test.reads)
				}
				time.Sleep(test.after)
			})
		})
	}
}

// Another write of the same object that ended does not end the wait for this one.
func TestWrittenKnowsTheWriteThatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		first, second := w.begin("u"), w.begin("u")
		first()
		begun := time.Now()
		w.settled(t.Context(), "u")
		if waited := time.Since(begun); waited != longestWrite {
			t.Errorf("waited %v, want %v", waited, longestWrite)
		}
		second()
		begun = time.Now()
		w.settled(t.Context(), "u")
		if waited := time.Since(begun); waited != 0 || len(w.writing) != 0 {
			t.Errorf("waited %v, %d writes left", waited, len(w.writing))
		}
	})
}

func TestAWatchTellsWhatIsGoneAndWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPartialRig(t)
		r.refusal = apierrors.NewNotFound(clusterScope.gvr(runKind).GroupResource(), "run")
		if e, ok := r.tell(watch.Modified, metadataAt("2")); ok {
			t.Errorf("an object that is gone meanwhile: %v, want nothing before its end", e)
		}
		e, ok := r.tell(watch.Deleted, metadataAt("3"))
		if u, is := e.Object.(*unstructured.Unstructured); !ok || !is || e.Type != watch.Deleted ||
			u.GetName() != "run" || u.GetUID() != types.UID("u") || u.GetKind() != "ClusterStagedUpdateRun" || u.GetManagedFields() != nil {
			t.Errorf("a deletion: %v", e)
		}
		e, ok = r.tell(watch.Bookmark, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}})
		if u, is := e.Object.(*unstructured.Unstructured); !ok || !is || e.Type != watch.Bookmark || u.GetResourceVersion() != "7" {
			t.Errorf("a bookmark: %v", e)
		}
		r.refusal = apierrors.NewTooManyRequests("later", 1)
		if e, ok = r.tell(watch.Modified, metadataAt("8")); !ok || e.Type != watch.Error || !apierrors.IsTooManyRequests(apierrors.FromObject(e.Object)) {
			t.Errorf("a refusal: %v", e)
		}
		r.refusal = errors.New("connection reset")
		if e, ok = r.tell(watch.Modified, metadataAt("9")); !ok || e.Type != watch.Error || !apierrors.IsInternalError(apierrors.FromObject(e.Object)) {
			t.Errorf("an error: %v", e)
		}
	})
}

// A watch ends with its context, when it is stopped and with the server's, also while
// nobody takes what it tells.
func TestAWatchEnds(t *testing.T) {
	for name, end := range map[string]func(*partialRig){
		"stopped":       func(r *partialRig) { r.watched.Stop() },
		"by the server": func(r *partialRig) { r.server.Stop() },
	} {
		for _, untaken := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newPartialRig(t)
					if untaken {
						r.stored = runAt("2", "stored")
						r.server.Action(watch.Modified, metadataAt("2"))
						synctest.Wait()
					}
					end(r)
					synctest.Wait()
					for range r.watched.ResultChan() {
					}
					if !r.server.IsStopped() {
						t.Error("the server is still watched")
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan watch.Event)
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&partialWatch{}).copy(ctx, make(chan watch.Event), events)
		}()
		cancel()
		<-done
	})
}

// An object is as the hub left it, as long as nobody else changed it.
func TestAnObjectHasTheStatusThatTheHubWroteSince(t *testing.T) {
	for name, test := range map[string]struct {
		mark statusMark
		want *unstructured.Unstructured
	}{
		"written since":            {ownStatus("1", "2"), runAt("2", "own")},
		"written before":           {ownStatus("0", "1"), runAt("1", "old")},
		"written over another one": {ownStatus("2", "3"), runAt("1", "old")},
		"not read again":           {statusMark{before: "1", version: "2"}, runAt("1", "old")},
	} {
		t.Run(name, func(t *testing.T) {
			var w written
			w.note("u", test.mark)
			got := runAt("1", "old")
			w.lay(got)
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
