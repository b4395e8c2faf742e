package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// asks plays a placement of one member with two strategies: one with an approval before its stage
// s1, and one with an approval after it.
func asks(t *testing.T, open func(*testing.T) *sharedCluster) *scenario {
	s := newScenario(t, open, 1)
	s.put("v1")
	s.place("type: External")
	s.apply(strategyOf("early", "{name: s1, labelSelector: {}, beforeStageTasks: [{type: Approval}]}"))
	s.apply(strategyOf("late", "{name: s1, labelSelector: {}, "+gate+"}"))
	s.scheduled()
	return s
}

func (s *scenario) by(run, strategy string) {
	s.Helper()
	s.apply(runOf(run, "placementName: NAME, stagedRolloutStrategyName: NAME-"+strategy))
}

// With the naming of KubeFleet 0.18, the requests of two runs have different names, for any names
// of the runs and on either side of a stage.
func TestRequestNamesOfTwoRunsDiffer(t *testing.T) {
	s := asks(t, openKubeFleet018)
	s.by("x-before", "late")
	s.comes("csur/NAME-x-before", "Progressing", "False", "waiting for after-stage tasks")
	s.by("x", "early")
	s.approved("careq/NAME-x-before-after-s1")
	s.comes("csur/NAME-x-before", "Succeeded", "True", "")
	s.approved("careq/NAME-x-before-s1")
	s.comes("csur/NAME-x", "Succeeded", "True", "")
}

// remove deletes an object and waits until it is gone.
func (s *scenario) remove(what string) {
	s.Helper()
	s.delete(what)
	s.eventually(what+" to be gone", s.gone(s.admin, what))
}

// same returns an error unless a request is still the same object.
func (s *scenario) same(what string, uid types.UID) error {
	u, err := s.get(what)
	if err == nil && u.GetUID() != uid {
		err = errors.New("it is another object")
	}
	return err
}

// The request of a run before a stage may have the same name as the request of another run after
// it. The first request stays, and the run that needs the name reports why it waits.
func TestARequestWithTheNameOfAnotherRunsWaits(t *testing.T) {
	s := asks(t, openVouched)
	request := "careq/NAME-x-before-s1"
	s.by("x-before", "late")
	s.approved(request)
	s.comes(request, "ApprovalAccepted", "True", "")
	s.comes("csur/NAME-x-before", "Succeeded", "True", "")
	first := s.seen(request)
	s.by("x", "early")
	s.comes("csur/NAME-x", "Progressing", "False", "the request before stage s1 needs the name NAME-x-before-s1, which the request of run NAME-x-before after stage s1 has")
	s.eventually("an Event that says so", func() error { return s.told("csur/NAME-x", "RequestNameTaken") })
	s.stays("the request of the other run", time.Second, func() error { return s.same(request, first.GetUID()) })
	s.delete("csur/NAME-x-before")
	s.eventually("the request of the run", func() error { return s.other(request, first.GetUID()) })
	s.approved(request)
	s.comes("csur/NAME-x", "Succeeded", "True", "")
}

// An object with the name of a decided request that the hub did not create is not marked as
// accepted.
func TestARequestThatTheHubDidNotMakeIsNotAccepted(t *testing.T) {
	s := gated(t, openVouched, gate)
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.remove("careq/NAME-a-s1")
	forged := s.forge("")
	s.patch("csur/NAME-a", `{metadata: {labels: {look: again}}}`)
	s.stays("the forged request", 2*time.Second, func() error {
		return errors.Join(s.same("careq/NAME-a-s1", forged.GetUID()), s.condition("careq/NAME-a-s1", "ApprovalAccepted", "", "")())
	})
}

// An answer in a request that is deleted with its run is lost, and an Event on both names its
// author.
func TestAnAnswerThatIsDeletedWithItsRunIsReported(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.place("v1")
	w.staged("Approval")
	first := w.start("first")
	run := "a-" + w.name
	request := run + "-canary"
	w.run(run, "")
	w.eventually("the request", func() error {
		_, err := w.at("careq").Get(t.Context(), request, metav1.GetOptions{})
		return err
	})
	w.end(first)
	w.approve(request)
	if err := w.at("csur").Delete(t.Context(), run, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start("second")
	w.eventually("the run to be gone", func() error {
		if _, err := w.at("csur").Get(t.Context(), run, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	for _, about := range []string{run, request} {
		w.eventually("an Event on "+about, func() error {
			list, err := w.on(w.client, "event", "").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=AnswerNotCounted,involvedObject.name=" + about})
			if err != nil || len(list.Items) == 0 {
				return fmt.Errorf("%d events: %w", len(list.Items), err)
			}
			if message := fmt.Sprint(list.Items[0].Object["message"]); !strings.Contains(message, "the answer Approve by ") || !strings.Contains(message, "is deleted: run "+run+" is deleted") {
				return errors.New(message)
			}
			return nil
		})
	}
}
