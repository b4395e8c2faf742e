package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
)

var tenSeconds = simulate.Member{Take: 10 * second}

func TestARunEndsWhenItsLastClusterDoes(t *testing.T) {
	p := plan(t, strategy(2, func(s *stages.Strategy) { s.Stages[1].MaxConcurrency = number(2) }), fleet(1, 3))
	w := simulate.Environment{Default: tenSeconds, Members: map[string]simulate.Member{"c3": {Take: minute}}}
	end := script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterApplied s1 c1
		10s ClusterCompleted s1 c1
		10s StageCompleted s1
		10s StageStarted s2
		10s ClusterStarted s2 c2
		10s ClusterStarted s2 c3
		20s ClusterApplied s2 c2
		20s ClusterCompleted s2 c2
		20s ClusterStarted s2 c4
		30s ClusterApplied s2 c4
		30s ClusterCompleted s2 c4
		1m10s ClusterApplied s2 c3
		1m10s ClusterCompleted s2 c3
		1m10s StageCompleted s2
		1m10s RunCompleted`)
	want := simulate.End{
		At: metav1.Duration{Duration: 70 * second}, Reason: simulate.Ended, State: stages.Completed, Peak: 2,
		Stages: []simulate.StageEnd{
			{Name: "s1", State: stages.Completed, Started: &metav1.Duration{}, Ended: &metav1.Duration{Duration: 10 * second}, Peak: 1, Limit: 1},
			{Name: "s2", State: stages.Completed, Started: &metav1.Duration{Duration: 10 * second}, Ended: &metav1.Duration{Duration: 70 * second}, Peak: 2, Limit: 2},
		},
		Clusters: []simulate.ClusterEnd{
			{Name: "c1", Stage: "s1", State: stages.Completed},
			{Name: "c2", Stage: "s2", State: stages.Completed},
			{Name: "c3", Stage: "s2", State: stages.Completed},
			{Name: "c4", Stage: "s2", State: stages.Completed},
		},
	}
	end.Run = step.Run{}
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

func TestAClusterThatFailsIsTriedAgainAfterTheBackoff(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Backoff.Duration = 5 * second }), fleet(1))
	w := simulate.Environment{Members: map[string]simulate.Member{"c1": {Take: 10 * second, Fail: 2}}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterRetrying s1 c1: attempt 1 fails
		25s ClusterRetrying s1 c1 attempt=2: attempt 2 fails
		45s ClusterApplied s1 c1 attempt=3
		45s ClusterCompleted s1 c1 attempt=3
		45s StageCompleted s1
		45s RunCompleted`)
}

func TestAClusterThatCannotBeReachedYieldsToTheNext(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(2))
	w := simulate.Environment{Default: tenSeconds, Members: map[string]simulate.Member{
		"c1": {Take: 10 * second, Unreachable: []simulate.Interval{{To: 5 * second}}},
	}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		0s ClusterPending s1 c1: not reachable
		0s ClusterStarted s1 c2
		10s ClusterApplied s1 c2
		10s ClusterCompleted s1 c2
		20s ClusterApplied s1 c1
		20s ClusterCompleted s1 c1
		20s StageCompleted s1
		20s RunCompleted`)
}

// The tries are 200 ms, 400 ms, 800 ms, 1.6 s, 3.2 s and 5 s apart, as a worker of
// the engine makes them.
func TestUnreachableClusterKeepsItsSlotAndIsRetried(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Members: map[string]simulate.Member{
		"c1": {Take: 10 * second, Unreachable: []simulate.Interval{{From: 5 * second, To: 17 * second}}},
	}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		21.2s ClusterApplied s1 c1
		21.2s ClusterCompleted s1 c1
		21.2s StageCompleted s1
		21.2s RunCompleted`)
}

func TestLosingHealthStartsTheMinimumHealthyTimeAgain(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.MinHealthy.Duration = minute }), fleet(1))
	w := simulate.Environment{Members: map[string]simulate.Member{
		"c1": {Take: 10 * second, Unhealthy: []simulate.Interval{{From: 30 * second, To: 40 * second}}},
	}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterApplied s1 c1
		30s ClusterUnhealthy s1 c1: not healthy
		1m40s ClusterCompleted s1 c1
		1m40s StageCompleted s1
		1m40s RunCompleted`)
}

func TestAnUnhealthyClusterCompletesWhenItIsHealthy(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Members: map[string]simulate.Member{
		"c1": {Take: 10 * second, Unhealthy: []simulate.Interval{{To: 40 * second}}},
	}}
	end := script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterApplied s1 c1
		40s ClusterCompleted s1 c1
		40s StageCompleted s1
		40s RunCompleted`)
	if end.At.Duration != 40*second {
		t.Errorf("it ended at %s", end.At.Duration)
	}
}

func TestClustersInFlightContinueDuringAStop(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(2))
	w := simulate.Environment{Default: simulate.Member{Take: 7 * minute}, Orders: []simulate.Order{
		order(minute, stages.Stop), order(8*minute, stages.Start),
	}}
	// The run is Stopped after 5 minutes, although c1 is not done. c1 becomes healthy a minute
	// before the run is resumed.
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		1m0s RunStopping: stopped by ann
		6m0s RunStopped: stopped by ann
		8m0s RunResumed
		8m0s ClusterApplied s1 c1
		8m0s ClusterCompleted s1 c1
		8m0s ClusterStarted s1 c2
		15m0s ClusterApplied s1 c2
		15m0s ClusterCompleted s1 c2
		15m0s StageCompleted s1
		15m0s RunCompleted`)
}

func TestAFailedRunWaitsForALaterStart(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Profile = stages.ClusterUpdate }), fleet(2))
	w := simulate.Environment{Default: tenSeconds, Members: map[string]simulate.Member{"c1": {Take: 10 * second, Fail: 1}}}
	end := script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterFailed s1 c1: attempt 1 fails
		10s RunStopping: 1 cluster of stage s1 has failed, and none may
		10s RunFailed: 1 cluster of stage s1 has failed, and none may`)
	if end.Reason != simulate.Ended || end.At.Duration != 10*second || end.State != stages.Failed {
		t.Errorf("without an order it ended as %s, %s, at %s", end.Reason, end.State, end.At.Duration)
	}
	w.Orders = []simulate.Order{order(time.Hour, stages.Start)}
	if _, end = play(t, p, w); end.State != stages.Completed || end.At.Duration != time.Hour+20*second {
		t.Errorf("with one it ended as %s at %s", end.State, end.At.Duration)
	}
}

func TestARefusedOrderIsAnEventAndEndsNothing(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{
		decide(minute, approval.Approve, "s1"), order(5*second, stages.Retry), order(time.Hour, stages.Stop),
	}}
	got, end := play(t, p, w)
	for _, want := range []string{"\n5s CommandRefused Retry: ", "\n1m0s CommandRefused Decide: ", "\n1h0m0s CommandRefused Stop: "} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if end.State != stages.Completed || end.At.Duration != time.Hour {
		t.Errorf("it ended as %s at %s", end.State, end.At.Duration)
	}
}

func TestDecisionAtTheOpeningOfARequest(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Stages[0].After = []stages.Task{{Type: stages.Approval}} }), fleet(1))
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{decide(10*second, approval.Approve, "s1")}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterApplied s1 c1
		10s ClusterCompleted s1 c1
		10s ApprovalRequested s1
		10s ApprovalAccepted s1
		10s StageCompleted s1
		10s RunCompleted`)
}

func TestDecisionWithoutAGroupName(t *testing.T) {
	clusters := fleet(2)
	clusters[0].Labels["g"], clusters[1].Labels["g"] = "a", "b"
	s := strategy(1, func(s *stages.Strategy) {
		s.Stages[0].Groups = []stages.Group{
			{Name: "a", Selector: selector("g", "a"), Before: []stages.Task{{Type: stages.Approval}}},
			{Name: "b", Selector: selector("g", "b"), Before: []stages.Task{{Type: stages.Approval}}},
		}
	})
	p := plan(t, s, clusters)
	group := decide(3*second, approval.Approve, "s1")
	group.Command.Decision.Binding.Group = "b"
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{
		decide(second, approval.Approve, "s1"), group, decide(5*second, approval.Approve, "s1"),
	}}
	got, end := play(t, p, w)
	for _, want := range []string{"\n1s CommandRefused Decide", "\n3s ApprovalAccepted s1 b", "\n5s ApprovalAccepted s1 a"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if end.State != stages.Completed || len(end.Gates) != 2 || end.Gates[0].Group != "a" || end.Gates[0].Held.Duration != 5*second {
		t.Errorf("it ended as %s, with gates %+v", end.State, end.Gates)
	}
}

func TestOrdersAtTheStart(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(2))
	skip := order(0, stages.Skip)
	skip.Command.Scope, skip.Command.Name = stages.SkipCluster, "c1"
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{order(0, stages.Stop), skip}}
	end := script(t, p, w, `
		0s ClusterSkipped s1 c1: skipped by ann
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c2
		0s RunStopping: stopped by ann
		10s ClusterApplied s1 c2
		10s ClusterCompleted s1 c2
		10s RunStopped: stopped by ann`)
	if end.Reason != simulate.Stuck || end.State != stages.Stopped || len(end.Waiting) == 0 {
		t.Errorf("it ended as %s, %s, and waits for %v", end.Reason, end.State, end.Waiting)
	}
}

func TestStuckSimulationEnds(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Stages[0].After = []stages.Task{{Type: stages.Approval}} }), fleet(1))
	_, end := play(t, p, simulate.Environment{Default: tenSeconds, Until: time.Hour})
	if end.Reason != simulate.Stuck || end.At.Duration != 10*second || end.State != stages.Running {
		t.Errorf("it ended as %s, %s, at %s", end.Reason, end.State, end.At.Duration)
	}
	if len(end.Waiting) != 1 || end.Waiting[0].Kind != stages.AwaitDecision || end.Waiting[0].Name != "run-after-s1" {
		t.Errorf("it waits for %+v", end.Waiting)
	}
}

func TestUntilIncludesEventsAtItsTime(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(3))
	for until, completed := range map[time.Duration]int{19 * second: 1, 20 * second: 2, 25 * second: 2} {
		got, end := play(t, p, simulate.Environment{Default: tenSeconds, Until: until})
		if n := strings.Count(got, "ClusterCompleted"); n != completed || end.Reason != simulate.Cut || end.At.Duration != until {
			t.Errorf("until %s there are %d clusters, and it ended as %s at %s", until, n, end.Reason, end.At.Duration)
		}
	}
}

func TestOrdersAfterUntilAreIgnored(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Default: tenSeconds, Until: minute, Orders: []simulate.Order{order(time.Hour, stages.Stop)}}
	if _, end := play(t, p, w); end.Reason != simulate.Ended || end.At.Duration != 10*second {
		t.Errorf("it ended as %s at %s", end.Reason, end.At.Duration)
	}
}

func TestRemovedClusterIsSkipped(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Profile = stages.ClusterUpdate }), fleet(4))
	w := simulate.Environment{
		Default: tenSeconds, Members: map[string]simulate.Member{"c2": {Take: 10 * second, Fail: simulate.Always}},
		Churn: []simulate.Change{
			{At: minute, Cluster: "c2"},
			{At: 5 * second, Cluster: "c1"},
			{At: 6 * second, Cluster: "c1", Back: true},
			{At: minute, Cluster: "c4"},
			{At: minute, Cluster: "missing"},
			{At: 70 * second, Cluster: "c4", Back: true},
		},
		Orders: []simulate.Order{order(2*minute, stages.Start)},
	}
	// c2 leaves while the run is Failed and processes no input. c4 leaves and returns before the
	// run processes input again.
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		5s ClusterSkipped s1 c1: Removed: the cluster has left the inventory
		5s ClusterStarted s1 c2
		15s ClusterFailed s1 c2: attempt 1 fails
		15s RunStopping: 1 cluster of stage s1 has failed, and none may
		15s RunFailed: 1 cluster of stage s1 has failed, and none may
		2m0s RunResumed attempt=2
		2m0s ClusterSkipped s1 c2: Removed: the cluster has left the inventory
		2m0s ClusterStarted s1 c3
		2m10s ClusterApplied s1 c3
		2m10s ClusterCompleted s1 c3
		2m10s ClusterStarted s1 c4
		2m20s ClusterApplied s1 c4
		2m20s ClusterCompleted s1 c4
		2m20s StageCompleted s1
		2m20s RunCompleted`)
}

func TestDecisionOfTheLastGate(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) {
		s.Stages[0].Before = []stages.Task{{Type: stages.Approval}}
		s.Stages[0].After = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: minute}}, {Type: stages.Approval}}
	}), fleet(1))
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{
		decide(0, approval.Approve, "s1"), decide(30*second, approval.Approve, "s1"),
	}}
	_, end := play(t, p, w)
	want := []simulate.GateEnd{
		{Stage: "s1", When: approval.Before, Type: stages.Approval, State: stages.Completed, By: "bob"},
		{Stage: "s1", When: approval.After, Type: stages.TimedWait, State: stages.Completed, Opened: metav1.Duration{Duration: 10 * second}, Held: metav1.Duration{Duration: minute}, Decided: true},
		{Stage: "s1", When: approval.After, Type: stages.Approval, State: stages.Completed, Opened: metav1.Duration{Duration: 10 * second}, Held: metav1.Duration{Duration: 20 * second}, By: "bob"},
	}
	if diff := cmp.Diff(want, end.Gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}
