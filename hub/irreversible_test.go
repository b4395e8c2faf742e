package hub_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// TestNothingIsRolledBackPastAnIrreversibleSnapshot: the label on the object of a snapshot keeps a
// run from being rolled back, even after the object was created again, until the label is changed.
func TestNothingIsRolledBackPastAnIrreversibleSnapshot(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken(", "+gate, ", rollback: {}")
	s.put("v2")
	s.run("plan", "state: Initialize") // takes the snapshot
	s.snapshots("0", "1")
	s.delete("csur/NAME-plan")
	s.patch("crs/NAME-1-snapshot", `{metadata: {labels: {slipway.dev/irreversible: "true"}}}`)
	s.eventually("the Event", func() error { return s.told("crp/NAME", "SnapshotMarked") })
	s.delete("crs/NAME-1-snapshot")
	s.eventually("the object again, with its label", s.labelled("true"))
	s.patch("crs/NAME-1-snapshot", `{metadata: {labels: {slipway.dev/irreversible: null}}}`)
	s.eventually("the label again", s.labelled("true"))
	s.run("b", "")
	s.reject("careq/NAME-b-s2")
	s.comes("csur/NAME-b", "Succeeded", "False", "")
	s.comes("csur/NAME-b", "RollbackStarted", "False", "snapshot 1 is irreversible")
	s.patch("crs/NAME-1-snapshot", `{metadata: {labels: {slipway.dev/irreversible: "false"}}}`)
	s.eventually("the mark to be gone", func() error {
		view, err := s.served.Engine().Placement(s.name).View(t.Context())
		if err == nil && len(view.Irreversible()) > 0 {
			err = fmt.Errorf("marked are %v", view.Irreversible())
		}
		return err
	})
	s.patch("csur/NAME-b", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "")
	s.bothHave("v1")
	if err := s.labelled("false")(); err != nil {
		t.Error(err)
	}
}

// labelled checks that the object of snapshot 1 has the irreversible label.
func (s *scenario) labelled(want string) func() error {
	return func() error {
		u, err := s.get("crs/NAME-1-snapshot")
		if err != nil {
			return err
		}
		if got := u.GetLabels()["slipway.dev/irreversible"]; got != want {
			return fmt.Errorf("the label is %q, want %q", got, want)
		}
		return nil
	}
}

// TestAHubThatStartsShowsARollbackThatHasNoObject: the hub cannot create the object of a rollback,
// and the rollback continues. The next hub creates the object from the engine's record.
func TestAHubThatStartsShowsARollbackThatHasNoObject(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	w.mayWarn("connection reset by peer") // a fault of the test
	first := w.start("one")
	w.place("v1")
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterStagedUpdateStrategy, metadata: {name: $NAME},
  spec: {stages: [{name: canary, labelSelector: {matchLabels: {stage: canary}}}, {name: prod, labelSelector: {matchLabels: {stage: prod}}}], rollback: {}}}`)
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name+"-a", "")
	w.await("csur", w.name+"-a", "Succeeded", "True")
	w.change("v2")
	struck := first.faults.Add(kubeenv.Rule{Verb: "create", Path: "clusterstagedupdateruns", Times: -1, Fault: kubeenv.ResetBefore()})
	w.run(w.name+"-b", "")
	w.await("csur", w.name+"-b", "Succeeded", "True")
	w.patch("csur", w.name+"-b", `{"spec":{"state":"Rollback"}}`)
	w.eventually("the members to be back", func() error { return w.allHold("v1") })
	w.eventually("the hub to have tried", func() error {
		if struck() == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	if _, err := w.at("csur").Get(t.Context(), w.name+"-b-rollback", getOptions()); err == nil {
		t.Fatal("there is an object")
	}
	w.end(first)
	w.start("two", func(c *hub.Config) { c.Listed = 1 })
	w.await("csur", w.name+"-b-rollback", "Succeeded", "True")
	w.await("csur", w.name+"-b", "RollbackStarted", "True")
}
