package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// inAll returns a run of all stages of fourStages that can be rolled back.
func inAll(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: ep, Strategy: inStages(&stages.RollbackPolicy{}, 1, 2, 3, 4)}
}

// everywhere returns the values of fourStages with the same value on all clusters.
func everywhere(value string) map[string]string {
	out := map[string]string{}
	for _, c := range []string{"s1a", "s1b", "s2a", "s2b", "s3a", "s3b", "s4a", "s4b"} {
		out[c] = value
	}
	return out
}

func wantValues(t *testing.T, w *engineEnv, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, w.values()); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
}

// A run that has ended is rolled back once on command, however often that is requested, even if
// only the earlier content of the clusters is left of older runs and snapshots. A rollback run
// cannot be rolled back, nor can a run that other runs have followed.
func TestRollbackOnCommandOfARunThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, func(p *fleet.Placement) { p.HistoryLimit, p.RunHistory = 1, 2 })
		ann := fleet.RollbackOptions{By: approval.Identity{Name: "ann"}, Reason: "too slow"}
		for i, value := range []string{"v0", "v1", "v2"} {
			w.holds(value)
			ranTo(t, e, inAll([]string{"r0", "r1", "r2"}[i]), stages.Completed)
		}
		for i := range 5 {
			w.capture(e, "later"+string(rune('0'+i)))
		}
		w.fleet.Hang("s1a", true) // the rollback is still in progress at the second request
		name := must(e.Run("r2").Rollback(t.Context(), ann))(t)
		if again := must(e.Run("r2").Rollback(t.Context(), ann))(t); name != "r2-rollback" || again != name {
			t.Errorf("the names are %s and %s", name, again)
		}
		w.fleet.Hang("s1a", false)
		back := endOfRollback(t, e, "r2")
		quiet()
		if back.Run.State != stages.Completed || back.Run.Starter.Name != "ann" || back.Plan.Index != 1 {
			t.Errorf("%s is %s of index %d by %s", name, back.Run.State, back.Plan.Index, back.Run.Starter.Name)
		}
		wantValues(t, w, everywhere("v1"))
		for what, run := range map[string]string{"rolls back run r2 itself": "r2-rollback", "does not exist": "missing"} {
			refused(t, w.store, what, func() error { _, err := e.Run(run).Rollback(t.Context(), ann); return err }, what)
		}
		refused(t, w.store, "a name of another object", func() error {
			_, err := e.Run("r2-rollback").Rollback(t.Context(), fleet.RollbackOptions{Name: "No Name"})
			return err
		}, "a lowercase RFC 1123 subdomain")
	})
}

// An impossible rollback is an error with a reason, and changes nothing.
func TestRollbackIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		wants := func(run string, want ...string) {
			t.Helper()
			quiet()
			err := refused(t, w.store, run, func() error { _, err := e.Run(run).Rollback(t.Context(), fleet.RollbackOptions{}); return err }, want...)
			if errors.Is(err, backend.ErrNotFound) {
				t.Error(err)
			}
		}
		ranTo(t, e, fleet.RunSpec{Name: "plain", Placement: ep, Strategy: inStages(nil, 1, 2, 3, 4)}, stages.Completed)
		wants("plain", "its strategy has no rollback")
		w.holds("v1")
		ranTo(t, e, inAll("r1"), stages.Completed)
		w.holds("v2")
		ranTo(t, e, inAll("r2"), stages.Completed)
		wants("r1", "run r2 has changed clusters since")
		held := inAll("held")
		held.Hold = true
		create(t, e, held)
		wants("held", "has not changed anything yet: delete it")
		must(0, e.Run("held").Delete(t.Context(), forced))(t)
		w.fleet.Hang("s1a", true)
		w.holds("v3")
		create(t, e, inAll("r3"))
		time.Sleep(time.Minute + time.Second) // nothing renews a lease just then
		wants("r2", "run r3 has placement example-placement")
		w.fleet.Hang("s1a", false)
		endOf(t, e, "r3")
		wants("r2", "run r3 has changed clusters since")
		if err := e.Run("r3").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		wants("r2", "the revisions that the clusters had before it are not known")
	})
}

// While no engine runs, a requested rollback is only recorded. A repeated request changes nothing,
// and its preview is the same.
func TestARecordedRollbackIsRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fourStages(t)
		e := w.engine(w.store, "one")
		must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
		stop := running(t, e)
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.holds("v1")
		spec := inAll("r1")
		spec.Strategy.Stages[2].Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
		create(t, e, spec)
		time.Sleep(time.Minute)
		stop()
		want := must(e.Run("r1").PreviewRollback(t.Context()))(t)
		must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{Name: "undo"}))(t)
		before := dump(t, w.store)
		if p := must(e.Run("r1").PreviewRollback(t.Context()))(t); p.Digest != want.Digest {
			t.Errorf("the preview after the request is %+v, want %+v", p, want)
		}
		if again := must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{Name: "other"}))(t); again != "undo" {
			t.Errorf("the repeated request is for %s, want undo", again)
		}
		if d := cmp.Diff(before, dump(t, w.store)); d != "" {
			t.Errorf("the repeated request changes the store:\n%s", d)
		}
	})
}

// A running run is ended and rolled back, before all waiting runs. The rollback needs its own
// approval, and its run can be stopped and resumed.
func TestRollbackOnCommandOfARunningRun(t *testing.T) {
	for _, profile := range []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := rolling(t, nil)
				ranTo(t, e, inAll("r0"), stages.Completed)
				w.holds("v1")
				spec := inAll("r1")
				spec.Strategy.Profile = profile
				spec.Strategy.Rollback.Approval = &approval.Policy{}
				spec.Strategy.Stages[2].Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
				create(t, e, spec)
				create(t, e, inAll("waits"))
				time.Sleep(time.Minute)
				wantValues(t, w, map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v1", "s2b": "v1", "s3a": "v0", "s3b": "v0", "s4a": "v0", "s4b": "v0"})
				if p := must(e.Run("r1").PreviewRollback(t.Context()))(t); len(p.Clusters) != 4 || p.Clusters[0].Name != "s2b" {
					t.Errorf("the preview has %+v", p.Clusters)
				}
				must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{Name: "undo", By: approval.Identity{Name: "ann"}}))(t)
				ended := waitFor(t.Context(), e, "r1")
				time.Sleep(time.Minute)
				if s := must(e.Run("r1").Status(t.Context()))(t); s.Run.State != stages.Failed || s.Run.Form(runstate.Key{}).RollbackRequest.Cause != stages.OnCommand {
					t.Errorf("r1 is %s, %+v", s.Run.State, s.Run.Form(runstate.Key{}).RollbackRequest)
				}
				if len(ended) > 0 {
					t.Error("the rollback waits for its approval, and the run is waited for no more")
				}
				if s := endOf(t, e, "waits"); s.Run.State != stages.Superseded {
					t.Errorf("waits is %s", s.Run.State)
				}
				w.fleet.Hang("s1b", true)
				must(0, e.Run("undo").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: "undo-before-s2", By: approval.Identity{Name: "bob"}, Decision: &approval.Decision{Verdict: approval.Approve}}))(t)
				time.Sleep(time.Minute)
				command(t, e, "undo", stages.Stop)
				time.Sleep(10 * time.Minute)
				if s := must(e.Run("undo").Status(t.Context()))(t); s.Run.State != stages.Stopped {
					t.Errorf("undo is %s: %s", s.Run.State, s.Run.Reason)
				}
				w.fleet.Hang("s1b", false)
				command(t, e, "undo", stages.Start)
				if s := endOf(t, e, "undo"); s.Run.State != stages.Completed {
					t.Errorf("undo is %s: %s", s.Run.State, s.Run.Reason)
				}
				wantValues(t, w, everywhere("v0"))
				err := e.Run("r1").Command(t.Context(), stages.Command{Verb: stages.Start})
				time.Sleep(time.Minute)
				if s := must(e.Run("r1").Status(t.Context()))(t); err == nil || s.Run.State != stages.Failed {
					t.Errorf("r1 was started again: %v: it is %s", err, s.Run.State)
				}
			})
		})
	}
}

// A rollback run that fails stops, and is not rolled back itself. A second request completes its
// work and changes nothing else.
func TestFailureDuringARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.failsAt("s4a", "v1")
		w.failsAt("s2a", "v0")
		w.holds("v1")
		create(t, e, inAll("r1"))
		if back := endOfRollback(t, e, "r1"); back.Run.State != stages.Failed || back.Run.Form(runstate.Key{}).RollbackRequest != nil {
			t.Fatalf("it is %s, %+v", back.Run.State, back.Run.Form(runstate.Key{}).RollbackRequest)
		}
		time.Sleep(time.Hour)
		want := everywhere("v0")
		want["s1a"], want["s1b"], want["s2a"] = "v1", "v1", "v1"
		wantValues(t, w, want)
		w.fleet.Cluster("s2a").Refuse(nil)
		if name := must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{}))(t); name != "r1-rollback-2" {
			t.Errorf("it is called %s", name)
		}
		back := endOfRollback(t, e, "r1")
		if d := cmp.Diff([]string{"s2a", "s1b", "s1a"}, order(t, e, back.Run.Name)); d != "" || back.Run.State != stages.Completed {
			t.Errorf("it is %s, and began to work on:\n%s", back.Run.State, d)
		}
		wantValues(t, w, everywhere("v0"))
		const why = "every cluster has what it had before run r1, because run r1-rollback-2 rolled it back"
		refused(t, w.store, "a preview of what is taken back", func() error { _, err := e.Run("r1").PreviewRollback(t.Context()); return err }, why)
		refused(t, w.store, "a run that is taken back", func() error { _, err := e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{}); return err }, why)
	})
}

// Neither a rollback nor a run of an older index brings a cluster back past an irreversible
// snapshot. The rollback names the cluster. Other clusters are rolled back.
func TestNothingIsRolledBackPastAnIrreversibleSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		ctx := t.Context()
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.holds("v1")
		ranTo(t, e, fleet.RunSpec{Name: "r1", Placement: ep, Strategy: inStages(&stages.RollbackPolicy{}, 1)}, stages.Completed)
		for range 2 {
			must(0, e.Placement(ep).SetIrreversible(ctx, 1, true, "ann"))(t)
		}
		if d := cmp.Diff([]int{1}, irreversible(t, e, ep)); d != "" {
			t.Error(d)
		}
		refused(t, w.store, "no snapshot", func() error { return e.Placement(ep).SetIrreversible(ctx, 7, true, "ann") }, "example-placement-7-snapshot does not exist")
		older := inAll("older")
		older.Index = new(0)
		refused(t, w.store, "an older index", func() error { _, err := e.CreateRun(ctx, older); return err },
			"snapshot 0 would take 2 clusters, the first s1a, back past snapshot 1, which is irreversible")
		refused(t, w.store, "a run that brought it", func() error { _, err := e.Run("r1").Rollback(ctx, fleet.RollbackOptions{}); return err },
			"run r1 cannot be rolled back: of the clusters that run r1 may have changed 2 keep their revision: snapshot 1 is irreversible")
		w.holds("v2")
		w.failsAt("s4a", "v2")
		create(t, e, inAll("r2"))
		back := endOfRollback(t, e, "r2")
		want := map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v2", "s2b": "v2", "s3a": "v2", "s3b": "v2", "s4a": "v0", "s4b": "v2"}
		wantValues(t, w, want)
		kept := []stages.KeptClusters{{Reason: "snapshot 1 is irreversible", Count: 6, Clusters: []string{"s2a", "s2b", "s3a", "s3b", "s4a", "s4b"}}}
		if d := cmp.Diff(kept, back.Plan.Rollback.Kept); d != "" || back.Run.State != stages.Completed {
			t.Errorf("%s keeps (-want +got):\n%s", back.Run.State, d)
		}
		_, err := e.Run(back.Run.Name).Explain(ctx, "s2a")
		if want := "it stays as run r2 left it: snapshot 1 is irreversible"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("explanation: %v", err)
		}
		w.holds("v3")
		w.failsAt("s1a", "v3")
		must(0, e.Placement(ep).SetIrreversible(ctx, w.capture(e, "v3").Index, true, "ann"))(t)
		create(t, e, inAll("r3"))
		endOf(t, e, "r3")
		time.Sleep(time.Minute)
		if b := must(e.Run("r3").RollbackStatus(ctx))(t); b.By != "" || !strings.Contains(b.Refused, "is irreversible") {
			t.Errorf("r3: %+v", b)
		}
		if x := must(e.Run("r3").Explain(ctx, "s1b"))(t); !strings.Contains(x.Reason, "it is not, because of the clusters that run r3") {
			t.Errorf("explanation: %s", x.Reason)
		}
		w.fleet.Cluster("s1a").Refuse(nil)
		must(0, e.Placement(ep).SetIrreversible(ctx, 3, false, "ann"))(t)
		must(0, e.Placement(ep).SetIrreversible(ctx, 1, false, "ann"))(t)
		ranTo(t, e, older, stages.Completed)
	})
}
