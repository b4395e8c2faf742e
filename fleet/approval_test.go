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

// frozenOverride returns an override that sets the value on every cluster. The value may refer to a
// label of the cluster.
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

func (w *engineEnv) setting(cluster string) string {
	obj, err := w.fleet.Cluster(cluster).Get(setting)
	if err != nil {
		return err.Error()
	}
	v, _, _ := unstructured.NestedString(obj.Object, "spec", "value")
	return v
}

// Threat T6: the approved content is the applied content, whatever changes between the approval and
// the apply.
func TestT6ApprovedIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		feed := w.follow(true)
		defer feed.stop()
		e := w.newEngine(fleet.Config{Name: "one"})
		p := smallPlacement("p")
		p.Policy.Required = []placement.Term{{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: metav1.LabelSelectorOpIn, Values: []string{"0", "1", "2"}}}}}}
		p.Overrides = frozenOverride(`"label ${MEMBER-CLUSTER-LABEL-KEY-n}"`)
		w.declare(e, p)
		strategy := allAtOnce(4)
		strategy.Stages[0].Before = []stages.Task{{Type: stages.Approval}}
		plan := must(e.Preview(t.Context(), fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy}))(t).Plan
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy, Plan: plan.Digest})
		stop := running(t, e)
		request := feed.of("r", stages.ApprovalRequested)
		if request.Digest != plan.Digest {
			t.Errorf("approval is asked for %s, previewed was %s", request.Digest, plan.Digest)
		}
		stop() // nothing acts on the approval before everything has changed
		approve(t, e, "r", request.Request)
		for i := range 4 {
			w.fleet.Relabel(fmt.Sprintf("c%02d", i), map[string]string{"n": fmt.Sprint(9 - i)})
		}
		if err := w.source.Put(plain("tampered")); err != nil {
			t.Fatal(err)
		}
		p.Overrides, p.Policy = frozenOverride(`"tampered"`), placement.Policy{}
		w.declare(e, p)
		if _, err := e.Placement("p").Capture(t.Context()); err != nil {
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
	if err := e.Run(run).Command(t.Context(), stages.Command{Verb: stages.Decide, Name: request, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}); err != nil {
		t.Fatal(err)
	}
}

// Threat T22: a rollback has its own plan and its own approval. The approval of another run is
// refused, both by the engine that receives the decision and by the engine that drives the run.
func TestT22RollbackNeedsItsOwnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		feed := w.follow(true)
		defer feed.stop()
		e := w.newEngine(fleet.Config{Name: "one"})
		defer running(t, e)()
		w.declare(e, smallPlacement("p"))
		strategy := allAtOnce(1)
		strategy.Stages[0].Before = []stages.Task{{Type: stages.Approval}}
		if _, err := e.Placement("p").Capture(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.source.Put(plain("v2")); err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "forth", Placement: "p", Strategy: strategy})
		asked := feed.of("forth", stages.ApprovalRequested)
		requests, err := e.Run("forth").Requests(t.Context())
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
		stolen := stages.Command{Verb: stages.Decide, Name: again.Request, By: approval.Identity{Name: "eve"}, Decision: &approval.Decision{Verdict: approval.Approve, Binding: requests[0].Binding}}
		if err := e.Run("back").Command(t.Context(), stolen); err == nil {
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
func (w *engineEnv) smuggle(run string, binding approval.Binding) {
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

// Two runs may have requests of the same name. The binding distinguishes them: an approval of one
// does not count for the other.
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
		must(e.Placement("other").Capture(ctx))(t)
		gated := func(run, placement, stage string) fleet.RunSpec {
			return fleet.RunSpec{Name: run, Placement: placement, Index: new(0), Strategy: stages.Strategy{Stages: []stages.Stage{{
				Name: stage, Selector: everything(), MaxConcurrency: percent("100%"), After: []stages.Task{{Type: stages.Approval}},
			}}}}
		}
		create(t, e, gated("a", ep, "b-after-c"))
		create(t, e, gated("a-after-b", "other", "c"))
		time.Sleep(time.Minute)
		open := map[string]approval.Request{}
		for _, run := range []string{"a", "a-after-b"} {
			all := must(e.Run(run).Requests(ctx))(t)
			if len(all) != 1 || all[0].Name != "a-after-b-after-c" || all[0].Run != run {
				t.Fatalf("open requests of %s: %+v", run, all)
			}
			open[run] = all[0]
		}
		answer := stages.Command{Verb: stages.Decide, Name: "a-after-b-after-c", By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve, Binding: open["a-after-b"].Binding}}
		var denied *approval.RefusedError
		if err := e.Run("a").Command(ctx, answer); !errors.As(err, &denied) {
			t.Errorf("an answer to the other run's request: %v", err)
		}
		if err := e.Run("a-after-b").Command(ctx, answer); err != nil {
			t.Fatal(err)
		}
		if s := endOf(t, e, "a-after-b"); s.Run.State != stages.Completed {
			t.Errorf("a-after-b is %s", s.Run.State)
		}
		is(t, e, "a", stages.Running)
		if err := e.Run("a-after-b").Command(ctx, answer); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a request that was decided: %v", err)
		}
	})
}
