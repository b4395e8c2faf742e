package fleet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// An engine with a slow clock appends events that are older than the previous ones. They are
// delivered once each, in the order of their commits.
func TestFollowWhenAClockIsBehind(t *testing.T) {
	ctx := t.Context()
	members := memory.NewFleet()
	e, err := New(Config{Store: memory.NewStore(), Inventory: members, Dialer: members})
	if err != nil {
		t.Fatal(err)
	}
	p := Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := e.PutPlacement(ctx, p); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, late := range []int{5, 9, 2, 7, 1} {
		rec, rev, err := e.state.Placement(ctx, "web")
		if err != nil {
			t.Fatal(err)
		}
		ev := stages.Event{Type: stages.SnapshotTaken, Index: &i, Time: at.Add(time.Duration(late) * time.Second)}
		if err := e.state.CommitPlacement(ctx, new(record.Commit), rec, rev, []stages.Event{ev}); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	cursor := ""
	for range 6 {
		f, err := e.Follow(cursor)
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range f.Past(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, *ev.Index)
			break
		}
		cursor = f.Cursor()
	}
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("told one at a time: %v", got)
	}
}

// Wait returns when the end of the run was recorded, so that its caller finds the placement free.
func TestWaitReturnsAfterTheRecordedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, run := endedRun(t)
		ended := make(chan Status, 1)
		go func() {
			s, _ := e.Run("r").Wait(t.Context())
			ended <- s
		}()
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("the run still has a holder, and Wait returned")
		}
		run(func(rr *record.Run) { rr.Lease = record.Lease{} })
		if s := <-ended; s.Run.State != stages.Aborted || s.Holder != "" {
			t.Errorf("%+v", s)
		}
	})
}

// endedRun returns an engine, a run that has ended and still has a holder, and a function that
// changes its record.
func endedRun(t *testing.T) (*Engine, func(func(*record.Run))) {
	members := memory.NewFleet()
	members.Add(placement.Cluster{Name: "c"})
	e, err := New(Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespaceObject("web"))})
	if err != nil {
		t.Fatal(err)
	}
	p := Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	spec := RunSpec{Name: "r", Placement: "web", Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}}
	if _, err := e.CreateRun(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	change := func(do func(*record.Run)) {
		rr, rev, err := e.state.Run(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		do(rr)
		if _, err := e.store.Put(t.Context(), record.RunKey("r"), record.Encode(rr), rev); err != nil {
			t.Fatal(err)
		}
	}
	change(func(rr *record.Run) { rr.Run.State, rr.Lease.Holder = stages.Aborted, "another" })
	return e, change
}

// A follower decodes a record again only after it was written again.
func TestAFollowerDecodesAWriteOnce(t *testing.T) {
	e, change := endedRun(t)
	f, err := e.Follow("")
	if err != nil {
		t.Fatal(err)
	}
	for range f.Past(t.Context()) {
	}
	rec, err := e.store.Get(t.Context(), record.RunKey("r"))
	if err != nil {
		t.Fatal(err)
	}
	unreadable := rec
	unreadable.Value = nil
	if s, err := f.streamOf(unreadable); err != nil || s.placement != "web" || s.key != rec.Key || s.name == "" {
		t.Errorf("of a write that is known: %+v, %v", s, err)
	}
	change(func(rr *record.Run) { rr.Journal.Events += 7 })
	again, err := e.store.Get(t.Context(), record.RunKey("r"))
	if err != nil {
		t.Fatal(err)
	}
	known, _ := f.streamOf(rec)
	if s, err := f.streamOf(again); err != nil || s.head.Events != known.head.Events+7 {
		t.Errorf("of another write: %+v, %v", s, err)
	}
}
