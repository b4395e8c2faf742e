package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// skew makes the lease of a run look as if the clock of its holder were wrong.
func (w *world) skew(run string, until time.Time) {
	w.t.Helper()
	for {
		err := fleet.SkewLease(w.t.Context(), w.store, run, until)
		if err == nil {
			return
		}
		if !errors.Is(err, backend.ErrConflict) {
			w.t.Fatal(err)
		}
	}
}

// Threat T15: a lease that seems to have ended long ago is taken from an
// engine that lives. Both are safe: nothing is done twice, one of them lets go.
func TestT15LeaseInThePast(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := smallWorld(t, 6)
			for i := range 6 {
				w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return 100 * time.Millisecond })
			}
			rec, feed := newRecorder(w.fleet), w.follow(true)
			defer feed.stop()
			a := w.newEngine(fleet.Config{Name: "A", Dialer: rec.dialer("A")})
			b := w.newEngine(fleet.Config{Name: "B", Dialer: rec.dialer("B")})
			w.declare(a, smallPlacement("p"))
			w.create(a, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
			stopA := running(t, a)
			time.Sleep(time.Duration(50+at*300) * time.Millisecond)
			w.skew("r", time.Now().Add(-time.Hour))
			stopB := running(t, b)
			feed.end("r")
			settle()
			stopA()
			stopB()
			feed.read()
			oneAtATime(t, feed.events)
			w.wantStates("r", stages.Completed, stages.Completed, stages.Completed, stages.Completed, stages.Completed, stages.Completed)
			appliedOnce(t, rec.all())
			w.tidy()
		})
	}
}

// appliedOnce checks that no object was changed twice.
func appliedOnce(t *testing.T, changes []change) {
	t.Helper()
	seen := map[string]change{}
	for _, c := range changes {
		if first, twice := seen[c.Cluster+c.Object]; twice && c.Op == "write" {
			t.Errorf("%s, and before %s", c, first)
		}
		if c.Op == "write" {
			seen[c.Cluster+c.Object] = c
		}
	}
}

// A lease that ends in an hour, of an engine that is gone, delays the others;
// the engine itself goes on at once when it starts again.
func TestT15LeaseInTheFuture(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"A", "B"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := smallWorld(t, 2)
				c := newCrowd(t, w)
				defer c.feed.stop()
				host := w.newEngine(fleet.Config{})
				w.declare(host, smallPlacement("p"))
				w.create(host, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: time.Minute})})
				c.start("A")
				c.feed.of("r", stages.WaitStarted)
				c.kill("A")
				at := time.Now()
				w.skew("r", at.Add(time.Hour))
				c.start(again)
				c.movedBy([]string{"r"}, "the engine that died", at, map[string]time.Duration{"A": time.Second, "B": time.Hour + 5*time.Second}[again])
				c.feed.end("r")
				c.end(again)
				c.feed.read()
				oneAtATime(t, c.feed.events)
			})
		})
	}
}

// A timed wait ends when it would have, whoever was there meanwhile.
func TestT15WaitSurvivesRestart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ dead, back, want time.Duration }{
		"back in time": {4 * time.Minute, 7 * time.Minute, 10 * time.Minute},
		"back late":    {4 * time.Minute, 15 * time.Minute, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := smallWorld(t, 2)
				c := newCrowd(t, w)
				defer c.feed.stop()
				host := w.newEngine(fleet.Config{})
				w.declare(host, smallPlacement("p"))
				w.create(host, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: 10 * time.Minute})})
				c.start("A")
				began := c.feed.of("r", stages.WaitStarted).Time
				time.Sleep(time.Until(began.Add(tc.dead)))
				c.kill("A")
				time.Sleep(time.Until(began.Add(tc.back)))
				c.start("B")
				ended := c.feed.of("r", stages.WaitEnded).Time.Sub(began)
				if ended < tc.want || ended > tc.want+time.Second {
					t.Errorf("the wait ended after %v, want %v", ended, tc.want)
				}
				c.feed.end("r")
				c.end("B")
			})
		})
	}
}

// A cluster that fell ill while no engine was there is not done because its
// time is over; its soak starts again.
func TestSoakThatNobodyWatchedProvesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 1)
		feed := w.follow(true)
		defer feed.stop()
		one := w.newEngine(fleet.Config{Name: "one", Prober: probed})
		strategy := allAtOnce(1)
		strategy.MinHealthy = 5 * time.Minute
		w.declare(one, smallPlacement("p"))
		w.create(one, fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy})
		stop := running(t, one)
		feed.of("r", stages.ClusterApplied)
		w.makeReady("c00", true)
		time.Sleep(time.Minute)
		stop()
		w.makeReady("c00", false)
		time.Sleep(time.Hour)
		defer running(t, w.newEngine(fleet.Config{Name: "two", Prober: probed}))()
		feed.of("r", stages.ClusterUnhealthy)
		time.Sleep(time.Hour)
		w.wantStates("r", stages.Running)
		at := time.Now()
		w.makeReady("c00", true)
		if d := feed.end("r").Time.Sub(at.Truncate(time.Millisecond)); d < 5*time.Minute || d > 5*time.Minute+time.Second {
			t.Errorf("done %v after it became healthy, want 5m", d)
		}
	})
}

// frozenOverride makes every cluster's value its label's.
func frozenOverride(value string) []placement.Override {
	all := &placement.ClusterSelector{}
	return []placement.Override{{
		Name:      "per-cluster",
		Selectors: []placement.ObjectSelector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}},
		Rules: []placement.Rule{{ClusterSelector: all, Patches: []placement.Patch{
			{Op: placement.OpReplace, Path: "/spec/value", Value: json.RawMessage(value)},
		}}},
	}}
}

func (w *world) setting(cluster string) string {
	obj, err := w.fleet.Cluster(cluster).Get(setting)
	if err != nil {
		return err.Error()
	}
	v, _, _ := unstructured.NestedString(obj.Object, "spec", "value")
	return v
}

// Threat T6: what was approved is what is applied, whatever changes between the
// approval and the apply.
func TestT6ApprovedIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 4)
		feed := w.follow(true)
		defer feed.stop()
		e := w.newEngine(fleet.Config{Name: "one"})
		p := smallPlacement("p")
		p.Policy.Required = []placement.Term{{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: metav1.LabelSelectorOpIn, Values: []string{"0", "1", "2"}}}}}}
		p.Overrides = frozenOverride(`"label ${MEMBER-CLUSTER-LABEL-KEY-n}"`)
		w.declare(e, p)
		strategy := allAtOnce(4)
		strategy.Stages[0].Before = []stages.Task{{Type: stages.Approval}}
		plan, err := e.Preview(t.Context(), fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy})
		if err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy, Plan: plan.Digest})
		stop := running(t, e)
		request := feed.of("r", stages.ApprovalRequested)
		if request.Digest != plan.Digest {
			t.Errorf("approval is asked for %s, previewed was %s", request.Digest, plan.Digest)
		}
		stop() // nobody acts on the approval before everything has changed
		approve(t, e, "r", request.Request)
		for i := range 4 {
			w.fleet.Relabel(fmt.Sprintf("c%02d", i), map[string]string{"n": fmt.Sprint(9 - i)})
		}
		if err := w.source.Put(plain("tampered")); err != nil {
			t.Fatal(err)
		}
		p.Overrides, p.Policy = frozenOverride(`"tampered"`), placement.Policy{}
		w.declare(e, p)
		if _, err := e.Capture(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		defer running(t, w.newEngine(fleet.Config{Name: "two"}))()
		feed.end("r")
		got := []string{w.setting("c00"), w.setting("c01"), w.setting("c02")}
		if d := cmp.Diff([]string{"label 0", "label 1", "label 2"}, got); d != "" {
			t.Errorf("applied (-approved +applied):\n%s", d)
		}
		if _, err := w.fleet.Cluster("c03").Get(setting); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("c03 was not in the plan, and was updated: %v", err)
		}
	})
}

func approve(t *testing.T, e *fleet.Engine, run, request string) {
	t.Helper()
	if err := e.Decide(t.Context(), run, fleet.Answer{Request: request, Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}); err != nil {
		t.Fatal(err)
	}
}

// Threat T22: a rollback has a plan and an approval of its own. That of another
// run is refused, by the engine and by whoever drives the run.
func TestT22RollbackNeedsItsOwnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 1)
		feed := w.follow(true)
		defer feed.stop()
		e := w.newEngine(fleet.Config{Name: "one"})
		defer running(t, e)()
		w.declare(e, smallPlacement("p"))
		strategy := allAtOnce(1)
		strategy.Stages[0].Before = []stages.Task{{Type: stages.Approval}}
		if _, err := e.Capture(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if err := w.source.Put(plain("v2")); err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "forth", Placement: "p", Strategy: strategy})
		asked := feed.of("forth", stages.ApprovalRequested)
		requests, err := e.Requests(t.Context(), "forth")
		if err != nil || len(requests) != 1 {
			t.Fatalf("requests: %v, %v", requests, err)
		}
		approve(t, e, "forth", asked.Request)
		feed.end("forth")
		settle()

		w.create(e, fleet.RunSpec{Name: "back", Placement: "p", Index: new(0), Strategy: strategy})
		again := feed.of("back", stages.ApprovalRequested)
		if again.Digest == asked.Digest || again.Digest == "" {
			t.Errorf("the rollback asks for plan %q, the run before it for %q", again.Digest, asked.Digest)
		}
		stolen := fleet.Answer{Request: again.Request, Verdict: approval.Approve, By: approval.Identity{Name: "eve"}, Binding: requests[0].Binding}
		if err := e.Decide(t.Context(), "back", stolen); err == nil {
			t.Error("an approval of another run was taken")
		}
		w.smuggle("back", requests[0].Binding)
		refused := feed.of("back", stages.CommandRefused)
		if refused.By != "eve" {
			t.Errorf("refused: %s", line(refused))
		}
		time.Sleep(time.Hour)
		if got := w.setting("c00"); got != "v2" {
			t.Errorf("c00 has %s without an approval", got)
		}
		approve(t, e, "back", again.Request)
		feed.end("back")
		if got := w.setting("c00"); got != "v1" {
			t.Errorf("c00 has %s after the rollback", got)
		}
	})
}

// smuggle writes a decision into the store, past the engine.
func (w *world) smuggle(run string, binding approval.Binding) {
	w.t.Helper()
	eve := approval.Identity{Name: "eve"}
	err := fleet.SmuggleCommand(w.t.Context(), w.store, run, stages.Command{
		ID: "stolen", Verb: stages.Decide, By: eve, At: time.Now(),
		Decision: &approval.Decision{Verdict: approval.Approve, By: eve, At: time.Now(), Binding: binding},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
