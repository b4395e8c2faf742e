package fleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// explains checks what is said of a cluster, and what it is said to wait for.
func explains(t *testing.T, e *fleet.Engine, run, cluster string, state stages.State, want ...string) {
	t.Helper()
	synctest.Wait()
	x, err := e.Explain(t.Context(), run, cluster)
	if err != nil {
		t.Fatal(err)
	}
	text := x.Reason
	for _, a := range x.Waiting {
		text += "; " + string(a.Kind) + " " + a.Name + " " + a.Message
	}
	if x.State != state || x.Run != run || x.Cluster != cluster {
		t.Errorf("%s in run %s is %s, want %s: %s", cluster, run, x.State, state, text)
	}
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%s in run %s: %q, want %q in it", cluster, run, text, part)
		}
	}
	if terminal := state == stages.Completed || state == stages.Failed || state == stages.Skipped; terminal == (len(x.Waiting) > 0) {
		t.Errorf("%s in run %s is %s and waits for %v", cluster, run, state, x.Waiting)
	}
}

// Explain tells of every state what is waited for.
func TestExplainEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		defer running(t, e)()
		ctx := t.Context()
		w.capture(e, "v0")
		spec := fleet.RunSpec{Name: "r", Placement: ep, Index: new(0), Strategy: tutorialStrategy(), Hold: true}
		spec.Strategy.Profile = stages.ClusterUpdate
		spec.Strategy.Stages[1].MaxFailures = percent("100%")
		create(t, e, spec)
		explains(t, e, "r", "member2", stages.NotStarted, "the run is NotStarted", "Start r")

		w.fleet.Hang("member2", true)
		create(t, e, fleet.RunSpec{Name: "first", Placement: ep, Index: new(0), Strategy: tutorialStrategy()})
		synctest.Wait()
		explains(t, e, "first", "member2", stages.Running, "in flight", "Observation member2")
		if err := e.DeleteRun(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		spec.Hold = false
		create(t, e, spec)
		time.Sleep(10 * time.Second)
		explains(t, e, "r", "member2", stages.NotStarted, "the run is Pending", "Run first waits for run first")

		if err := e.DeleteRun(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		w.fleet.Hang("member2", false)
		w.fleet.SetDown("member2", true)
		time.Sleep(time.Minute)
		explains(t, e, "r", "member2", stages.Pending, "to be started again", "cannot be reached")
		w.fleet.SetDown("member2", false)
		time.Sleep(30 * time.Second)
		explains(t, e, "r", "member2", stages.Completed, "proven to be at the plan's revision")
		explains(t, e, "r", "member1", stages.NotStarted, "stage staging is not done", "Time staging timed wait")

		w.fleet.Cluster("member3").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		if err := e.Command(ctx, "r", stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "member1", By: approval.Identity{Name: "ann"}, Message: "broken"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		explains(t, e, "r", "member1", stages.Skipped, "skipped by ann: broken")
		explains(t, e, "r", "member3", stages.Failed, "the store is down")
		if _, err := e.Explain(ctx, "r", "member9"); err == nil || !strings.Contains(err.Error(), "member9 is not in the plan") {
			t.Errorf("a cluster that is not there: %v", err)
		}
		if _, err := e.Explain(ctx, "nobody", "member1"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

// Two runs may have requests of the same name. The run tells them apart, and
// nobody approves for one what was meant for the other.
func TestRequestsOfOneNameAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.AllowCoOwnership = true })
		defer running(t, e)()
		ctx := t.Context()
		other := tutorialPlacement()
		other.Name, other.AllowCoOwnership = "other", true
		if err := e.PutPlacement(ctx, other); err != nil {
			t.Fatal(err)
		}
		w.capture(e, "value1")
		must(e.Capture(ctx, "other"))(t)
		gated := func(run, placement, stage string) fleet.RunSpec {
			return fleet.RunSpec{Name: run, Placement: placement, Index: new(0), Strategy: stages.Strategy{Stages: []stages.Stage{{
				Name: stage, Selector: everything(), MaxConcurrency: percent("100%"), After: []stages.Task{{Type: stages.Approval}},
			}}}}
		}
		create(t, e, gated("a", ep, "b-c"))
		create(t, e, gated("a-b", "other", "c"))
		time.Sleep(time.Minute)
		open := map[string]approval.Request{}
		for _, run := range []string{"a", "a-b"} {
			all := must(e.Requests(ctx, run))(t)
			if len(all) != 1 || all[0].Name != "a-b-c" || all[0].Run != run {
				t.Fatalf("open requests of %s: %+v", run, all)
			}
			open[run] = all[0]
		}
		answer := fleet.Answer{Request: "a-b-c", Verdict: approval.Approve, By: approval.Identity{Name: "ann"}, Binding: open["a-b"].Binding}
		var denied *approval.RefusedError
		if err := e.Decide(ctx, "a", answer); !errors.As(err, &denied) {
			t.Errorf("an answer to the other run's request: %v", err)
		}
		if err := e.Decide(ctx, "a-b", answer); err != nil {
			t.Fatal(err)
		}
		if s := endOf(t, e, "a-b"); s.Run.State != stages.Completed {
			t.Errorf("a-b is %s", s.Run.State)
		}
		is(t, e, "a", stages.Running)
		if err := e.Decide(ctx, "a-b", answer); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a request that was decided: %v", err)
		}
	})
}

// Wait looks at the store when something changes and not otherwise, rides out
// errors, and tells when the run is deleted.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		if _, err := e.Wait(t.Context(), "nobody"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that does not exist: %v", err)
		}
		for _, again := range []bool{false, true} {
			create(t, e, specOf("r", 0))
			ended := make(chan error, 1)
			go func() { _, err := e.Wait(t.Context(), "r"); ended <- err }()
			synctest.Wait()
			if err := e.DeleteRun(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			if again {
				create(t, e, specOf("r", 0))
			}
			if err := <-ended; !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("deleted, and created again %v: %v", again, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		log := &logStore{Store: w.store}
		if _, err := w.engine(log.hooked(), "waits").Wait(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a run that does not end: %v", err)
		}
		if n := log.count(""); n > 600 {
			t.Errorf("waiting for an hour took %d calls of a store that cannot be watched", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		create(t, e, specOf("r", 0))
		flaky := &flakyStore{Store: w.store}
		flaky.down.Store(true)
		ended := make(chan fleet.Status, 1)
		go func() { s, _ := w.engine(flaky, "waits").Wait(t.Context(), "r"); ended <- s }()
		defer running(t, e)()
		time.Sleep(time.Minute)
		flaky.down.Store(false)
		if s := <-ended; s.Run.State != stages.Completed || s.Holder != "" {
			t.Errorf("after the store failed: %+v", s)
		}
	})
}
