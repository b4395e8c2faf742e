package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// taken creates the placement and the strategy NAME with the stages s1 and s2. second is appended
// to the second stage, and more to the stages. Then the run NAME-a rolls out v1 to both members.
func (s *scenario) taken(second, more string) {
	s.Helper()
	s.put("v1")
	s.place("type: External")
	s.rollingBack(second, more)
	s.scheduled()
	s.apply(strategyOf("plain", "{name: all, labelSelector: {}}"))
	s.apply(runOf("a", "placementName: NAME, stagedRolloutStrategyName: NAME-plain"))
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

func (s *scenario) rollingBack(second, more string) {
	s.Helper()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: NAME}
spec: {stages: [{name: s1, labelSelector: {matchLabels: {stage: s1}}}, {name: s2, labelSelector: {matchLabels: {stage: s2}}` + second + `}]` + more + `}`)
}

// reject rejects a request as administrator.
func (s *scenario) reject(what string) {
	s.Helper()
	s.eventually(what, func() error {
		return s.tryPatch(s.admin, what, strings.Replace(approvalFile, `"Approved"`, `"Rejected"`, 1), "status")
	})
}

// bothHave waits until both members have a value.
func (s *scenario) bothHave(value string) {
	s.Helper()
	s.eventually("both members to have "+value, func() error {
		return errors.Join(s.has(1, "config", value)(), s.has(2, "config", value)())
	})
}

// stagesOf returns the stages in a run's status, with their clusters and the snapshots to which
// these return.
func (s *scenario) stagesOf(run string) (out []string) {
	s.Helper()
	u, err := s.get(run)
	if err != nil {
		s.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "stagesStatus")
	for _, st := range list {
		st := st.(map[string]any)
		text := fmt.Sprint(st["stageName"])
		for _, c := range st["clusters"].([]any) {
			c := c.(map[string]any)
			index, _ := c["resourceSnapshotIndex"].(string)
			text += fmt.Sprintf(" %s=%s", strings.TrimPrefix(fmt.Sprint(c["clusterName"]), s.name), index)
		}
		out = append(out, text)
	}
	return out
}

// TestARejectedRunIsRolledBackByARunOfItsOwn: a run that is rejected after its second stage is
// rolled back automatically. The object of the rollback is like that of any other run: it shows its
// stages, requests its approval, and is stopped and resumed by its state. Both objects name each
// other.
func TestARejectedRunIsRolledBackByARunOfItsOwn(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken(", "+gate, ", rollback: {approval: {}}")
	s.put("v2")
	s.run("b", "")
	s.reject("careq/NAME-b-s2")
	s.comes("csur/NAME-b", "Succeeded", "False", "UpdateRunFailed")
	s.comes("csur/NAME-b", "RollbackStarted", "True", "UpdateRunRollbackStarted: The update run is rolled back by updateRun NAME-b-rollback")
	s.comes("csur/NAME-b-rollback", "Initialized", "True", "UpdateRunInitializedSuccessfully")
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "waiting for before-stage tasks in stage s2")
	s.shown()
	s.stays("nothing goes back before it is approved", 500*time.Millisecond, s.has(2, "config", "v2"))
	s.patch("csur/NAME-b-rollback", `{spec: {state: Stop}}`)
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "UpdateRunStopped")
	s.approved("careq/NAME-b-rollback-before-s2")
	s.stays("nothing goes back while it is stopped", 500*time.Millisecond, s.has(2, "config", "v2"))
	s.patch("csur/NAME-b-rollback", `{spec: {state: Run}}`)
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "UpdateRunSucceeded")
	s.comes("careq/NAME-b-rollback-before-s2", "ApprovalAccepted", "True", "")
	s.bothHave("v1")
	if got, want := s.stagesOf("csur/NAME-b-rollback"), []string{"s2 -2=0", "s1 -1=0"}; !slices.Equal(got, want) {
		t.Errorf("the stages are %q, want %q", got, want)
	}
	s.eventually("the Events", func() error {
		return errors.Join(s.told("csur/NAME-b", "RollbackRequested"), s.told("csur/NAME-b", "UpdateRunRollbackStarted"),
			s.told("csur/NAME-b-rollback", "RunStarted"), s.told("csur/NAME-b-rollback", "ApprovalRequested"), s.told("csur/NAME-b-rollback", "RunCompleted"))
	})
	s.run("c", "")
	s.approved("careq/NAME-c-s2")
	s.comes("csur/NAME-c", "Succeeded", "True", "")
}

// shown checks the objects of a run and of its rollback, and kubectl's output about them.
func (s *scenario) shown() {
	s.Helper()
	back, err := s.get("csur/NAME-b-rollback")
	if err != nil {
		s.Fatal(err)
	}
	spec, _ := back.Object["spec"].(map[string]any)
	want := map[string]any{"placementName": s.name, "stagedRolloutStrategyName": s.name, "resourceSnapshotIndex": "0", "state": "Run"}
	if fmt.Sprint(spec) != fmt.Sprint(want) || back.GetLabels()["slipway.dev/rollback-of"] != s.name+"-b" {
		s.Errorf("the object has the labels %v and the spec %v, want %v", back.GetLabels(), spec, want)
	}
	undone, err := s.get("csur/NAME-b")
	if err != nil {
		s.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(undone.Object, "status", "rollbackRunName"); name != s.name+"-b-rollback" {
		s.Errorf("status.rollbackRunName of the run is %q", name)
	}
	out, err := s.kubectl("get", "csur", "-o", "wide", "-l", "slipway.dev/rollback-of="+s.name+"-b", "--no-headers")
	if fields := strings.Fields(out); err != nil || len(fields) < 5 || !slices.Equal(fields[:5], []string{s.name + "-b-rollback", s.name, "0", "0", "True"}) || fields[len(fields)-1] != s.name+"-b" {
		s.Errorf("kubectl prints %s: %v", out, err)
	}
}

// TestAClusterThatFailsIsTheCauseOfARollback: a cluster that is not healthy before the deadline of
// the strategy exceeds the budget of its stage. The run is rolled back, also on that cluster.
func TestAClusterThatFailsIsTheCauseOfARollback(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken("", ", progressDeadline: 5s, rollback: {causes: [BudgetExceeded]}")
	s.put("v2")
	s.apply(deployment)
	s.run("b", "")
	s.available(1)
	s.comes("csur/NAME-b", "Succeeded", "False", "1 cluster of stage s2 has failed, and none may")
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "")
	s.bothHave("v1")
	s.eventually("no Deployment", func() error {
		return errors.Join(s.gone(s.member(1), "deploy/NAME/app")(), s.gone(s.member(2), "deploy/NAME/app")())
	})
}

// TestStateRollbackRollsARunBackOnce: spec.state Rollback rolls back a run that has ended, on
// behalf of the authenticated user. A rollback, and a run whose strategy has no rollback, report
// why they are not rolled back.
func TestStateRollbackRollsARunBackOnce(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken("", ", rollback: {causes: [Command], approval: {forbidStarter: true}}")
	s.put("v2")
	s.run("b", "")
	s.comes("csur/NAME-b", "Succeeded", "True", "")
	s.patch("csur/NAME-a", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-a", "RollbackStarted", "False", "UpdateRunRollbackRefused: The update run is not rolled back: ")
	s.eventually("the Event", func() error { return s.told("csur/NAME-a", "UpdateRunRollbackRefused") })
	s.patch("csur/NAME-b", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-b", "RollbackStarted", "True", "NAME-b-rollback")
	s.approved("careq/NAME-b-rollback-before-s2") // by the user that requested the rollback
	s.comes("careq/NAME-b-rollback-before-s2", "ApprovalAccepted", "False", "")
	alice := s.as("alice", "slipway-approver")
	s.eventually("alice to approve", func() error {
		return s.tryPatch(alice, "careq/NAME-b-rollback-before-s2", strings.Replace(approvalFile, "lgtm", "go back", 1), "status")
	})
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "")
	s.bothHave("v1")
	s.patch("csur/NAME-b-rollback", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-b-rollback", "RollbackStarted", "False", "it rolls back run NAME-b itself")
	s.patch("csur/NAME-b", `{spec: {state: Run}}`)
	s.patch("csur/NAME-b", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-b", "RollbackStarted", "False", "every cluster has what it had before")
	s.comes("csur/NAME-b", "Succeeded", "True", "")
}

// TestStateRollbackEndsARunThatIsUnderWay: a run under way then fails, and no run begins with that
// state.
func TestStateRollbackEndsARunThatIsUnderWay(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken(", beforeStageTasks: [{type: Approval}]", ", rollback: {newClusters: Leave}")
	s.put("v2")
	s.run("begun", "state: Rollback")
	s.comes("csur/NAME-begun", "Initialized", "False", "begin the run with another state")
	s.run("b", "")
	s.comes("csur/NAME-b", "Progressing", "False", "UpdateRunWaiting")
	s.patch("csur/NAME-b", `{spec: {state: Rollback}}`)
	s.comes("csur/NAME-b", "Succeeded", "False", "the run is rolled back")
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "")
	s.bothHave("v1")
	if refused := s.events("csur/NAME-b", "CommandRefused"); len(refused) > 0 {
		t.Errorf("it was asked more than once: %v", refused)
	}
	if got, want := s.stagesOf("csur/NAME-b-rollback"), []string{"s1 -1=0"}; !slices.Equal(got, want) {
		t.Errorf("the stages are %q, want %q", got, want)
	}
}

// TestTheObjectOfARollbackIsAProjection: an object that is removed without its finalizer is created
// again and shows the progress. A regular deletion also deletes the run, for good.
func TestTheObjectOfARollbackIsAProjection(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken(", "+gate, ", rollback: {approval: {}}")
	s.put("v2")
	s.run("b", "")
	s.reject("careq/NAME-b-s2")
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "UpdateRunWaiting")
	s.patch("csur/NAME-b-rollback", `{spec: {state: Stop}}`)
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "UpdateRunStopped")
	before, err := s.get("csur/NAME-b-rollback")
	if err != nil {
		t.Fatal(err)
	}
	s.forceAway("csur/NAME-b-rollback", before)
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "UpdateRunStopped")
	again, err := s.get("csur/NAME-b-rollback")
	if err != nil {
		t.Fatal(err)
	}
	if state, _, _ := unstructured.NestedString(again.Object, "spec", "state"); again.GetUID() == before.GetUID() || state != "Stop" {
		t.Fatalf("it has the UID %s and the state %s", again.GetUID(), state)
	}
	s.delete("csur/NAME-b")
	s.eventually("the run that is taken back to be gone", s.gone(s.admin, "csur/NAME-b"))
	s.patch("csur/NAME-b-rollback", `{spec: {state: Run}}`)
	s.comes("csur/NAME-b-rollback", "Progressing", "False", "UpdateRunWaiting")
	s.delete("csur/NAME-b-rollback")
	s.eventually("the run and its request to be gone", func() error {
		return errors.Join(s.gone(s.admin, "csur/NAME-b-rollback")(), s.gone(s.admin, "careq/NAME-b-rollback-before-s2")())
	})
	s.stays("it is not made again", time.Second, s.gone(s.admin, "csur/NAME-b-rollback"))
	if err := s.has(2, "config", "v2")(); err != nil {
		t.Error(err)
	}
}

// forceAway deletes an object that has no finalizers at that moment, without checks.
func (s *scenario) forceAway(what string, obj *unstructured.Unstructured) {
	s.Helper()
	r, name := s.on(s.admin, what)
	uid := obj.GetUID()
	s.eventually(what+" to be gone without its finalizer", func() error {
		u, err := r.Patch(s.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: "story"})
		if apierrors.IsNotFound(err) || err == nil && u.GetUID() != uid {
			return nil
		}
		if err != nil {
			return err
		}
		version := u.GetResourceVersion()
		return r.Delete(s.Context(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	})
}

// TestAnObjectThatHasTheNameOfARollbackIsLeftAlone: the rollback continues without an object, and
// the run that it rolls back reports that. It gets an object as soon as the name is free.
func TestAnObjectThatHasTheNameOfARollbackIsLeftAlone(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.taken(", "+gate, ", rollback: {}")
	s.put("v2")
	s.apply(runOf("b-rollback", "placementName: NAME-nobody, stagedRolloutStrategyName: NAME"))
	s.comes("csur/NAME-b-rollback", "Initialized", "False", "NAME-nobody")
	s.apply(strings.Replace(runOf("claims", "placementName: NAME, stagedRolloutStrategyName: NAME"), "metadata: {", "metadata: {labels: {slipway.dev/rollback-of: NAME-a}, ", 1))
	s.comes("csur/NAME-claims", "Initialized", "False", "slipway.dev/rollback-of is for runs that the hub makes")
	s.run("b", "")
	s.reject("careq/NAME-b-s2")
	s.bothHave("v1")
	s.comes("csur/NAME-b", "RollbackStarted", "True", "not shown as an object because there is another one of that name")
	users, err := s.get("csur/NAME-b-rollback")
	if err != nil {
		t.Fatal(err)
	}
	if users.GetLabels()["slipway.dev/rollback-of"] != "" {
		t.Errorf("the object has the labels %v", users.GetLabels())
	}
	s.comes("csur/NAME-b-rollback", "Initialized", "False", "NAME-nobody")
	s.delete("csur/NAME-b-rollback")
	s.comes("csur/NAME-b-rollback", "Succeeded", "True", "")
	s.eventually("the run to say so no longer", func() error {
		u, err := s.get("csur/NAME-b")
		if err != nil {
			return err
		}
		if _, text := conditionOf(u, "RollbackStarted"); strings.Contains(text, "not shown") {
			return errors.New(text)
		}
		return nil
	})
	s.copied()
}

// copied creates a copy of the object of a rollback under another name: it shows no run, and
// requests none.
func (s *scenario) copied() {
	s.Helper()
	u, err := s.get("csur/NAME-b-rollback")
	if err != nil {
		s.Fatal(err)
	}
	twin := &unstructured.Unstructured{Object: map[string]any{"spec": u.Object["spec"]}}
	twin.SetGroupVersionKind(u.GroupVersionKind())
	twin.SetName(s.name + "-copy")
	twin.SetLabels(u.GetLabels())
	twin.SetAnnotations(u.GetAnnotations())
	if err := s.applyTo(s.admin, twin); err != nil {
		s.Fatal(err)
	}
	s.comes("csur/NAME-copy", "Succeeded", "Unknown", "UpdateRunForgotten")
	if runs, err := s.served.Engine().Placement(s.name).RunNames(s.Context()); err != nil || slices.Contains(runs, s.name+"-copy") {
		s.Errorf("the runs are %v: %v", runs, err)
	}
}

// inANamespace creates v1 of the objects that a placement p in the story's namespace brings to its
// member.
func (s *scenario) inANamespace() {
	s.Helper()
	s.put("v1")
	s.eventually("the namespace on the member", func() error {
		return s.applyTo(s.member(1), s.objects(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)[0])
	})
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: p, namespace: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: External}`)
}

// TestARollbackInANamespace: the namespaced twins are rolled back in the same way.
func TestARollbackInANamespace(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.inANamespace()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: s, namespace: NAME}
spec: {stages: [{name: all, labelSelector: {}}], rollback: {}}`)
	run := `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateRun
metadata: {name: r, namespace: NAME}
spec: {placementName: p, stagedRolloutStrategyName: s, state: Run}`
	s.apply(run)
	s.comes("sur/NAME/r", "Succeeded", "True", "")
	s.eventually("the member", s.has(1, "config", "v1"))
	s.patch("sur/NAME/r", `{spec: {state: Rollback}}`)
	s.comes("sur/NAME/r-rollback", "Succeeded", "True", "")
	s.eventually("nothing on the member, which had nothing", s.has(1, "config", ""))
	u, err := s.get("sur/NAME/r-rollback")
	if err != nil {
		t.Fatal(err)
	}
	if index, found, _ := unstructured.NestedString(u.Object, "spec", "resourceSnapshotIndex"); found {
		t.Errorf("the index is %q", index)
	}
	if got, want := s.stagesOf("sur/NAME/r-rollback"), []string{"all-removal -1="}; len(got) != 1 || !strings.HasPrefix(got[0], "all-") || !strings.HasSuffix(got[0], " -1=") {
		t.Errorf("the stages are %q, want about %q", got, want)
	}
	s.comes("sur/NAME/r", "RollbackStarted", "True", "r-rollback")
}
