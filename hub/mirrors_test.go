package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDeletedProjectionsAreRestored: statuses and the objects of snapshots can be deleted. The
// hub creates them again with the same content, and carries out nothing a second time.
func TestDeletedProjectionsAreRestored(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy("", "")
	s.scheduled()
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "UpdateRunSucceeded")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.eventually("the status to be that of a placement without a run", s.resting)
	before := map[string]any{}
	for _, what := range []string{"csur/NAME-a", "crp/NAME"} {
		u, err := s.get(what)
		if err != nil {
			t.Fatal(err)
		}
		before[what] = u.Object["status"]
	}
	config, err := s.read(s.member(1), "cm/NAME/config")
	if err != nil {
		t.Fatal(err)
	}

	for what := range before {
		s.eventually("throwing away the status of "+what, func() error {
			u, err := s.get(what)
			if err != nil {
				return err
			}
			u.Object["status"] = map[string]any{}
			return s.writeStatus(s.admin, what, u)
		})
	}
	s.delete("crs/NAME-0-snapshot")

	for what, want := range before {
		s.eventually(what+" to have its status again", func() error {
			u, err := s.get(what)
			if err != nil {
				return err
			}
			if d := cmp.Diff(want, u.Object["status"]); d != "" {
				return fmt.Errorf("(-before +now):\n%s", d)
			}
			return nil
		})
	}
	s.snapshots("0")
	now, err := s.read(s.member(1), "cm/NAME/config")
	if err != nil || now.GetResourceVersion() != config.GetResourceVersion() {
		t.Errorf("the member was written again: %v, %v", now, err)
	}
}

// resting checks that in the status of the placement no cluster has a run. Until a run has released
// the placement, the status names the run.
func (s *scenario) resting() error {
	u, err := s.get("crp/NAME")
	if err != nil {
		return err
	}
	list, _, err := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
	for _, cluster := range list {
		one := &unstructured.Unstructured{Object: map[string]any{"status": cluster}}
		if status, text := conditionOf(one, "RolloutStarted"); status != "True" || strings.Contains(text, "updateRun: ") {
			return fmt.Errorf("RolloutStarted of %v is %s (%s)", one.Object["status"].(map[string]any)["clusterName"], status, text)
		}
	}
	return err
}
