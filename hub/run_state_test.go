package hub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestStateInitializeOnlyPlansAndRunStarts: a run with state Initialize is planned, and touches no
// member until its state is Run.
func TestStateInitializeOnlyPlansAndRunStarts(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy("", "")
	s.scheduled()
	s.run("a", "state: Initialize")
	s.comes("csur/NAME-a", "Initialized", "True", "UpdateRunInitializedSuccessfully")
	s.stays("nothing is on the members", 700*time.Millisecond, func() error {
		return errors.Join(s.has(1, "config", "")(), s.has(2, "config", "")(), s.condition("csur/NAME-a", "Progressing", "", "")())
	})
	s.patch("csur/NAME-a", `{spec: {state: Run}}`)
	s.comes("csur/NAME-a", "Succeeded", "True", "UpdateRunSucceeded")
	s.eventually("the members to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
}

// A run without a state runs by default. With the setting of KubeFleet 0.18 it is planned and
// waits.
func TestARunWithoutAState(t *testing.T) {
	const run = `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterStagedUpdateRun, metadata: {name: NAME-a}, spec: {placementName: NAME, stagedRolloutStrategyName: NAME}}`
	t.Run("runs", func(t *testing.T) {
		s := newScenario(t, openVouched, 1)
		s.put("v1")
		s.place("type: External")
		s.strategy("")
		s.scheduled()
		s.apply(run)
		s.comes("csur/NAME-a", "Succeeded", "True", "")
		u, err := s.get("csur/NAME-a")
		if err != nil {
			t.Fatal(err)
		}
		if state, ok, _ := unstructured.NestedString(u.Object, "spec", "state"); ok {
			t.Errorf("it has the state %q", state)
		}
	})
	t.Run("waits", func(t *testing.T) {
		s := newScenario(t, openKubeFleet018, 1)
		s.put("v1")
		s.place("type: External")
		s.strategy("")
		s.scheduled()
		s.apply(run)
		s.comes("csur/NAME-a", "Initialized", "True", "UpdateRunInitializedSuccessfully")
		s.stays("nothing is on the member", 700*time.Millisecond, func() error {
			return errors.Join(s.has(1, "config", "")(), s.condition("csur/NAME-a", "Progressing", "", "")())
		})
		s.patch("csur/NAME-a", `{spec: {state: Run}}`)
		s.comes("csur/NAME-a", "Succeeded", "True", "")
	})
}

// TestStateStopDuringAWaitKeepsItsEndTime: a run that is stopped during a wait is Stopped at
// once. After it is resumed, the wait ends at the original time.
func TestStateStopDuringAWaitKeepsItsEndTime(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy(`afterStageTasks: [{type: TimedWait, waitTime: 30s}]`, "")
	s.scheduled()
	s.run("a", "")
	s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunWaiting")
	begun := time.Now()
	s.patch("csur/NAME-a", `{spec: {state: Stop}}`)
	s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunStopped")
	s.stays("stopped, the wait goes by and nothing more begins", 30500*time.Millisecond-time.Since(begun), func() error {
		return errors.Join(s.has(2, "config", "")(), s.condition("csur/NAME-a", "Progressing", "False", "UpdateRunStopped")())
	})
	resumed := time.Now()
	s.patch("csur/NAME-a", `{spec: {state: Run}}`)
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	elapsed, err := s.elapsed("csur/NAME-a")
	if took := elapsed.Sub(resumed); err != nil || took > 25*time.Second {
		t.Errorf("the wait of 30s went on for %v after it was over: it began anew: %v", took, err)
	}
}

// elapsed returns the end of the wait after the first stage of a run.
func (s *scenario) elapsed(what string) (time.Time, error) {
	s.Helper()
	u, err := s.get(what)
	if err != nil {
		return time.Time{}, err
	}
	for _, path := range []string{"stagesStatus", "afterStageTaskStatus", "conditions"} {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", path)
		if len(list) == 0 {
			return time.Time{}, fmt.Errorf("%s has no %s", what, path)
		}
		u = &unstructured.Unstructured{Object: map[string]any{"status": list[0]}}
	}
	at, _, _ := unstructured.NestedString(u.Object, "status", "lastTransitionTime")
	return time.Parse(time.RFC3339, at)
}

// TestStateStopFinishesClustersInFlight: the cluster in flight finishes, and until
// then the run shows that it is stopping.
func TestStateStopFinishesClustersInFlight(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.apply(deployment)
	s.place("type: External")
	s.strategy("", "")
	s.scheduled()
	s.run("a", "")
	s.eventually("the Deployment on the first member", func() error { _, err := s.read(s.member(1), "deploy/NAME/app"); return err })
	s.patch("csur/NAME-a", `{spec: {state: Stop}}`)
	s.comes("csur/NAME-a", "Progressing", "Unknown", "UpdateRunStopping")
	s.available(1)
	s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunStopped")
	s.stays("nothing begins", 500*time.Millisecond, s.gone(s.member(2), "deploy/NAME/app"))
	s.patch("csur/NAME-a", `{spec: {state: Run}}`)
	s.eventually("the Deployment on the second member", func() error { _, err := s.read(s.member(2), "deploy/NAME/app"); return err })
	s.available(2)
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

// TestStateStopAtCreationPlansOnly: a run that is created with Stop is planned, shows that it is
// stopped, and starts with Run.
func TestStateStopAtCreationPlansOnly(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.run("a", "state: Stop")
	s.comes("csur/NAME-a", "Initialized", "True", "")
	s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunStopped")
	s.stays("nothing is on the member", 500*time.Millisecond, s.has(1, "config", ""))
	if warned := s.events("csur/NAME-a", "CommandRefused"); len(warned) > 0 {
		t.Errorf("nobody did anything wrong, and there are %v", warned)
	}
	s.patch("csur/NAME-a", `{spec: {state: Run}}`)
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: app}}
  template: {metadata: {labels: {app: app}}, spec: {containers: [{name: app, image: example.invalid/app:1}]}}`

// available writes the status of the Deployment on a member, like a controller.
func (s *scenario) available(member int) {
	s.Helper()
	s.eventually(fmt.Sprintf("the Deployment of member %d to take a status", member), func() error {
		u, err := s.read(s.member(member), "deploy/NAME/app")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedMap(u.Object, map[string]any{
			"observedGeneration": u.GetGeneration(), "replicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1), "updatedReplicas": int64(1),
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			},
		}, "status"); err != nil {
			return err
		}
		return s.writeStatus(s.member(member), "deploy/NAME/app", u)
	})
}

// TestStateStopRightAfterCreationIsNotLost: a run that is stopped in the moment of its beginning is
// stopped.
func TestStateStopRightAfterCreationIsNotLost(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy(`beforeStageTasks: [{type: Approval}]`)
	s.scheduled()
	for i := range 4 {
		run := fmt.Sprintf("csur/NAME-%d", i)
		s.run(fmt.Sprint(i), "")
		s.patch(run, `{spec: {state: Stop}}`)
		s.comes(run, "Progressing", "False", "UpdateRunStopped")
		s.delete(run)
	}
}
