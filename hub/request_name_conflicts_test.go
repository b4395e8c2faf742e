package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// asks plays a placement of one member with two strategies: one asks before its stage s1, and one after it.
func asks(t *testing.T) *scenario {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.apply(strategyOf("early", "{name: s1, labelSelector: {}, beforeStageTasks: [{type: Approval}]}"))
	s.apply(strategyOf("late", "{name: s1, labelSelector: {}, "+gate+"}"))
	s.snapshots("0")
	return s
}

func (s *scenario) by(run, strategy string) {
	s.Helper()
	s.apply(runOf(run, "placementName: NAME, stagedRolloutStrategyName: NAME-"+strategy))
}

// Run x before stage s1 and run x-before after it would have one request: the second run is refused with a sentence,
// whichever it is, the request of the first stays what it is, and the answer to it counts. When the first is deleted,
// the second can be created again.
func TestARunWhoseRequestWouldHaveTheNameOfAnothersIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, by, second, byThen, says string }{
		"after, then before": {"x-before", "late", "x", "early", "its request before stage s1 would have the name NAME-x-before-s1 of that of updateRun NAME-x-before after stage s1"},
		"before, then after": {"x", "early", "x-before", "late", "its request after stage s1 would have the name NAME-x-before-s1 of that of updateRun NAME-x before stage s1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := asks(t)
			alice := s.as("alice-"+s.name, "slipway-approver")
			request := "careq/NAME-x-before-s1"
			s.by(c.first, c.by)
			asked := s.seen(request)
			s.by(c.second, c.byThen)
			s.comes("csur/NAME-"+c.second, "Initialized", "False", c.says)
			s.comes("csur/NAME-"+c.second, "Initialized", "False", "choose another name")
			s.stays("the request of the first", 500*time.Millisecond, func() error { return s.same(request, asked.GetUID()) })
			s.eventually("alice to approve", func() error { return s.again(alice, request) })
			s.comes("csur/NAME-"+c.first, "Succeeded", "True", "")
			s.eventually("an Event about the second", func() error { return s.told("csur/NAME-"+c.second, "UpdateRunInitializedFailed") })

			s.remove("csur/NAME-" + c.second)
			s.by(c.second, c.byThen)
			s.comes("csur/NAME-"+c.second, "Initialized", "False", "which is there")
			s.remove("csur/NAME-" + c.second)
			s.remove("csur/NAME-" + c.first)
			s.by(c.second, c.byThen)
			s.eventually("the request of the second", func() error { return s.other(request, asked.GetUID()) })
			s.eventually("alice to approve", func() error { return s.again(alice, request) })
			s.comes("csur/NAME-"+c.second, "Succeeded", "True", "")
		})
	}
}

// Of two runs of one name for their requests that are created at once exactly one is begun.
func TestOneOfTwoRunsWithOneRequestIsBegun(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(strategyOf("early", "{name: s1, labelSelector: {}, beforeStageTasks: [{type: Approval}]}"))
	s.apply(strategyOf("late", "{name: s1, labelSelector: {}, "+gate+"}"))
	s.place("type: External")
	s.snapshots("0")
	for i := range 4 {
		pair := fmt.Sprint(i)
		var both sync.WaitGroup
		for run, strategy := range map[string]string{pair: "early", pair + "-before": "late"} {
			u := s.objects(runOf(run, "placementName: NAME, stagedRolloutStrategyName: NAME-"+strategy))[0]
			both.Go(func() {
				if err := s.applyTo(s.admin, u); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		s.eventually("one of the two to begin and the other to be refused", func() error {
			begun := func(run string) error { return s.condition("csur/NAME-"+run, "Initialized", "True", "")() }
			refused := func(run string) error {
				return s.condition("csur/NAME-"+run, "Initialized", "False", "would have the name NAME-"+pair+"-before-s1")()
			}
			one := errors.Join(begun(pair), refused(pair+"-before"))
			if other := errors.Join(begun(pair+"-before"), refused(pair)); other != nil && one != nil {
				return errors.Join(one, other)
			}
			return nil
		})
	}
}

// remove deletes an object and waits until it is gone.
func (s *scenario) remove(what string) {
	s.Helper()
	s.delete(what)
	s.eventually(what+" to be gone", s.gone(s.admin, what))
}

// same is an error unless a request is the object that it was.
func (s *scenario) same(what string, uid types.UID) error {
	u, err := s.get(what)
	if err == nil && u.GetUID() != uid {
		err = errors.New("it is another object")
	}
	return err
}

// A run that the engine makes by itself cannot be refused: where its request has the name of that of another run, that
// one stays, and the run that needs the name says why it waits until it is gone.
func TestARollbackWhoseRequestHasTheNameOfAnothersWaits(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.apply(strategyOf("late", "{name: s2, labelSelector: {}, "+gate+"}"))
	s.rollingBack("", ", rollback: {causes: [Command], approval: {}}")
	s.snapshots("0")
	s.by("a-rollback-before", "late")
	request := "careq/NAME-a-rollback-before-s2"
	s.approved(request)
	s.comes("csur/NAME-a-rollback-before", "Succeeded", "True", "")
	first := s.seen(request)
	s.put("v2")
	s.snapshots("0", "1")
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.patch("csur/NAME-a", `{spec: {state: Rollback}}`)
	const says = "the request before stage s2 has the name NAME-a-rollback-before-s2 of that of run NAME-a-rollback-before after stage s2"
	s.comes("csur/NAME-a-rollback", "Progressing", "False", says)
	s.eventually("an Event that says so", func() error { return s.told("csur/NAME-a-rollback", "RequestNameTaken") })
	s.stays("the request of the other run", time.Second, func() error {
		return errors.Join(s.same(request, first.GetUID()), s.condition(request, "ApprovalAccepted", "True", "")(), s.has(2, "config", "v2")())
	})
	s.delete("csur/NAME-a-rollback-before")
	s.eventually("the request of the rollback", func() error { return s.other(request, first.GetUID()) })
	s.comes("csur/NAME-a-rollback", "Progressing", "False", "waiting for before-stage tasks in stage s2")
	s.approved(request)
	s.comes("csur/NAME-a-rollback", "Succeeded", "True", "")
	s.bothHave("v1")
}

// An object that has the name of a request which was decided, and that the hub did not make, is not told that it was.
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

// An answer that is in a request when that is deleted with its run is lost, and an Event on either says whose it was.
func TestAnAnswerThatIsDeletedWithItsRunIsTold(t *testing.T) {
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
