package state

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/snapshot"
)

func rootKey(set snapshot.Set) string { return record.ContentPrefix("p") + set.Digest }

// A collection deletes unused records: contents of no snapshot, plan or binding, and pages
// that the record does not name. Before it deletes anything it raises the generation, so that a
// writer that has not committed yet stores its data again.
func TestCollectionDeletesUnreferencedRecords(t *testing.T) {
	k := on(t, memory.NewStore())
	kept, used, unused := k.content("snapshot"), k.content("plan"), k.content("nothing")
	plan := k.planned(used.Digest)
	p := k.placed(lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest})
	p.Snapshots = []snapshot.Snapshot{{Set: kept.Digest}}
	k.put(record.PlacementKey("p"), record.Encode(p))
	k.recorded("r", plan)
	k.put(record.BindingsPrefix("p")+"old", []byte("{}"))
	k.put(record.SelectionPrefix("p")+"old/0", []byte("{}"))
	collector{k.State}.collect(t.Context(), "p")
	for key, want := range map[string]bool{
		rootKey(kept): true, rootKey(used): true, rootKey(unused): false, PlanKey(plan.Digest): true, record.RunKey("r"): true,
		record.BindingsPrefix("p") + "old": false, record.SelectionPrefix("p") + "old/0": false,
	} {
		if k.has(key) != want {
			t.Errorf("%s is stored: %t", key, !want)
		}
	}
	if p, _, err := k.Placement(t.Context(), "p"); err != nil || p.GCGeneration != 1 {
		t.Errorf("generation %d, %v", p.GCGeneration, err)
	}
	before := k.calls.Writes()
	if (collector{k.State}).collect(t.Context(), "p"); k.calls.Writes() != before {
		t.Error("a collection without garbage writes")
	}
}

// A collection that loses every race for the placement's record is no problem, because the next one
// deletes the rest. Another failure is a warning.
func TestACollectionWarnsOfFailuresOnly(t *testing.T) {
	for text, c := range map[string]struct {
		err   error
		warns bool
	}{
		"a conflict": {backend.ErrConflict, false},
		"an outage":  {errors.New("the store is down"), true},
	} {
		k := on(t, memory.NewStore(), faulty.On(func(c faulty.Call) bool { return c.Op == "put" && c.Key == record.PlacementKey("p") }, faulty.Before(c.err)))
		var log bytes.Buffer
		k.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		k.placed()
		unused := k.content("nothing")
		collector{k.State}.collect(t.Context(), "p")
		if !k.has(rootKey(unused)) || strings.Contains(log.String(), "a placement was not cleaned up") != c.warns {
			t.Errorf("%s: the log is %q, want a warning: %t", text, log.String(), c.warns)
		}
	}
}

// The data of a run that was begun and has no record is deleted by the second collection that finds
// it, because its creator may still be alive. A run that is recorded and not admitted yet keeps its
// data.
func TestACollectionOfRunsThatWereBegun(t *testing.T) {
	k := on(t, memory.NewStore())
	p := k.placed()
	p.Snapshots = []snapshot.Snapshot{{Set: k.content("snapshot").Digest}} // the one of both plans
	k.put(record.PlacementKey("p"), record.Encode(p))
	contentOf := map[string]snapshot.Set{"lost": k.content("lost"), "late": k.content("late")}
	keys := map[string]string{}
	for name, set := range contentOf {
		plan := k.planned(set.Digest)
		keys[name] = PlanKey(plan.Digest)
		rr, _ := k.recorded(name, plan)
		rr.Selection = &lifecycle.Selection{Digest: name}
		k.put(record.RunKey(name), rr.Encode())
		k.put(record.SelectionPrefix("p")+name+"/0", []byte("{}"))
		intent := record.WriteIntent(&rr.Run)
		k.put(intent.Key, intent.Value)
	}
	rr, rev, err := k.Run(t.Context(), "lost")
	if err == nil {
		err = k.under.Delete(t.Context(), record.RunKey("lost"), rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.put("inflight/"+rr.Run.UID+"/1", []byte("{}"))
	for n, there := range []bool{true, false} {
		collector{k.State}.collect(t.Context(), "p")
		if k.has(keys["lost"]) != there || k.has(rootKey(contentOf["lost"])) != there || k.has("inflight/uid-lost/1") != there || !k.has(record.IntentPrefix("p")+"uid-lost") {
			t.Errorf("after collection %d: the plan of the lost run is there: %t, its page: %t", n+1, k.has(keys["lost"]), k.has("inflight/uid-lost/1"))
		}
	}
	if (collector{k.State}).collect(t.Context(), "p"); k.has(record.IntentPrefix("p") + "uid-lost") {
		t.Error("the intent of the lost run is there after its data was deleted")
	}
	for _, key := range []string{keys["late"], record.IntentPrefix("p") + "uid-late", rootKey(contentOf["late"]), record.SelectionPrefix("p") + "late/0"} {
		if !k.has(key) {
			t.Errorf("%s of a recorded run was deleted", key)
		}
	}
}

// A collection deletes only the revisions that it has listed: a content that is stored again after
// that stays.
func TestCollectionKeepsContentStoredAgain(t *testing.T) {
	var k *kit
	var set snapshot.Set
	again := false
	k = on(t, memory.NewStore(), func(c faulty.Call) faulty.Fault {
		if c.Op == "put" && c.Key == record.PlacementKey("p") && !again { // listed, and not deleted yet
			again = true
			root, err := k.under.Get(k.t.Context(), rootKey(set))
			if err != nil {
				t.Error(err)
			}
			k.put(rootKey(set), root.Value)
		}
		return faulty.Fault{}
	})
	set = k.content("x")
	k.placed()
	collector{k.State}.collect(t.Context(), "p")
	if !again || !k.has(rootKey(set)) {
		t.Errorf("stored again: %t, there: %t", again, k.has(rootKey(set)))
	}
}

// If a reference cannot be read, nothing is deleted that it may refer to.
func TestACollectionWithAReferenceThatCannotBeRead(t *testing.T) {
	k := on(t, memory.NewStore())
	unused := k.content("x")
	plan := k.planned("y")
	k.placed(lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest})
	p, _, err := k.Placement(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	p.Snapshots = []snapshot.Snapshot{{Set: "missing"}}
	k.put(record.PlacementKey("p"), record.Encode(p))
	collector{k.State}.collect(t.Context(), "p")
	if !k.has(rootKey(unused)) || !k.has(PlanKey(plan.Digest)) {
		t.Error("something was deleted although a snapshot cannot be read")
	}
}

// A run that cannot be admitted is dropped with its record. A run that was admitted in the meantime
// stays.
func TestARunThatCannotBeAdmittedIsAbandoned(t *testing.T) {
	for _, admitted := range []bool{false, true} {
		k := on(t, memory.NewStore())
		plan := k.planned("x")
		rr, _ := k.recorded("r", plan)
		if k.placed(); admitted {
			k.placed(lifecycle.Run{Name: "r", UID: "uid-r", Plan: plan.Digest})
		}
		err := k.Abandon(t.Context(), rr, ErrIncomplete)
		p, _, perr := k.Placement(t.Context(), "p")
		if perr != nil || err == nil || p.HasRun("uid-r") != admitted || k.has(record.RunKey("r")) != admitted {
			t.Errorf("admitted: %t, recorded: %t, %v, %v", admitted, k.has(record.RunKey("r")), err, perr)
		}
		if gone := IsNotFound(err); gone == admitted {
			t.Errorf("admitted: %t, error: %v", admitted, err)
		}
	}
}

// The run that rolls another back gets the first free name: the host's, or the default if the host
// has none, panics, or repeats itself.
func TestTheNameOfARollback(t *testing.T) {
	long := "a123456789b123456789c123456789d123456789e123456789f123456789g123456789h12345"
	for name, c := range map[string]struct {
		host func(run, title string, n int) string
		run  string
		want string
	}{
		"default":           {run: "r", want: "r-rollback-2"},
		"the host's":        {run: "r", host: func(run, title string, n int) string { return title + run + string(rune('a'+n)) }, want: "trb"},
		"invalid":           {run: "r", host: func(string, string, int) string { return "No!" }, want: "r-rollback-2"},
		"the same again":    {run: "r", host: func(string, string, int) string { return "taken" }, want: "r-rollback-2"},
		"a panic":           {run: "r", host: func(string, string, int) string { panic("x") }, want: "r-rollback-2"},
		"longer than names": {run: long, want: DefaultRollbackName(long, 1)},
	} {
		k := on(t, memory.NewStore())
		k.RollbackNames.host = c.host
		k.put(record.RunKey("r-rollback"), []byte("{}"))
		k.put(record.RunKey("taken"), []byte("{}"))
		if got, err := k.RollbackNames.Free(t.Context(), c.run, "t"); got != c.want || err != nil || len(got) > 63 {
			t.Errorf("%s: %s, want %s, %v", name, got, c.want, err)
		}
	}
}
