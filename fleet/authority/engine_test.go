package authority_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/authority"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// gate is a run whose only stage has a gate before it, and an engine that drives it.
type gate struct {
	t      *testing.T
	engine *fleet.Engine
	opened time.Time
}

func newGate(t *testing.T, a approval.Authority, before ...stages.Task) *gate {
	t.Helper()
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1"})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"},
	}})
	e, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source, Authority: a})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t, e, time.Now()}
	shop := fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}
	g.must(e.PutPlacement(t.Context(), shop))
	strategy := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Before: before}}}
	_, err = e.CreateRun(t.Context(), fleet.RunSpec{Name: "run", Placement: "shop", Strategy: strategy})
	g.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

func (g *gate) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// is checks the state of the run after a while.
func (g *gate) is(after time.Duration, want stages.State) {
	g.t.Helper()
	time.Sleep(after)
	s, err := g.engine.Run("run").Status(g.t.Context())
	g.must(err)
	if s.Run.State != want {
		g.t.Errorf("after %v the run is %s, want %s", time.Since(g.opened), s.Run.State, want)
	}
}

func (g *gate) approve(name string, groups ...string) {
	g.t.Helper()
	g.must(g.engine.Run("run").Command(g.t.Context(), stages.Command{
		Verb: stages.Decide, Name: "run-before-all", By: approval.Identity{Name: name, Groups: groups}, Decision: &approval.Decision{Verdict: approval.Approve},
	}))
}

// metric approves while it is good, and records when it was measured.
type metric struct {
	name, group string
	mu          sync.Mutex
	good        bool
	measured    []time.Duration
}

func (m *metric) Decide(_ context.Context, r approval.Request) (approval.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.measured = append(m.measured, time.Since(r.Opened))
	if !m.good {
		return approval.Decision{}, nil
	}
	return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: m.name, Groups: []string{m.group}}, PointInTime: true}, nil
}

func (m *metric) is(good bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.good, m.measured = good, nil
}

func (m *metric) times() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.measured)
}

func approvalOf(groups ...string) stages.Task {
	var p approval.Policy
	for _, g := range groups {
		p.Quorums = append(p.Quorums, approval.Quorum{Group: g, Count: 1})
	}
	return stages.Task{Type: stages.Approval, Approval: &p}
}

// TestAnEngineWithTwoAuthorities checks a gate with a momentary and a lasting authority: it opens
// once the momentary authority approves after the other has approved.
func TestAnEngineWithTwoAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := &metric{name: "errors", group: "metrics", good: true}
		opensAt := time.Now().Add(time.Hour)
		calendar := approval.Func(func(_ context.Context, r approval.Request) (approval.Decision, error) {
			if time.Now().Before(opensAt) {
				return approval.Decision{}, nil
			}
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "calendar", Groups: []string{"change"}}}, nil
		})
		g := newGate(t, authority.PerGroup(map[string]approval.Authority{
			"change": calendar, "metrics": authority.Last(errs, "metrics"),
		}), approvalOf("change", "metrics"))
		g.is(time.Hour-time.Minute, stages.Running)
		if n := len(errs.times()); n > 0 {
			t.Errorf("measured %d times before it was its turn", n)
		}
		errs.is(false)
		g.is(10*time.Minute, stages.Running)
		errs.is(true)
		g.is(time.Minute, stages.Completed)
	})
}

// TestAllHoldsAsLongAsItsWeakestMember checks that All is momentary if a member is: members that
// approved before the last person did are asked again.
func TestAllHoldsAsLongAsItsWeakestMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := &metric{name: "errors", group: "robots", good: true}
		g := newGate(t, authority.All(errs, says("approve scan robots")), approvalOf("robots", "sre"))
		g.is(10*time.Minute, stages.Running)
		errs.is(false)
		g.is(2*time.Minute, stages.Running)
		g.approve("ann", "sre")
		g.is(10*time.Minute, stages.Running)
		errs.is(true)
		g.is(time.Minute, stages.Completed)
	})
}

// TestMomentaryGroupsApproveTogether checks that two momentary groups of one combination approve in
// one decision.
func TestMomentaryGroupsApproveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, load := &metric{name: "errors", group: "metrics", good: true}, &metric{name: "load", group: "capacity"}
		g := newGate(t, authority.PerGroup(map[string]approval.Authority{
			"metrics": authority.Last(errs, "metrics", "capacity"), "capacity": authority.Last(load, "metrics", "capacity"),
		}), approvalOf("metrics", "capacity", "sre"))
		g.is(time.Minute, stages.Running)
		g.approve("ann", "sre")
		g.is(time.Minute, stages.Running)
		load.is(true)
		g.is(time.Minute, stages.Completed)
	})
}

// TestPerGroupFreesAnApproverForAnotherGroup checks that an authority is asked although its group is
// complete, if with its approval an earlier approver counts in another group.
func TestPerGroupFreesAnApproverForAnotherGroup(t *testing.T) {
	for name, sre := range map[string]approval.Authority{
		"lasting":   authority.WithDeadline(says("nothing"), time.Hour, approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "bob", Groups: []string{"sre"}}}),
		"momentary": authority.Last(&metric{name: "bob", group: "sre", good: true}, "sre"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := approvalOf("sre", "dev")
				policy.Approval.DistinctApprovers = true
				g := newGate(t, authority.PerGroup(map[string]approval.Authority{"sre": sre}), policy)
				g.is(time.Minute, stages.Running)
				g.approve("ann", "sre", "dev")
				g.is(time.Hour, stages.Completed)
			})
		})
	}
}

// TestLastBesideNoDrift checks that a measurement that is asked last and the engine's own drift
// gate do not wait for each other.
func TestLastBesideNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := &metric{name: "errors", group: "metrics", good: true}
		policy := approvalOf("sre", "metrics", fleet.NoDriftGroup)
		g := newGate(t, authority.Last(errs, "metrics", fleet.NoDriftGroup), policy)
		g.is(time.Minute, stages.Running)
		g.approve("ann", "sre")
		g.is(time.Minute, stages.Completed)
	})
}

// TestADeadlineOfAnEngine checks that a deadline is kept to the second, and that its answer counts
// in the groups of the policy.
func TestADeadlineOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, authority.WithDeadline(says("nothing"), time.Hour, approval.Decision{}), approvalOf("sre", fleet.NoDriftGroup))
		g.is(time.Hour-time.Second, stages.Running)
		g.is(3*time.Second, stages.Failed)
	})
}
