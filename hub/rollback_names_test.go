package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
)

// padded returns name, extended to the number of characters.
func padded(name string, characters int) string {
	return name + strings.Repeat("x", characters-len(name))
}

// longSpace begins a story in a namespace of 55 characters. It has a placement p, a strategy s with
// an approval before a rollback, and v1 on its member, brought by the run first.
func longSpace(t *testing.T) *scenario {
	t.Helper()
	t.Parallel()
	s := performAs(t, openVouched, padded(storyName(t)+"-", 55), 1)
	s.inANamespace()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: first, namespace: NAME}
spec: {stages: [{name: all, labelSelector: {}}], rollback: {}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: s, namespace: NAME}
spec: {stages: [{name: all, labelSelector: {}, ` + gate + `}], rollback: {approval: {}}}`)
	s.begins("first", "first")
	s.comes("sur/NAME/first", "Succeeded", "True", "")
	s.put("v2")
	return s
}

// begins creates a run in the namespace of the story.
func (s *scenario) begins(run, strategy string) {
	s.Helper()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateRun
metadata: {name: ` + run + `, namespace: NAME}
spec: {placementName: p, stagedRolloutStrategyName: ` + strategy + `, state: Run}`)
}

// labelledAs checks that an object has the label that names the run it rolls back.
func (s *scenario) labelledAs(what, run string) func() error {
	return func() error {
		u, err := s.get(what)
		if err != nil {
			return err
		}
		if got := u.GetLabels()["slipway.dev/rollback-of"]; got != run {
			return fmt.Errorf("%s is labelled as rollback of %q, want %q", what, got, run)
		}
		return nil
	}
}

// TestARollbackInALongNamespace: the engine's names of a run and of its rollback are both cut. The
// rollback has an object all the same. With the object it is stopped, approved and resumed. The
// object is created again even if the other run's object is gone, and its deletion deletes the
// rollback for good.
func TestARollbackInALongNamespace(t *testing.T) {
	s := longSpace(t)
	run := padded("long-", 40)
	back := "sur/NAME/" + run + "-rollback"
	s.begins(run, "s")
	s.eventually("the run to be rejected", func() error {
		return s.tryPatch(s.admin, "areq/NAME/"+run+"-all", strings.Replace(approvalFile, `"Approved"`, `"Rejected"`, 1), "status")
	})
	s.comes("sur/NAME/"+run, "Succeeded", "False", "UpdateRunFailed")
	s.comes("sur/NAME/"+run, "RollbackStarted", "True", "UpdateRunRollbackStarted: The update run is rolled back by updateRun "+run+"-rollback")
	s.comes(back, "Progressing", "False", "waiting for before-stage tasks in stage all")
	undone, err := s.get("sur/NAME/" + run)
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(undone.Object, "status", "rollbackRunName"); name != run+"-rollback" {
		t.Errorf("status.rollbackRunName of the run is %q", name)
	}
	s.eventually("the label", s.labelledAs(back, run))
	s.patch(back, `{spec: {state: Stop}}`)
	s.comes(back, "Progressing", "False", "UpdateRunStopped")
	s.approved("areq/NAME/" + run + "-rollback-before-all")
	s.stays("nothing goes back while it is stopped", 500*time.Millisecond, s.has(1, "config", "v2"))
	s.delete("sur/NAME/" + run)
	s.eventually("the run that is taken back to be gone", s.gone(s.admin, "sur/NAME/"+run))
	before, err := s.get(back)
	if err != nil {
		t.Fatal(err)
	}
	s.forceAway(back, before)
	s.comes(back, "Progressing", "False", "UpdateRunStopped")
	s.eventually("the label", s.labelledAs(back, run))
	s.patch(back, `{spec: {state: Run}}`)
	s.comes(back, "Succeeded", "True", "UpdateRunSucceeded")
	s.comes("areq/NAME/"+run+"-rollback-before-all", "ApprovalAccepted", "True", "")
	s.eventually("the member to have v1", s.has(1, "config", "v1"))
	s.delete(back)
	s.eventually("the run and its request to be gone", func() error {
		return errors.Join(s.gone(s.admin, back)(), s.gone(s.admin, "areq/NAME/"+run+"-rollback-before-all")())
	})
	s.stays("it is not made again", time.Second, s.gone(s.admin, back))
}

// TestOnlyTheNameOfTheRollbackIsCut: a run has a short name, in a namespace that leaves no room for
// the name of its rollback.
func TestOnlyTheNameOfTheRollbackIsCut(t *testing.T) {
	s := longSpace(t)
	s.begins("r", "first")
	s.comes("sur/NAME/r", "Succeeded", "True", "")
	s.eventually("the member to have v2", s.has(1, "config", "v2"))
	s.patch("sur/NAME/r", `{spec: {state: Rollback}}`)
	s.comes("sur/NAME/r", "RollbackStarted", "True", "by updateRun r-rollback")
	s.comes("sur/NAME/r-rollback", "Succeeded", "True", "")
	s.eventually("the label", s.labelledAs("sur/NAME/r-rollback", "r"))
	s.eventually("the member to have v1", s.has(1, "config", "v1"))
}

// TestARollbackOfALongName: the longest possible names of cluster-scoped runs leave no room for the
// suffix of a rollback. Its name is cut, and it has an object.
func TestARollbackOfALongName(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken("", ", rollback: {}")
	s.put("v2")
	for _, run := range []string{padded(s.name+"-", 63), padded(s.name+"-", 61) + ".v"} {
		back := fleet.RollbackName(run, 1)
		if len(back) != 63 {
			t.Fatalf("%s has %d characters", back, len(back))
		}
		s.run(strings.TrimPrefix(run, s.name+"-"), "")
		s.comes("csur/"+run, "Succeeded", "True", "")
		s.bothHave("v2")
		s.patch("csur/"+run, `{spec: {state: Rollback}}`)
		s.comes("csur/"+run, "RollbackStarted", "True", "by updateRun "+back)
		s.comes("csur/"+back, "Succeeded", "True", "")
		s.eventually("the label", s.labelledAs("csur/"+back, run))
		s.bothHave("v1")
	}
}
