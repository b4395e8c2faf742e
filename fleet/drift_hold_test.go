package fleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// beside is an object beside the held object.
var beside = snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "beside"}

// heldOn returns an environment with a foreign test-cm on member2 that is never taken over. Run
// "one" has failed because of it.
func heldOn(t *testing.T) (*engineEnv, *fleet.Engine, func()) {
	t.Helper()
	w := newEngineEnv(t)
	if err := w.source.Put(configMap("beside", "value1")); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", "theirs")} {
		if err := w.fleet.Cluster("member2").Update(obj); err != nil {
			t.Fatal(err)
		}
	}
	e := w.engine(w.store, "a")
	p := tutorialPlacement()
	p.ApplyStrategy = apply.Strategy{WhenToApply: apply.Always, WhenToTakeOver: apply.IfNoDiff}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	stop := running(t, e)
	s := inOneStage()
	s.Profile = stages.ClusterUpdate
	if got := runTo(t, e, "one", s); got.Run.State != stages.Failed {
		t.Errorf("run one is %s", got.Run.State)
	}
	return w, e, stop
}

// An object that is held back does not hold back others: they are applied and kept, and the report
// describes the actual state of the cluster.
func TestAHeldBackObjectBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := heldOn(t)
		defer stop()
		_, all := reportOf(t, e, fleet.DriftOptions{Clusters: []string{"member2"}})
		if len(all) != 1 || all[0].State != drift.Compared || all[0].Total != 1 || all[0].Objects[0].Reason != drift.FailedToTakeOver {
			t.Errorf("%+v", all)
		}
		theirs := configMap("beside", "theirs")
		if err := w.fleet.Cluster("member2").Update(theirs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		obj, err := w.fleet.Cluster("member2").Get(beside)
		if err != nil {
			t.Fatal(err)
		}
		if v, _, _ := unstructured.NestedString(obj.Object, "data", "key"); v != "value1" || w.value("member2") != "theirs" {
			t.Errorf("beside is %q, test-cm %q", v, w.value("member2"))
		}
		if n := len(w.notes(e, stages.DriftCorrected)); n != 1 {
			t.Errorf("it was told %d times that something was put back", n)
		}
		w.fleet.Cluster("member2").Record(true)
		time.Sleep(time.Hour)
		if log := w.fleet.Cluster("member2").Log(); len(log) > 0 {
			t.Errorf("%d writes while nothing happened: %v", len(log), log[0])
		}
	})
}

// A run that keeps retrying a held object writes nothing. It completes once the object may be
// applied, and only then removes dropped objects.
func TestARetryOfHeldBackObjectsWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := heldOn(t)
		defer stop()
		w.source.Delete(beside)
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "two", Placement: "example-placement", Strategy: inOneStage()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		member := w.fleet.Cluster("member2")
		member.Record(true)
		time.Sleep(time.Hour)
		if log := member.Log(); len(log) > 0 {
			t.Errorf("%d writes in an hour: %v", len(log), log[0])
		}
		if _, err := member.Get(beside); err != nil {
			t.Errorf("what is to go went although something was held: %v", err)
		}
		if err := member.Update(configMap("test-cm", "value1")); err != nil {
			t.Fatal(err)
		}
		s, err := e.Run("two").Wait(t.Context())
		if err != nil || s.Run.State != stages.Completed {
			t.Errorf("run two is %s, %v", s.Run.State, err)
		}
		if obj, err := member.Get(beside); err == nil {
			t.Errorf("%s is still there", obj.GetName())
		}
	})
}

// An object that was never taken over is neither deleted nor changed when the cluster leaves the
// placement.
func TestForeignObjectStaysWhenTheClusterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := heldOn(t)
		defer stop()
		was, err := w.fleet.Cluster("member2").Get(testCM)
		if err != nil {
			t.Fatal(err)
		}
		p := tutorialPlacement()
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member3"}}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := runTo(t, e, "two", inOneStage()); got.Run.State != stages.Completed {
			t.Errorf("run two is %s: %s", got.Run.State, got.Run.Reason)
		}
		now, err := w.fleet.Cluster("member2").Get(testCM)
		if err != nil || now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("test-cm was touched: %v", err)
		}
		if _, err := w.fleet.Cluster("member2").Get(beside); err == nil {
			t.Error("what was applied is still there")
		}
	})
}

// An edit that removes the placement's marks is drift like any other edit.
func TestAnEditThatTakesTheMarksAwayIsDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		defer stop()
		if err := w.fleet.Cluster("member2").Update(configMap("test-cm", "theirs")); err != nil {
			t.Fatal(err)
		}
		s := inOneStage()
		s.Profile = stages.ClusterUpdate
		if got := runTo(t, e, "two", s); got.Run.State != stages.Failed || w.value("member2") != "theirs" {
			t.Errorf("run two is %s, member2 has %s", got.Run.State, w.value("member2"))
		}
	})
}

// A report about a cluster that is unrelated to the placement is an error, not an empty report.
func TestADriftReportOfAnotherClusterIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, stop := placed(t, apply.Strategy{})
		defer stop()
		for _, err := range e.Placement("example-placement").Drift(t.Context(), fleet.DriftOptions{Clusters: []string{"member1", "membre2"}}) {
			if err == nil || !strings.Contains(err.Error(), "cluster membre2") {
				t.Errorf("%v", err)
			}
		}
	})
}

// A client that stops reading a report leaves nothing behind.
func TestADriftReportThatIsBrokenOffEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, stop := placed(t, apply.Strategy{})
		stop()
		for range e.Placement("example-placement").Drift(t.Context(), fleet.DriftOptions{}) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range e.Placement("example-placement").Drift(ctx, fleet.DriftOptions{}) {
			cancel()
			last = err
		}
		if last == nil {
			t.Error("the report ends as if it were whole")
		}
	})
}

// The gate of a stage is about the clusters of that stage: a stage without clusters does not wait
// for others.
func TestTheGateOfAStageIsAboutItsClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		w.edit("member2", set("key", "theirs"))
		s := stages.Strategy{Name: "s", Stages: []stages.Stage{
			{Name: "none", Selector: selects("nowhere"), Before: []stages.Task{fleet.NoDrift()}},
			{Name: "canary", Selector: selects("canary"), Before: []stages.Task{fleet.NoDrift()}, After: []stages.Task{fleet.NoDrift()}},
			{Name: "staging", Selector: selects("staging"), After: []stages.Task{fleet.NoDrift()}},
		}}
		if got := runTo(t, e, "two", s); got.Run.State != stages.Completed {
			t.Errorf("run two is %s", got.Run.State)
		}
	})
}

// The engine approves after the people, because its approval is about the moment when the gate
// passes. It does not count as the approval of a person.
func TestTheEngineAnswersAGateLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		gate := fleet.NoDrift()
		gate.Approval.Quorums = append(gate.Approval.Quorums, approval.Quorum{Count: 1})
		if err := w.source.Put(configMap("test-cm", "value2")); err != nil {
			t.Fatal(err)
		}
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "two", Placement: "example-placement", Strategy: inOneStage(gate)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.value("member1"); got != "value1" {
			t.Fatalf("it was not approved, and member1 has %s", got)
		}
		w.edit("member2", set("key", "theirs"))
		if err := e.Run("two").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: "two-before-all", By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.value("member1"); got != "value1" {
			t.Errorf("member2 has drifted, and member1 has %s", got)
		}
		stop()
		e = w.engine(w.store, "b")
		defer running(t, e)()
		w.edit("member2", set("key", "value1"))
		if s, err := e.Run("two").Wait(t.Context()); err != nil || s.Run.State != stages.Completed {
			t.Errorf("run two is %s, %v", s.Run.State, err)
		}
	})
}

// The unfinished work of an earlier run does not block the run that would finish it.
func TestADriftGateDoesNotWaitForARunThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		w.fleet.Cluster("member2").Refuse(func(o *unstructured.Unstructured) error {
			if v, _, _ := unstructured.NestedString(o.Object, "data", "key"); v == "wrong" {
				return errors.New("not admitted")
			}
			return nil
		})
		s := inOneStage(fleet.NoDrift())
		s.Profile = stages.ClusterUpdate
		for _, step := range []struct {
			value string
			want  stages.State
		}{{"wrong", stages.Failed}, {"right", stages.Completed}} {
			if err := w.source.Put(configMap("test-cm", step.value)); err != nil {
				t.Fatal(err)
			}
			if got := runTo(t, e, step.value, s); got.Run.State != step.want {
				t.Errorf("run %s is %s", step.value, got.Run.State)
			}
		}
	})
}

// A gate that could never pass is refused with the run.
func TestADriftGateThatCannotPassIsRefused(t *testing.T) {
	w := newEngineEnv(t)
	twice := fleet.NoDrift()
	twice.Approval.Quorums[0].Count = 2
	for want, c := range map[string]struct {
		cfg  fleet.Config
		gate stages.Task
	}{
		"with an Updater of the host's": {fleet.Config{Updater: idle{}}, fleet.NoDrift()},
		"has one member, the engine":    {fleet.Config{}, twice},
	} {
		c.cfg.Name = "a"
		e := w.newEngine(c.cfg)
		if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		_, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "one", Placement: "example-placement", Strategy: inOneStage(c.gate)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// idle is an Updater of the host.
type idle struct{}

func (idle) Update(context.Context, backend.Assignment) (backend.Proof, error) {
	return backend.Proof{}, backend.ErrPermanent
}

func (idle) Observe(context.Context, backend.Assignment) (backend.Proof, error) {
	return backend.Proof{}, backend.ErrPermanent
}

// A run that only reports ends in every profile, even if it abandons a cluster, and writes nothing.
func TestARunThatOnlyReportsEndsInEveryProfile(t *testing.T) {
	for _, profile := range []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow} {
		synctest.Test(t, func(t *testing.T) {
			w := newEngineEnv(t)
			e := w.engine(w.store, "a")
			p := tutorialPlacement()
			p.ApplyStrategy.Type = apply.ReportDiff
			if err := e.PutPlacement(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			w.fleet.Cluster("member2").Record(true)
			defer running(t, e)()
			s := inOneStage()
			s.Profile = profile
			if got := runTo(t, e, "one", s); got.Run.State != stages.Completed {
				t.Errorf("%s: %s: %s", profile, got.Run.State, got.Run.Reason)
			}
			p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member3"}}
			if err := e.PutPlacement(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if got := runTo(t, e, "two", s); got.Run.State != stages.Completed {
				t.Errorf("%s: %s: %s", profile, got.Run.State, got.Run.Reason)
			}
			time.Sleep(time.Second)
			if seen, err := recordedDrift(t.Context(), e.Placement(p.Name)); err != nil || len(seen) != 2 {
				t.Errorf("%s: %d clusters are told of, %v", profile, len(seen), err)
			}
			if log := w.fleet.Cluster("member2").Log(); len(log) > 0 {
				t.Errorf("%s: member2 was written to: %v", profile, log)
			}
		})
	}
}
