package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub"
)

// TestDeleteOfARunInTheMiddleReleasesThePlacement: a run that waits for its approval is deleted.
// Its request is deleted, too, the objects that it rolled out stay, and the next run starts at
// once.
func TestDeleteOfARunInTheMiddleReleasesThePlacement(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy(gate, "")
	s.scheduled()
	s.run("a", "")
	s.asked()
	s.run("b", "")
	s.comes("csur/NAME-b", "Progressing", "False", "NAME-a of the same placement")
	s.delete("csur/NAME-a")
	s.eventually("run and request to be gone", func() error {
		return errors.Join(s.gone(s.admin, "csur/NAME-a")(), s.gone(s.admin, "careq/NAME-a-s1")())
	})
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}
	s.approved("careq/NAME-b-s1")
	s.comes("csur/NAME-b", "Succeeded", "True", "")
}

// TestDeleteOfAPlacementLeavesItsRunsAsTheyEnded: runs that ended keep their status, a run under
// way reports its end, and all can be deleted. A placement with the same name begins again.
func TestDeleteOfAPlacementLeavesItsRunsAsTheyEnded(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy("", "")
	s.scheduled()
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.apply(strategyOf("gated", `{name: s1, labelSelector: {}, beforeStageTasks: [{type: Approval}]}`))
	s.apply(runOf("b", "placementName: NAME, stagedRolloutStrategyName: NAME-gated"))
	s.comes("csur/NAME-b", "Progressing", "False", "UpdateRunWaiting")
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	for i := range 2 {
		if err := s.has(i+1, "config", "")(); err != nil {
			t.Error(err)
		}
	}
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("the other run to say how it ended", func() error {
		u, err := s.get("csur/NAME-b")
		if err != nil {
			return err
		}
		if status, text := conditionOf(u, "Succeeded"); status != "False" && status != "Unknown" {
			return fmt.Errorf("Succeeded is %q (%s)", status, text)
		}
		return nil
	})
	s.put("v2")
	s.place("type: External")
	s.eventually("snapshots that begin again", func() error { return s.latest("v2") })
	s.snapshots("0")
	s.run("c", "")
	s.comes("csur/NAME-c", "Succeeded", "True", "")
	for _, run := range []string{"a", "b", "c"} {
		s.delete("csur/NAME-" + run)
		s.eventually("the run to be gone", s.gone(s.admin, "csur/NAME-"+run))
	}
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	s.eventually("nothing to be left", func() error { return errors.Join(s.gone(s.member(1), "ns/NAME")(), s.gone(s.member(2), "ns/NAME")()) })
}

// TestDeleteOfAPlacementWaitsForATerminatingNamespace: a finalizer of the member holds a namespace,
// or an object in it. The placement waits, names the holder, and is gone when the holder is.
func TestDeleteOfAPlacementWaitsForATerminatingNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		held string // the object with the finalizer
		says string
	}{
		"by a finalizer of its own": {
			held: "ns/NAME", says: "Namespace.v1 NAME is still there, its deletion waits for finalizer example.com/hold",
		},
		"by the object in it": {
			held: "cm/NAME/config", says: "ConfigMap.v1 NAME/config is still there, its deletion waits for finalizer example.com/hold",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 2)
			s.put("v1")
			s.place("type: RollingUpdate")
			s.within(time.Minute, "the object on both members", func() error {
				return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")())
			})
			if err := s.tryPatch(s.member(1), c.held, `{metadata: {finalizers: [example.com/hold]}}`); err != nil {
				t.Fatal(err)
			}
			s.delete("crp/NAME")
			s.within(40*time.Second, "the placement to say what is held", func() error {
				u, err := s.get("crp/NAME")
				if err != nil {
					return err
				}
				told, _, _ := unstructured.NestedMap(u.Object, "status", "deletion")
				if text := fmt.Sprint(told); fmt.Sprint(told["remaining"]) != "1" || !strings.Contains(text, s.own(c.says)) {
					return fmt.Errorf("the deletion is %v", told)
				}
				return nil
			})
			s.within(time.Minute, "the other member to be clean", s.gone(s.member(2), "ns/NAME"))
			s.stays("the placement to wait", 3*time.Second, func() error {
				_, err := s.get("crp/NAME")
				return err
			})
			if err := s.tryPatch(s.member(1), c.held, `{metadata: {finalizers: null}}`); err != nil {
				t.Fatal(err)
			}
			s.within(time.Minute, "the placement to be gone", s.gone(s.admin, "crp/NAME"))
			s.within(30*time.Second, "the namespace to be gone", s.gone(s.member(1), "ns/NAME"))
		})
	}
}

// TestT17RecreatedObjectsAreNew is threat T17: objects that are removed without their
// finalizers and created again are new. The new run is carried out, and the new placement does not
// keep the objects of the old one.
func TestT17RecreatedObjectsAreNew(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: only-old, namespace: NAME}, data: {key: old}}`)
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.force("csur/NAME-a")
	s.force("crp/NAME")
	s.delete("cm/NAME/only-old")
	s.put("v2")
	s.place("type: External")
	s.eventually("the member to be clean before any run", s.has(1, "config", ""))
	// none of the former placement's; the hub may have shown one more before it noticed the
	// deletion
	s.snapshots("0")
	s.eventually("snapshots that begin again", func() error { return s.latest("v2") })
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("what the new one places", s.has(1, "config", "v2"))
	s.eventually("what the old one placed to be gone", s.gone(s.member(1), "cm/NAME/only-old"))
}

// TestADeletionContinuesWithoutTheFinalizer: a placement is cleaned even if another client removes
// its finalizer after the deletion has begun.
func TestADeletionContinuesWithoutTheFinalizer(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("both to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	s.delete("crp/NAME")
	s.eventually("the deletion to have begun", func() error {
		obj, err := s.get("crp/NAME")
		if apierrors.IsNotFound(err) {
			return nil // and ended
		}
		if _, told, _ := unstructured.NestedMap(obj.Object, "status", "deletion"); err == nil && !told {
			err = errors.New("its status does not tell")
		}
		return err
	})
	s.strip("crp/NAME")
	s.eventually("nothing to be left", func() error { return errors.Join(s.gone(s.member(1), "ns/NAME")(), s.gone(s.member(2), "ns/NAME")()) })
}

// force deletes an object and removes its finalizers, like an impatient user.
func (s *scenario) force(what string) {
	s.Helper()
	s.delete(what)
	s.strip(what)
}

// strip removes the finalizers of an object that is being deleted, until it is gone.
func (s *scenario) strip(what string) {
	s.Helper()
	s.eventually(what+" to be gone", func() error {
		_ = s.tryPatch(s.admin, what, `{metadata: {finalizers: null}}`)
		return s.gone(s.admin, what)()
	})
}

// TestDeleteSkipsAnUnreachableMemberAndReportsIt: an unreachable member holds up the deletion until
// the deadline, and the status reports that. Then one Event names the remaining objects and their
// clusters, however long another finalizer keeps the placement.
func TestDeleteSkipsAnUnreachableMemberAndReportsIt(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("both to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	away := s.way(2)
	away.Host = "https://127.0.0.1:1"
	s.route.set(s.name+"-2", away)
	s.route.lose(s.name + "-2")
	s.mayWarn(`msg="left behind"`)
	s.patch("crp/NAME", `{metadata: {finalizers: [kubernetes-fleet.io/crp-cleanup, example.com/another]}}`)
	s.delete("crp/NAME")
	s.eventually("the hub to let the placement go", s.hasFinalizers("crp/NAME", "example.com/another"))
	for i := range 3 { // each change is reconciled
		s.patch("crp/NAME", fmt.Sprintf(`{metadata: {annotations: {example.com/try: "%d"}}}`, i))
		time.Sleep(200 * time.Millisecond)
	}
	s.patch("crp/NAME", `{metadata: {finalizers: []}}`)
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	s.eventually("an Event that names the member", func() error {
		all := strings.Join(s.events("crp/NAME", "LeftBehind"), "\n")
		if !strings.Contains(all, s.name+"-2") {
			return errors.New(all)
		}
		return nil
	})
	if n := s.countEvents("crp/NAME", "LeftBehind"); n != 1 {
		t.Errorf("the end of the deletion is reported %d times", n)
	}
	if err := s.has(1, "config", "")(); err != nil {
		t.Error(err)
	}
}

// TestHealthIsSeenWhenItHappens: a run waits until the Deployment of each member is available, and
// then continues. While it waits, the status names the Deployment.
func TestHealthIsSeenWhenItHappens(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.apply(deployment)
	s.place("type: External")
	s.strategy("", "")
	s.scheduled()
	s.run("a", "")
	s.eventually("the Deployment", func() error { _, err := s.read(s.member(1), "deploy/NAME/app"); return err })
	s.eventually("the status of the cluster to name the Deployment", func() error {
		return errors.Join(s.says("csur/NAME-a", "Deployment"), s.says("csur/NAME-a", "app"))
	})
	s.eventually("that of the placement too", func() error { return s.says("crp/NAME", "Deployment") })
	begun := time.Now()
	s.available(1)
	s.eventually("the next member", func() error { _, err := s.read(s.member(2), "deploy/NAME/app"); return err })
	t.Logf("the next member had it %v after the first was available", time.Since(begun))
	s.available(2)
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}

// says checks that the status of an object contains a text in a message.
func (s *scenario) says(what, text string) error {
	u, err := s.get(what)
	if err != nil {
		return err
	}
	for _, message := range messages(u.Object["status"]) {
		if strings.Contains(message, text) {
			return nil
		}
	}
	return fmt.Errorf("no message in the status of %s says %q", what, text)
}

// messages returns all messages in a status.
func messages(v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if text, ok := child.(string); ok && name == "message" {
				out = append(out, text)
			}
			out = append(out, messages(child)...)
		}
	case []any:
		for _, child := range v {
			out = append(out, messages(child)...)
		}
	}
	return out
}

// TestT7AMemberThatWasSwappedGetsNothing is threat T7: a kubeconfig now leads to another API
// server. The hub notices that before it writes anything, and the status reports it. A
// MemberCluster that is created again is trusted again.
func TestT7AMemberThatWasSwappedGetsNothing(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}")
	s.eventually("it", s.has(1, "config", "v1"))
	s.route.lose(s.name + "-1")
	s.route.set(s.name+"-1", s.way(2))
	s.put("v2")
	s.eventually("the status to tell", func() error { return s.says("crp/NAME", "swapped") })
	s.stays("nothing is on either", time.Second, func() error {
		return errors.Join(s.has(1, "config", "v1")(), s.gone(s.member(2), "ns/NAME")())
	})
	s.delete("mc/NAME-1")
	s.eventually("it to be gone", s.gone(s.admin, "mc/NAME-1"))
	s.apply(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: NAME-1, labels: {story: NAME, stage: s1}}, spec: {}}`)
	s.eventually("the new member to have it", s.has(2, "config", "v2"))
}

// TestDeleteAndApplyOfACopyMakesAnotherRun: a run from kubectl's output of another run, with the
// annotations and the status that the hub wrote there, is a new run.
func TestDeleteAndApplyOfACopyMakesAnotherRun(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	printed, err := s.get("csur/NAME-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "a"} {
		copied := printed.DeepCopy()
		copied.SetName(s.name + "-" + name)
		copied.SetUID("")
		copied.SetResourceVersion("")
		copied.SetManagedFields(nil)
		if name == "a" {
			s.delete("csur/NAME-a")
			s.eventually("the run to be gone", s.gone(s.admin, "csur/NAME-a"))
		}
		r, _ := s.on(s.admin, "csur/NAME-"+name)
		if _, err := r.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.comes("csur/NAME-"+name, "Succeeded", "True", "UpdateRunSucceeded")
	}
}

// TestT17ObjectsRecreatedWithoutAHubAreNew is threat T17 at its worst: objects are removed
// without their finalizers and created again while no hub serves. The next run needs its own
// approval, although the last run was approved. The next placement does not keep the objects of the
// last one.
func TestT17ObjectsRecreatedWithoutAHubAreNew(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("went without its finalizer")
	one := w.start("one")
	w.place("v1")
	w.staged("Approval")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.approvedOnce()
	w.end(one)

	w.force("csur")
	w.change("v2")
	w.run(w.name, "")
	old, err := w.at("careq").Get(t.Context(), w.name+"-canary", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two := w.start("two")
	w.eventually("another request", func() error {
		now, err := w.at("careq").Get(t.Context(), w.name+"-canary", metav1.GetOptions{})
		if err == nil && now.GetUID() == old.GetUID() {
			err = errors.New("it is still the old one")
		}
		return err
	})
	w.eventually("v2", func() error { return w.allHold("v2") })
	w.approvedOnce()
	w.end(two)

	w.force("csur")
	w.force("crp")
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}], strategy: {type: External}}`)
	// the namespace does not disappear on this member
	w.start("three", func(c *hub.Config) { c.DeleteDeadline = deleteDeadline })
	w.eventually("the member to be clean before any run", func() error { return w.allHold("") })
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.eventually("snapshots that begin again", func() error { return w.shown([]string{w.name + "-0-snapshot"}) })
}

// approvedOnce approves the run with the environment's name, and waits for its end.
func (w *hubEnv) approvedOnce() {
	w.t.Helper()
	w.eventually("the approval", func() error {
		_, err := w.at("careq").Patch(w.t.Context(), w.name+"-canary", mergePatch, []byte(approvalFile), metav1.PatchOptions{}, "status")
		return err
	})
	w.await("csur", w.name, "Succeeded", "True")
}

// force deletes an object with the environment's name and removes its finalizers.
func (w *hubEnv) force(short string) {
	w.t.Helper()
	w.patch(short, w.name, `{"metadata":{"finalizers":null}}`)
	if err := w.at(short).Delete(w.t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
