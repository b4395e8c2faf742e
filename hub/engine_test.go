package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"

	approvals "github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// A member that cannot be reached, each time for another reason, is retried after a while, and not
// as soon as the hub has written the reason. The metrics report that the hub leads.
func TestUnreachableMemberIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 0)
	w.create(memberOf(w.name+"-m", nil))
	var asked atomic.Int64
	registry := prometheus.NewRegistry()
	started := time.Now()
	h := w.start("one", func(c *hub.Config) {
		c.Registry = registry
		c.Dialer = backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
			return nil, fmt.Errorf("reset by port %d", asked.Add(1))
		})
	})
	w.await("mc", w.name+"-m", "Healthy", "False")
	select {
	case <-h.ended:
	case <-time.After(2 * time.Second):
	}
	// Once at the beginning, once for each fact that the hub finds then, and at most once a second.
	if n, took := asked.Load(), time.Since(started); n > 3+int64(took/time.Second) {
		t.Errorf("it was asked %d times in %v", n, took)
	}
	if got := leads(t, registry); got != 1 {
		t.Errorf("slipway_hub_leading is %v while it leads", got)
	}
	w.end(h)
	if got := leads(t, registry); got != 0 {
		t.Errorf("slipway_hub_leading is %v when it has ended", got)
	}
}

func leads(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "slipway_hub_leading" {
			return m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// A problem whose text differs each time is not written each time.
func TestStatusWritesDoNotRepeatForChangingTexts(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 0)
	w.mayWarn("inventory: try")
	var tries atomic.Int64
	h := w.start("one", func(c *hub.Config) {
		c.Inventory = backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			return func(yield func(placement.Cluster, error) bool) {
				yield(placement.Cluster{}, fmt.Errorf("try %d", tries.Add(1)))
			}
		})
	})
	w.place("v1")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "False")
	h.counts.Reset()
	select {
	case <-h.ended:
	case <-time.After(3 * time.Second):
	}
	// Retries come after 50 ms, 100 ms, 200 ms and so on.
	if n := h.counts.Verb("update"); n > 12 {
		t.Errorf("the status was written %d times in 3 s", n)
	}
}

// The reasons why several answers do not count are reported together, and written once.
func TestSeveralRefusedAnswersAreReportedTogether(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	alice, bob := s.as("alice", "slipway-approver"), s.as("bob", "slipway-approver")
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME-editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-cluster-editor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]`)
	s.put("v1")
	s.place("type: External")
	s.strategy(`beforeStageTasks: [{type: Approval, approval: {forbidStarter: true, quorums: [{count: 1, group: security}]}}]`)
	s.scheduled()
	run := s.objects(runOf("a", "placementName: NAME, stagedRolloutStrategyName: NAME"))[0]
	s.eventually("alice to start it", func() error { return s.applyTo(alice, run) })
	request := "careq/NAME-a-before-s1"
	s.eventually("the request", func() error { _, err := s.get(request); return err })
	for _, who := range []dynamic.Interface{alice, bob} {
		s.eventually("an answer", func() error { return s.again(who, request) })
	}
	both := func() error {
		return errors.Join(s.condition(request, "ApprovalAccepted", "False", "start")(), s.condition(request, "ApprovalAccepted", "False", "security")())
	}
	s.eventually("both reasons", both)
	before, err := s.get(request)
	if err != nil {
		t.Fatal(err)
	}
	s.stays("nothing is written", time.Second, func() error {
		now, err := s.get(request)
		if err == nil && now.GetResourceVersion() != before.GetResourceVersion() {
			err = errors.New("the request was written again")
		}
		return err
	})
	// Bob joins the group and answers again.
	bob = s.as("bob", "slipway-approver", "security")
	s.eventually("bob's answer", func() error { return s.again(bob, request) })
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

// A run that the host stopped stays stopped: its unchanged spec.state is no command to start it.
func TestARunThatTheHostStoppedStaysStopped(t *testing.T) {
	s := gated(t, openVouched, gate)
	name := s.name + "-a"
	err := s.served.Engine().Run(name).Command(t.Context(), stages.Command{Verb: stages.Stop, By: approvals.Identity{Name: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunStopped")
	s.stays("it is stopped", time.Second, s.condition("csur/NAME-a", "Progressing", "False", "UpdateRunStopped"))
}
