package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// A worker of the engine looks a second after an update that was healthy.
func TestShortHealthLossAfterAnUpdateIsMissed(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.MinHealthy.Duration = minute }), fleet(1))
	for lost, want := range map[simulate.Interval]time.Duration{
		{From: 10200 * time.Millisecond, To: 11 * second}: 70 * second,
		{From: 12 * second, To: 13 * second}:              73 * second,
	} {
		w := simulate.Environment{Members: map[string]simulate.Member{"c1": {Take: 10 * second, Unhealthy: []simulate.Interval{lost}}}}
		if _, end := play(t, p, w); end.At.Duration != want {
			t.Errorf("lost from %s to %s, it ended at %s, want %s", lost.From, lost.To, end.At.Duration, want)
		}
	}
}

// A cluster that an earlier attempt may have changed keeps its slot, as in the engine.
func TestAClusterThatCannotBeReachedForASecondAttemptKeepsItsSlot(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(2))
	w := simulate.Environment{Default: tenSeconds, Members: map[string]simulate.Member{
		"c1": {Take: 10 * second, Fail: 1, Unreachable: []simulate.Interval{{From: 10500 * time.Millisecond, To: 20 * second}}},
	}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		10s ClusterRetrying s1 c1: attempt 1 fails
		32.2s ClusterApplied s1 c1 attempt=2
		32.2s ClusterCompleted s1 c1 attempt=2
		32.2s ClusterStarted s1 c2
		42.2s ClusterApplied s1 c2
		42.2s ClusterCompleted s1 c2
		42.2s StageCompleted s1
		42.2s RunCompleted`)
}

// More clusters are unreachable than a run keeps waiting without a slot. The other unreachable
// clusters keep their slots, and a new worker tries them each time.
func TestAnOutageOfManyClustersIsSurvived(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Stages[0].MaxConcurrency = number(300) }), fleet(300))
	w := simulate.Environment{Default: simulate.Member{Take: second, Unreachable: []simulate.Interval{{To: 30 * second}}}}
	got, end := play(t, p, w)
	if end.State != stages.Completed || end.Peak != 300 || strings.Count(got, "ClusterCompleted") != 300 {
		t.Errorf("it ended as %s at %s, with %d in flight at most", end.State, end.At.Duration, end.Peak)
	}
}

func TestSimultaneousResultsAreInStartOrder(t *testing.T) {
	p := plan(t, strategy(1, func(s *stages.Strategy) { s.Stages[0].MaxConcurrency = number(3) }), fleet(3))
	script(t, p, simulate.Environment{Default: tenSeconds}, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		0s ClusterStarted s1 c2
		0s ClusterStarted s1 c3
		10s ClusterApplied s1 c1
		10s ClusterCompleted s1 c1
		10s ClusterApplied s1 c2
		10s ClusterCompleted s1 c2
		10s ClusterApplied s1 c3
		10s ClusterCompleted s1 c3
		10s StageCompleted s1
		10s RunCompleted`)
}

func TestADecisionIsAboutItsStageOnly(t *testing.T) {
	p := plan(t, strategy(2, func(s *stages.Strategy) { s.Stages[0].After = []stages.Task{{Type: stages.Approval}} }), fleet(1, 1))
	w := simulate.Environment{Default: tenSeconds, Orders: []simulate.Order{decide(minute, approval.Approve, "s2")}}
	by := ""
	end, err := simulate.Run(p, w, func(e simulate.Event) error {
		if e.Type == stages.CommandRefused {
			by = e.By
		}
		return nil
	})
	if err != nil || by != "bob" || end.Reason != simulate.Stuck {
		t.Errorf("refused to %q; it ended as %s: %v", by, end.Reason, err)
	}
}

func TestPeaksOfEachLevel(t *testing.T) {
	clusters := fleet(6)
	for i := range clusters {
		clusters[i].Labels["g"] = []string{"a", "b"}[i%2]
	}
	p := plan(t, strategy(1, func(s *stages.Strategy) {
		s.Stages[0].MaxConcurrency = number(3)
		s.Stages[0].Groups = []stages.Group{
			{Name: "a", Selector: selector("g", "a"), MaxConcurrency: number(2)}, {Name: "b", Selector: selector("g", "b"), MaxConcurrency: number(3)},
		}
	}), clusters)
	_, end := play(t, p, simulate.Environment{Default: tenSeconds, Members: map[string]simulate.Member{"c1": {Take: minute}}})
	want := []simulate.GroupEnd{
		{Name: "a", State: stages.Completed, Peak: 2, Limit: 2},
		{Name: "b", State: stages.Completed, Peak: 1, Limit: 3},
	}
	if diff := cmp.Diff(want, end.Stages[0].Groups); end.Peak != 3 || end.Stages[0].Peak != 3 || diff != "" {
		t.Errorf("peak %d, of the stage %d (-want +got):\n%s", end.Peak, end.Stages[0].Peak, diff)
	}
}

func TestAWorldIsNotChangedByASimulation(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(3))
	w := simulate.Environment{
		Default: tenSeconds, Orders: []simulate.Order{order(minute, stages.Stop), order(second, stages.Stop)},
		Churn: []simulate.Change{{At: minute, Cluster: "c1"}, {At: second, Cluster: "c2"}},
	}
	before := w
	before.Orders, before.Churn = slices.Clone(w.Orders), slices.Clone(w.Churn)
	first, _ := play(t, p, w)
	again, _ := play(t, p, w)
	if diff := cmp.Diff(before, w); diff != "" || first != again {
		t.Errorf("the environment (-before +after):\n%s\nfirst:\n%s\nagain:\n%s", diff, first, again)
	}
}
