package oam_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// begun is the run of an application with two steps, a timeout of ten minutes each.
func begun(t *testing.T) *workflowEnv {
	t.Helper()
	w := &workflowEnv{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.clusters = []placement.Cluster{{Name: "a"}, {Name: "b"}}
	got := w.apply(`apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: demo, namespace: demo, annotations: {app.oam.dev/publishVersion: v1}}
spec:
  components:
  - {name: demo, type: ref-objects, properties: {objects: [{apiVersion: apps/v1, kind: Deployment}]}}
  policies:
  - {name: a, type: topology, properties: {clusters: [a]}}
  - {name: b, type: topology, properties: {clusters: [b]}}
  workflow:
    steps:
    - {name: one, type: deploy, timeout: 10m, properties: {policies: [a]}}
    - {name: two, type: deploy, timeout: 10m, properties: {policies: [b]}}
`)
	if !strings.Contains(got, "deploying a#1") {
		t.Fatal(got)
	}
	return w
}

func (w *workflowEnv) attempt() int {
	for _, f := range w.rec.Run.Form(runstate.Key{}).InFlight {
		if f.Attempt != 0 {
			return f.Attempt
		}
	}
	return 0
}

// How often a step was tried, and until when it waits, outlives the process, a
// suspension and another message.
func TestAttemptsAndBackoffOutliveTheProcessAndASuspension(t *testing.T) {
	w := begun(t)
	w.do("a fails")
	w.do("step 1s")
	w.do("a fails")
	until := w.rec.Run.Form(runstate.Key{}).InFlight[0].NotYet
	w.reload()
	if got := w.rec.Run.Form(runstate.Key{}).InFlight[0]; got.Attempt != 2 || got.Phase != stages.BackingOff || got.NotYet != until {
		t.Errorf("after a restart: attempt %d in phase %d until %d, want attempt 2 waiting until %d", got.Attempt, got.Phase, got.NotYet, until)
	}
	w.do("suspend")
	w.reload()
	w.do("resume 1m")
	if got := w.attempt(); got != 3 {
		t.Errorf("after a suspension the attempt is %d, want 3", got)
	}
}

// An operation is commands, or one run to create, and changes nothing.
func TestAnOperationChangesNothingByItself(t *testing.T) {
	w := begun(t)
	w.do("terminate")
	by := approval.Identity{Name: "ann"}
	before := w.statusText(true)
	rel, op, err := w.rec.Restart("one", 2)
	if err != nil || len(op.Commands) != 0 {
		t.Fatalf("a restart is %+v, %v; want a run to create and nothing else", op, err)
	}
	if rel.Run.Name == w.rec.Release.Run.Name || rel.Run.Index == nil || *rel.Run.Index != w.rec.Plan.Index || rel.Version != w.rec.Release.Version {
		t.Errorf("the run is %+v: want another one of the same snapshot and version", rel.Run)
	}
	if _, err := w.rec.Resume("", by); err == nil {
		t.Error("a terminated workflow can be resumed")
	}
	if after := w.statusText(true); after != before {
		t.Errorf("the status changed from %s to %s", before, after)
	}
}

// The timeout of a step does not run while the workflow is suspended.
func TestATimeoutStandsStillWhileTheWorkflowIsSuspended(t *testing.T) {
	w := begun(t)
	w.do("a unhealthy 4m")
	w.do("suspend")
	w.do("step 5m")
	w.do("resume 72h")
	w.do("a unhealthy 5m59s")
	if w.rec.Run.State != stages.Running {
		t.Fatalf("after 9m59s of its time the run is %s: %s", w.rec.Run.State, w.rec.Run.Reason)
	}
	w.do("a unhealthy 1s")
	if s := oam.NewStatus(w.rec); s.Workflow.Steps[0].Reason != oam.ReasonTimeout || w.rec.Run.State != stages.Failed {
		t.Errorf("after ten minutes the run is %s, and the step %+v", w.rec.Run.State, s.Workflow.Steps[0])
	}
}

// Nothing can be done with a workflow that has not begun.
func TestOperationsWithoutARun(t *testing.T) {
	by := approval.Identity{Name: "ann"}
	rec := oam.Record{Release: &oam.Release{Name: "demo"}}
	for name, do := range map[string]func() error{
		"suspend":   func() error { _, err := rec.Suspend(by); return err },
		"resume":    func() error { _, err := rec.Resume("", by); return err },
		"terminate": func() error { _, err := rec.Terminate(by); return err },
		"restart":   func() error { _, _, err := rec.Restart("", 2); return err },
	} {
		if err := do(); err == nil || err.Error() != "the workflow in application is not running" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := oam.NewStatus(rec); s.Phase != oam.Starting || s.Workflow != nil {
		t.Errorf("the status is %+v", s)
	}
}

// FuzzRead reads any input and publishes the result: neither causes a panic.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		b, err := os.ReadFile("testdata/seed/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("kind: Workflow\napiVersion: core.oam.dev/v1alpha1\nmetadata: {name: w, namespace: x}\nmode: {steps: DAG}\nsteps:\n- {name: a, type: step-group, subSteps: [{name: b, type: suspend}]}")
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := oam.Read(strings.NewReader(text), "f")
		if err != nil && len(err.Error()) == 0 {
			t.Error("an error says nothing")
		}
		for _, app := range docs.Applications {
			rel, err := oam.Publish(docs, app, []placement.Cluster{{Name: "clusterid1"}, {Name: "clusterid2"}}, oam.Options{})
			if err == nil && rel.Placement.Validate() != nil {
				t.Errorf("the placement is not valid: %v", rel.Placement.Validate())
			}
			if err == nil && rel.Run.Strategy.Validate() != nil {
				t.Errorf("the strategy is not valid: %v", rel.Run.Strategy.Validate())
			}
		}
	})
}
