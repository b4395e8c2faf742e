package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// rolledBackRig returns the tutorial's run with a rollback in its strategy, after a rejection.
func rolledBackRig(t *testing.T) *rig {
	s, clusters := tutorial()
	s.Rollback = &stages.RollbackPolicy{Approval: &approval.Policy{}}
	r := newRig(t, "21:28:08", s, false, clusters...)
	r.step("", stages.Input{})
	r.finish("21:28:23", "member2")
	r.step("21:29:23", stages.Input{})
	r.finish("21:29:38", "member3")
	r.finish("21:29:53", "member1")
	r.decide("21:31:00", approval.Reject)
	return r
}

// The status reports a rollback from the request until the rollback run exists, or the reason why
// there will be none.
func TestStatusOfARequestedRollback(t *testing.T) {
	const name = "example-run-rollback"
	before := api.Condition{Status: "False", Reason: api.ReasonRollbackRefused, Message: "as it was", ObservedGeneration: 1, Since: clock(t, "20:00:00")}
	earlier := before
	earlier.ObservedGeneration = 0
	for what, c := range map[string]struct {
		state v1beta1.State
		facts RollbackFacts
		// namespace is the namespace of the object.
		namespace string
		want      string
		run       string
	}{
		"not recorded yet": {facts: RollbackFacts{}, want: "RollbackStarted=Unknown UpdateRunRollbackRequested: The update run is about to be rolled back"},
		"not planned yet":  {facts: RollbackFacts{Engine: fleet.Rollback{By: name, Pending: true}}, want: "RollbackStarted=Unknown UpdateRunRollbackRequested: The update run is about to be rolled back"},
		"by a run":         {facts: RollbackFacts{Engine: fleet.Rollback{By: name}}, want: "RollbackStarted=True UpdateRunRollbackStarted: The update run is rolled back by updateRun " + name, run: name},
		"in a namespace":   {facts: RollbackFacts{Engine: fleet.Rollback{By: "n.web." + name}}, want: "RollbackStarted=True UpdateRunRollbackStarted: The update run is rolled back by updateRun " + name, run: name},
		"by a run whose name is cut": {
			facts: RollbackFacts{Engine: fleet.Rollback{By: kubefleet.EngineName(longNamespace, name)}}, namespace: longNamespace,
			want: "RollbackStarted=True UpdateRunRollbackStarted: The update run is rolled back by updateRun " + name, run: name,
		},
		"not shown":      {facts: RollbackFacts{Engine: fleet.Rollback{By: name}, Hidden: ", which is hidden"}, want: "RollbackStarted=True UpdateRunRollbackStarted: The update run is rolled back by updateRun " + name + ", which is hidden", run: name},
		"by none":        {facts: RollbackFacts{Engine: fleet.Rollback{Refused: "it is too late"}}, want: "RollbackStarted=False UpdateRunRollbackRefused: The update run is not rolled back: it is too late"},
		"refused now":    {state: v1beta1.StateRollback, facts: RollbackFacts{Engine: fleet.Rollback{By: name}, Refusal: "once is enough"}, want: "RollbackStarted=False UpdateRunRollbackRefused: The update run is not rolled back: once is enough", run: name},
		"refused before": {state: v1beta1.StateRollback, facts: RollbackFacts{Engine: fleet.Rollback{By: name}, Told: before}, want: "RollbackStarted=False UpdateRunRollbackRefused: as it was", run: name},
		"refused in another generation": {
			state: v1beta1.StateRollback, facts: RollbackFacts{Engine: fleet.Rollback{By: name}, Told: earlier},
			want: "RollbackStarted=True UpdateRunRollbackStarted: The update run is rolled back by updateRun " + name, run: name,
		},
	} {
		r := rolledBackRig(t)
		r.facts.State, r.facts.Rollback, r.facts.Namespace = c.state, c.facts, c.namespace
		r.facts.Rollback.Of = api.Key{Namespace: c.namespace, Name: r.facts.Name}
		s := r.status()
		all := told(t, s["conditions"])
		if got := all[len(all)-1]; got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		if got, _ := s["rollbackRunName"].(string); got != c.run {
			t.Errorf("%s: rollbackRunName is %q, want %q", what, got, c.run)
		}
	}
}

// The condition keeps its time while its status is the same.
func TestRollbackConditionKeepsItsTime(t *testing.T) {
	r := rolledBackRig(t)
	r.facts.Rollback = RollbackFacts{Engine: fleet.Rollback{By: "b"}, Told: api.Condition{Status: "Unknown", Since: clock(t, "21:31:00")}}
	r.now = clock(t, "21:32:00")
	if at := since(t, r.status()["conditions"], api.ConditionRollback); at != "21:32:00" {
		t.Errorf("since %s", at)
	}
	r.facts.Rollback.Told = api.Condition{Status: "True", Since: clock(t, "21:32:00")}
	r.now = clock(t, "22:00:00")
	if at := since(t, r.status()["conditions"], api.ConditionRollback); at != "21:32:00" {
		t.Errorf("since %s", at)
	}
}

// A rollback is requested once for each generation, regardless of how often the object is
// reconciled, and again if the run ended before it processed the request.
func TestARollbackIsAskedForOnceInAGeneration(t *testing.T) {
	for what, c := range map[string]struct {
		state v1beta1.State
		facts RollbackFacts
		undo  bool
		want  bool
	}{
		"another state":                {state: v1beta1.StateRun},
		"never asked":                  {state: v1beta1.StateRollback, want: true},
		"taken back already":           {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "True", ObservedGeneration: 1}, Engine: fleet.Rollback{By: "b"}}},
		"refused":                      {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "False", ObservedGeneration: 1}}},
		"refused before":               {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "False"}}, want: true},
		"taken back before":            {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "True"}, ToldRun: "b", Engine: fleet.Rollback{By: "b"}}, want: true},
		"taken back, and not told":     {state: v1beta1.StateRollback, facts: RollbackFacts{Engine: fleet.Rollback{By: "b"}}},
		"taken back again, not told":   {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "True"}, ToldRun: "a", Engine: fleet.Rollback{By: "b"}}},
		"being planned":                {state: v1beta1.StateRollback, facts: RollbackFacts{Engine: fleet.Rollback{By: "b", Pending: true}}},
		"about to be planned":          {state: v1beta1.StateRollback, undo: true},
		"the run ended before it came": {state: v1beta1.StateRollback, facts: RollbackFacts{Told: api.Condition{Status: "Unknown", ObservedGeneration: 1}}, want: true},
	} {
		r := rolledBackRig(t)
		if !c.undo {
			r.run.Form(runstate.Key{}).RollbackRequest = nil
		}
		if got := c.facts.Asks(c.state, 1, &fleet.Status{Run: r.run, Plan: r.plan}); got != c.want {
			t.Errorf("%s: asked is %t, want %t", what, got, c.want)
		}
	}
	r := tutorialRig(t) // under way, with a request
	f := RollbackFacts{Told: api.Condition{Status: "Unknown", ObservedGeneration: 1}}
	if f.Asks(v1beta1.StateRollback, 1, &fleet.Status{Run: r.run, Plan: r.plan}) {
		t.Error("a run that is under way is asked again")
	}
}

// inverse returns a rig of the run that rolls back the tutorial's run, for clusters that had the
// snapshots in before.
func inverse(t *testing.T, before map[string]stages.Previous) *rig {
	of := rolledBackRig(t)
	plan, err := step.RollBack(of.plan, &of.run, before)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, now: clock(t, "21:32:00"), plan: plan}
	r.run = step.NewRun(plan, "example-run-rollback", "u2", approval.Identity{Name: "sam"}, false, r.now)
	r.facts = RunFacts{Name: "example-run-rollback", Generation: 1, Run: &r.run, Plan: plan, History: &r.history, Policy: -1, Placement: &fleet.Placement{Name: "example-placement"}}
	r.step("", stages.Input{})
	return r
}

// had returns the previous snapshot of a cluster.
func had(index int, snapshot string) stages.Previous {
	return stages.Previous{Index: index, Snapshot: snapshot, Revision: strings.Repeat("0", 63) + snapshot}
}

// A rollback run is shown like other runs: with its gate, its stages in their order, including
// stages that clean clusters, and the snapshot of each cluster.
func TestARollbackIsShownAsAnyOtherRun(t *testing.T) {
	r := inverse(t, map[string]stages.Previous{"member1": had(0, "0"), "member2": had(0, "0")}) // member3 had nothing
	r.decide("21:33:00", approval.Approve)
	s := r.status()
	var got []string
	for i := range r.plan.Stages {
		st := stageAt(s, i)
		line := st["stageName"].(string)
		for _, c := range st["clusters"].([]any) {
			c := c.(map[string]any)
			index, _ := c["resourceSnapshotIndex"].(string)
			line += " " + c["clusterName"].(string) + "=" + index
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"canary member1=0", "canary-remove member3=", "staging member2=0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if before := stageAt(s, 0)["beforeStageTaskStatus"].([]any)[0].(map[string]any); before["approvalRequestName"] != "example-run-rollback-before-canary" {
		t.Errorf("%v", before)
	}
	if d := s["deletionStageStatus"].(map[string]any); d["stageName"] != api.DeleteStage || len(d["clusters"].([]any)) != 0 {
		t.Errorf("%v", d)
	}
	if s["resourceSnapshotIndexUsed"] != "0" || s["planDigest"] != r.plan.Digest || s["startedBy"].(map[string]any)["username"] != "sam" {
		t.Errorf("index %v of plan %v, started by %v", s["resourceSnapshotIndexUsed"], s["planDigest"], s["startedBy"])
	}
}

// The object has the index of the run's snapshot if there is one, and the run's state.
func TestTheObjectOfARollback(t *testing.T) {
	r := inverse(t, map[string]stages.Previous{"member1": had(0, "0"), "member2": had(0, "0"), "member3": had(0, "0")})
	f := &RollbackObjectFacts{Name: "example-run-rollback", Namespace: "web", Of: "example-run", Placement: "p", Strategy: "s", Seal: "x", Run: &r.run, Plan: r.plan}
	want := map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "StagedUpdateRun",
		"metadata": map[string]any{
			"name": "example-run-rollback", "namespace": "web", "finalizers": []any{api.FinalizerRun},
			"labels": map[string]any{"slipway.dev/rollback-of": "example-run"}, "annotations": map[string]any{"slipway.dev/seal": "x"},
		},
		"spec": map[string]any{"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0", "state": "Run"},
	}
	object := func() *unstructured.Unstructured {
		t.Helper()
		u, err := RollbackObject(f)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if diff := cmp.Diff(want, object().Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if run, err := kubefleet.RunOf(object()); err != nil || run.State != v1beta1.StateRun {
		t.Errorf("it reads as %+v: %v", run, err)
	}
	r.command("21:33:00", stages.Command{Verb: stages.Stop})
	f.Namespace = ""
	if got := object(); got.GetKind() != "ClusterStagedUpdateRun" || api.SpecString(got, "state") != "Stop" {
		t.Errorf("%s in state %s", got.GetKind(), api.SpecString(got, "state"))
	}
	r = inverse(t, map[string]stages.Previous{"member1": had(0, "0"), "member2": had(1, "1"), "member3": had(0, "0")})
	f.Plan, f.Run = r.plan, &r.run
	if index, has, _ := unstructured.NestedString(object().Object, "spec", "resourceSnapshotIndex"); has {
		t.Errorf("clusters go back to several snapshots, and the index is %q", index)
	}
	if got := r.status()["resourceSnapshotIndexUsed"]; got != nil {
		t.Errorf("clusters go back to several snapshots, and the index is %v", got)
	}
}

// A refusal is reported once. After that the status does not change and no write is necessary.
func TestRefusalOfARollbackIsReportedOnce(t *testing.T) {
	r := rolledBackRig(t)
	r.facts.State, r.facts.Now = v1beta1.StateRollback, r.now
	r.facts.Rollback = RollbackFacts{Engine: fleet.Rollback{By: "b"}, Refusal: errors.New("no").Error()}
	if r.facts.RollbackIsTold() {
		t.Error("it was not told yet")
	}
	r.facts.Rollback = RollbackFacts{Engine: fleet.Rollback{By: "b"}, Told: api.Condition{
		Status: "False", Reason: api.ReasonRollbackRefused, Message: "The update run is not rolled back: no", ObservedGeneration: 1, Since: time.Now(),
	}}
	if !r.facts.RollbackIsTold() || r.facts.RollbackAgain() != 0 {
		t.Error("it was told")
	}
}

// A pending rollback is polled, even if the status reports it already, because no event tells the
// run about a later refusal of the engine.
func TestARequestedRollbackIsReadAgain(t *testing.T) {
	r := rolledBackRig(t)
	r.facts.State, r.facts.Now = v1beta1.StateRollback, r.now
	r.facts.Rollback = RollbackFacts{Engine: fleet.Rollback{Pending: true}, Told: api.Condition{
		Status: "Unknown", Reason: api.ReasonRollbackRequested, Message: "The update run is about to be rolled back", ObservedGeneration: 1, Since: time.Now(),
	}}
	if !r.facts.RollbackIsTold() || r.facts.RollbackAgain() != RollbackPoll {
		t.Errorf("it was told: %t, and is looked at again after %v, want %v", r.facts.RollbackIsTold(), r.facts.RollbackAgain(), RollbackPoll)
	}
	r.facts.Rollback.Engine = fleet.Rollback{Refused: "no"}
	if r.facts.RollbackIsTold() || r.facts.RollbackAgain() != 0 {
		t.Error("what the engine came to is not told")
	}
}

// Durations have KubeFleet's format, which is Go's.
func TestTheStrategyOfARunIsShownWithItsRollback(t *testing.T) {
	s, _ := tutorial()
	s.ProgressDeadline.Duration, s.Stages[0].After[0].Wait.Duration = 90*time.Minute, 500*time.Millisecond
	s.Rollback = &stages.RollbackPolicy{Causes: []stages.RollbackCause{stages.GateRejected}, New: stages.LeaveNew, Approval: &approval.Policy{}}
	s.Stages[1].MaxFailures = new(intstr.FromString("10%"))
	got := jsonOf(t, updateStrategyOf(&s))
	want := map[string]any{
		"progressDeadline": "1h30m0s", "rollback": map[string]any{"causes": []any{"GateRejected"}, "newClusters": "Leave"},
		"stages": []any{
			map[string]any{"name": "staging", "labelSelector": map[string]any{"matchLabels": map[string]any{"environment": "staging"}}, "afterStageTasks": []any{map[string]any{"type": "TimedWait", "waitTime": "500ms"}}},
			map[string]any{"name": "canary", "labelSelector": map[string]any{"matchLabels": map[string]any{"environment": "canary"}}, "sortingLabelKey": "order", "maxFailures": "10%", "afterStageTasks": []any{map[string]any{"type": "Approval"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// longNamespace is so long that names of runs in it are cut.
var longNamespace = strings.Repeat("n", 55)
