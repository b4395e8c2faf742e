package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const ep = "example-placement"

func everything() *metav1.LabelSelector { return &metav1.LabelSelector{} }

// declared returns an environment with the tutorial's placement, changed.
func declared(t *testing.T, change func(*fleet.Placement)) (*engineEnv, *fleet.Engine) {
	t.Helper()
	w := newEngineEnv(t)
	e := w.engine(w.store, "one")
	p := tutorialPlacement()
	if change != nil {
		change(&p)
	}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return w, e
}

// holds sets the value in the source.
func (w *engineEnv) holds(value string) {
	w.t.Helper()
	if err := w.source.Put(configMap("test-cm", value)); err != nil {
		w.t.Fatal(err)
	}
}

// capture takes a snapshot of a value.
func (w *engineEnv) capture(e *fleet.Engine, value string) snapshot.Snapshot {
	w.t.Helper()
	w.holds(value)
	return must(e.Placement(ep).Capture(w.t.Context()))(w.t)
}

// Indexes count from 0 and are never used again, even if the content of an existing or a dropped
// snapshot comes back. Unchanged content makes no snapshot and writes nothing.
func TestIndexesCountSnapshots(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit = 3 })
	for want, value := range []string{"a", "b", "a", "c", "d", "e", "a", "b"} {
		s := w.capture(e, value)
		if s.Index != want || s.Placement != ep {
			t.Errorf("snapshot of %s: %+v, want index %d", value, s, want)
		}
		before := dump(t, w.store)
		if again := must(e.Placement(ep).Capture(t.Context()))(t); !reflect.DeepEqual(again, s) {
			t.Errorf("nothing changed, and there is another snapshot: %+v", again)
		}
		if after := dump(t, w.store); len(after) != len(before) || after["placement/"+ep] != before["placement/"+ep] {
			t.Error("a capture of what did not change writes")
		}
	}
	wantIndexes(t, e, ep, 5, 6, 7)
}

// A change of the overrides alone makes a new snapshot.
func TestChangedOverridesMakeASnapshot(t *testing.T) {
	w, e := declared(t, nil)
	first := w.capture(e, "a")
	put := func(value string) {
		p := tutorialPlacement()
		p.Overrides = []placement.Override{replaceFor("canary", value)}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	put("x")
	second := must(e.Placement(ep).Capture(t.Context()))(t)
	put("y")
	third := must(e.Placement(ep).Capture(t.Context()))(t)
	put("x")
	fourth := must(e.Placement(ep).Capture(t.Context()))(t)
	if second.Index != 1 || third.Index != 2 || fourth.Index != 3 || second.Set != first.Set || third.Overrides == second.Overrides || fourth.Digest != second.Digest {
		t.Errorf("snapshots: %+v\n%+v\n%+v\n%+v", first, second, third, fourth)
	}
	wantIndexes(t, e, ep, 0, 1, 2, 3)
	fifth := w.capture(e, "b")
	for i, s := range []snapshot.Snapshot{first, second, third, fourth, fifth} {
		if want := i / 4; s.ObjectsIndex() != want {
			t.Errorf("the objects of snapshot %d have the index %d, want %d", s.Index, s.ObjectsIndex(), want)
		}
	}
}

// Overrides that select none of the objects make no snapshot, alone or with others. They are frozen
// with the first snapshot that has such an object.
func TestOverridesOfNoObjectMakeNoSnapshot(t *testing.T) {
	w, e := declared(t, nil)
	first := w.capture(e, "a")
	elsewhere := replaceFor("canary", "x")
	elsewhere.Name, elsewhere.Selectors = "elsewhere", []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "later"}}
	put := func(overrides ...placement.Override) snapshot.Snapshot {
		t.Helper()
		p := tutorialPlacement()
		p.Overrides = overrides
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return must(e.Placement(ep).Capture(t.Context()))(t)
	}
	if got := put(elsewhere); got.Index != first.Index || got.Overrides != "" {
		t.Errorf("with an override of nothing: %+v, want %+v", got, first)
	}
	second := put(replaceFor("canary", "x"))
	if got := put(elsewhere, replaceFor("canary", "x")); got.Index != second.Index || second.Index != 1 {
		t.Errorf("beside another one: %+v, want %+v", got, second)
	}
	w.puts(configMap("later", "x"))
	third := must(e.Placement(ep).Capture(t.Context()))(t)
	frozen := must(must(e.Placement(ep).View(t.Context()))(t).Overrides(t.Context(), third.Index))(t)
	if third.Index != 2 || len(frozen) != 2 {
		t.Errorf("with its object: %+v has %d overrides, want 2", third, len(frozen))
	}
	wantIndexes(t, e, ep, 0, 1, 2)
}

// With any number of concurrent captures, in any number of engines, every change gets the next
// index, and the latest snapshot is complete.
func TestConcurrentCaptures(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit = 2 })
	engines := []*fleet.Engine{e, w.engine(w.store, "two")}
	var mu sync.Mutex
	byIndex := map[int]string{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 12 {
				if err := w.source.Put(configMap("test-cm", fmt.Sprintf("value-%d-%d", g, i%3))); err != nil {
					t.Error(err)
				}
				s, err := engines[g%2].Placement(ep).Capture(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if d, ok := byIndex[s.Index]; ok && d != s.Digest {
					t.Errorf("index %d is given twice", s.Index)
				}
				byIndex[s.Index] = s.Digest
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var taken []int
	for _, ev := range w.past(7) {
		if ev.Type == stages.SnapshotTaken {
			taken = append(taken, *ev.Index)
		}
	}
	for want, got := range taken {
		if got != want {
			t.Fatalf("snapshots were taken as %v: one is skipped or taken twice", taken)
		}
	}
	kept := indexesOf(t, e, ep)
	if !slices.Equal(kept, taken[len(taken)-len(kept):]) {
		t.Errorf("kept %v of %v", kept, taken)
	}
	wantWhole(t, e, ep)
	t.Logf("%d snapshots", len(taken))
}

// A change of one object out of 10,000 writes its body, a page, a root and the record of the
// placement with the event.
func TestOneChangedObjectOfTenThousand(t *testing.T) {
	w, e := declared(t, nil)
	for i := range 10000 {
		if err := w.source.Put(configMap(fmt.Sprintf("cm-%05d", i), strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
	}
	if s := must(e.Placement(ep).Capture(t.Context()))(t); s.Objects != 10002 {
		t.Fatalf("%d objects", s.Objects)
	}
	if err := w.source.Put(configMap("cm-05000", "changed")); err != nil {
		t.Fatal(err)
	}
	before := dump(t, w.store)
	writes, bytes := w.store.Stats()
	must(e.Placement(ep).Capture(t.Context()))(t)
	writesAfter, bytesAfter := w.store.Stats()
	fresh := map[string]int{}
	for key, value := range dump(t, w.store) {
		if before[key] != value {
			fresh[strings.SplitN(key, "/", 2)[0]]++
		}
	}
	if fresh["content"] != 3 || fresh["placement"] != 1 || len(fresh) != 2 {
		t.Errorf("written: %v, want a body, a page, a root and the placement with the event", fresh)
	}
	if n := writesAfter - writes; n != 4 {
		t.Errorf("%d writes, want 4", n)
	}
	if n := bytesAfter - bytes; n > 64<<10 {
		t.Errorf("%d bytes written", n)
	}
	t.Logf("%d writes, %d bytes", writesAfter-writes, bytesAfter-bytes)
}

// If a snapshot cannot be taken, the error names the placement and the selector, and nothing is
// written.
func TestCaptureErrorsNamePlacementAndSelector(t *testing.T) {
	w := newEngineEnv(t)
	broken := errors.New("connection refused")
	source := snapshot.SourceFunc(func(_ context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		return func(yield func(*unstructured.Unstructured, error) bool) {
			switch q.Kind {
			case "ConfigMap":
				yield(nil, broken)
			case "Secret":
				panic("a source that panics")
			}
		}
	})
	e := must(fleet.New(fleet.Config{Store: w.store, Inventory: w.fleet, Dialer: w.fleet, Source: source}))(t)
	for kind, want := range map[string]string{"ConfigMap": "reading ConfigMap.v1 */only: connection refused", "Namespace": "pick no object that may be placed: Namespace.v1 only", "Secret": "panic"} {
		p := fleet.Placement{Name: "p-" + strings.ToLower(kind), Selectors: []snapshot.Selector{{Version: "v1", Kind: kind, Name: "only"}}}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		err := refused(t, w.store, kind, func() error { _, err := e.Placement(p.Name).Capture(t.Context()); return err }, "placement "+p.Name, strings.Replace(want, "*/", "", 1))
		if kind == "ConfigMap" && !errors.Is(err, broken) {
			t.Errorf("%v does not wrap the source's error", err)
		}
		refused(t, w.store, kind, func() error {
			_, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: p.Name, Strategy: oneStage()})
			return err
		}, "run r", "placement "+p.Name)
	}
	none := must(fleet.New(fleet.Config{Store: w.store, Inventory: w.fleet, Dialer: w.fleet}))(t)
	refused(t, w.store, "no source", func() error { _, err := none.Placement("p-secret").Capture(t.Context()); return err }, "name the index of a snapshot, or give the engine a source")
}

// A placement that may be empty has a snapshot of nothing. A run of it removes all objects from the
// clusters.
func TestCaptureOfNothingWhereItIsAllowed(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.AllowEmpty = true })
	w.capture(e, "a")
	p := must(e.Placement(ep).Get(t.Context()))(t)
	for i := range p.Selectors {
		p.Selectors[i].Name = "elsewhere"
	}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s := w.capture(e, "a")
	if s.Index != 1 || s.Objects != 0 || s.Verify() != nil {
		t.Errorf("the snapshot of nothing is %+v", s)
	}
	if again := w.capture(e, "a"); again.Index != s.Index {
		t.Errorf("nothing changed, and there is snapshot %d", again.Index)
	}
}

// Threat T5: a bit is flipped in the stored data of a snapshot. A run of it is refused with an
// error that names the damaged record, nothing reaches a cluster, and the other placement
// continues.
func TestT5DamagedSnapshotIsNotPlanned(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "x")} })
	s := w.capture(e, "a")
	for key := range dump(t, w.store) {
		if !strings.HasPrefix(key, "content/") {
			continue
		}
		edit(t, w.store, key, damage)
		err := refused(t, w.store, key, func() error {
			_, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: ep, Index: &s.Index, Strategy: oneStage()})
			return err
		}, "run r", ep)
		var digest *snapshot.DigestError
		if !errors.As(err, &digest) || !strings.HasSuffix(key, digest.Want) || !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s is damaged: %v", key, err)
		}
		edit(t, w.store, key, damage)
	}
	if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: ep, Index: &s.Index, Strategy: oneStage()}); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

// PutPlacement, Placement and Snapshots work while others capture and run.
func TestPlacementsAreDeclaredConcurrently(t *testing.T) {
	w, e := declared(t, nil)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 10 {
				p := tutorialPlacement()
				p.HistoryLimit = 1 + (g+i)%5
				if err := e.PutPlacement(t.Context(), p); err != nil {
					t.Error(err)
				}
				_ = w.source.Put(configMap("test-cm", fmt.Sprint(i)))
				if _, err := e.Placement(ep).Capture(t.Context()); err != nil {
					t.Error(err)
				}
				spec := fleet.RunSpec{Name: fmt.Sprintf("r-%d-%d", g, i), Placement: ep, Strategy: oneStage()}
				if _, err := e.CreateRun(t.Context(), spec); err != nil && !errors.Is(err, backend.ErrConflict) {
					t.Error(err)
				}
				if _, err := e.Placement(ep).Get(t.Context()); err != nil {
					t.Error(err)
				}
				if err := e.Run(spec.Name).Delete(t.Context(), forced); err != nil && !errors.Is(err, backend.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantWhole(t, e, ep)
	if runs := must(e.Placement(ep).RunNames(t.Context()))(t); len(runs) != 0 {
		t.Errorf("runs that were deleted: %v", runs)
	}
	if keys := w.keys("plan/"); len(keys) != 0 {
		t.Errorf("plans of runs that were deleted: %v", keys)
	}
}

// replaceFor returns an override of the tutorial's ConfigMap for an environment.
func replaceFor(environment, value string) placement.Override {
	return placement.Override{
		Name: "o", Namespace: "test-namespace",
		Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "test-cm"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: selects(environment)}}},
			Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/data/key", Value: fmt.Appendf(nil, "%q", value)}},
		}},
	}
}

var _ backend.Store = (*memory.Store)(nil)

// The preview of a capture is the same as the capture, with the index that it would have, and
// nothing is written.
func TestPreviewOfACapture(t *testing.T) {
	w, e := declared(t, nil)
	w.holds("a")
	preview := func(want int) (snapshot.Snapshot, []snapshot.Item) {
		t.Helper()
		before := dump(t, w.store)
		s, items, err := e.Placement(ep).PreviewCapture(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Index != want || len(items) != s.Objects {
			t.Errorf("preview: %+v with %d items, want index %d", s, len(items), want)
		}
		if !reflect.DeepEqual(before, dump(t, w.store)) {
			t.Error("a preview writes")
		}
		return s, items
	}
	would, items := preview(0)
	taken := must(e.Placement(ep).Capture(t.Context()))(t)
	if taken.TakenAt = would.TakenAt; !reflect.DeepEqual(would, taken) {
		t.Errorf("previewed %+v, captured %+v", would, taken)
	}
	if got := must(must(e.Placement(ep).View(t.Context()))(t).Items(t.Context(), 0))(t); !reflect.DeepEqual(got, items) {
		t.Errorf("previewed %v, captured %v", items, got)
	}
	preview(0)
	w.holds("b")
	preview(1)
	wantIndexes(t, e, ep, 0)
	if _, _, err := e.Placement("nothing").PreviewCapture(t.Context()); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("no placement: %v", err)
	}
}

// Runs that are created at the same moment with the same content share one snapshot, in any number
// of engines.
func TestRunsCreatedTogetherShareASnapshot(t *testing.T) {
	w, e := declared(t, nil)
	engines := []*fleet.Engine{e, w.engine(w.store, "two")}
	for round := range 5 {
		w.holds(fmt.Sprint("v", round))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				spec := fleet.RunSpec{Name: fmt.Sprintf("r-%d-%d", round, g), Placement: ep, Strategy: oneStage()}
				for {
					s, err := engines[g%2].EnsureRun(t.Context(), spec)
					if errors.Is(err, backend.ErrConflict) {
						continue
					}
					if err != nil || s.Plan.Index != round {
						t.Errorf("run %s: index %d, want %d: %v", spec.Name, s.Plan.Index, round, err)
					}
					return
				}
			})
		}
		wg.Wait()
	}
	wantIndexes(t, e, ep, 0, 1, 2, 3, 4)
}

// A run brings the content that was selected when it was planned, even if the source changes all
// the time: it need not be created again.
func TestRunOfASourceThatChangesAllTheTime(t *testing.T) {
	w := newEngineEnv(t)
	reads := 0
	source := snapshot.SourceFunc(func(context.Context, snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		return func(yield func(*unstructured.Unstructured, error) bool) {
			reads++
			yield(configMap("test-cm", fmt.Sprint("v", reads)), nil)
		}
	})
	e := must(fleet.New(fleet.Config{Store: w.store, Inventory: w.fleet, Dialer: w.fleet, Source: source}))(t)
	p := tutorialPlacement()
	p.Selectors = []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Name: "test-cm", Namespace: "test-namespace"}}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s := must(e.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: ep, Strategy: oneStage()}))(t)
	set := must(must(e.Placement(ep).View(t.Context()))(t).Content(t.Context(), s.Plan.Index))(t)
	if got := string(set.Bodies[0]); reads != 1 || !strings.Contains(got, `"v1"`) {
		t.Errorf("%d reads, and the run has %s", reads, got)
	}
	wantIndexes(t, e, ep, 0)
}
