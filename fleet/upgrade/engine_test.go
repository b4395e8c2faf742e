package upgrade_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// staged returns the strategy of the seed: two stages of three groups with an hour in between.
func staged() stages.Strategy {
	stage := func(name string, groups ...string) stages.Stage {
		st := stages.Stage{Name: name, Selector: &metav1.LabelSelector{}}
		for _, g := range groups {
			st.Groups = append(st.Groups, stages.Group{
				Name: "group-" + g, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: "group-" + g}},
			})
		}
		return st
	}
	first, second := stage("stage1", "1a", "1b", "1c"), stage("stage2", "2a", "2b", "2c")
	first.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: groupLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"group-1a", "group-1b", "group-1c"}},
	}}
	second.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: groupLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"group-2a", "group-2b", "group-2c"}},
	}}
	first.After = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
	return stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{first, second}}
}

func TestTheSeedsStagedUpgrade(t *testing.T) {
	groups := map[string]string{"w1": "1a", "e2": "1a", "w3": "1b", "e4": "1c", "w5": "2a", "e6": "2a", "w7": "2b", "e8": "2c"}
	upgrading(t, testState(slices.Collect(maps.Keys(groups))...), full(upgrade.Latest), func(t *testing.T, r *env) {
		for name, g := range groups {
			r.join(name, "group-"+g)
		}
		r.create("run-1", staged())
		s := r.until("run-1", stages.Completed)
		for name := range groups {
			image := map[byte]string{'w': "i3", 'e': "i2"}[name[0]]
			r.wantHas(name, upgraded(image))
		}
		began := func(cluster string) time.Time { return clusterOf(t, r.p, cluster).Begun[0].Began }
		ends := func(cluster string) time.Time { return clusterOf(t, r.p, cluster).Operation.Ends }
		if d := began("w1").Sub(ends("e2")); d < 0 {
			t.Errorf("w1 began %v before e2 of its group ended", -d)
		}
		if d := began("w3").Sub(began("e4")).Abs(); d > time.Second {
			t.Errorf("two groups began %v apart", d)
		}
		if d := began("e6").Sub(ends("w1")); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("the second stage began %v after the first had ended", d)
		}
		if n := s.Run.Form(runstate.Key{}).Stages[1].Groups[0].Completed; n != 2 {
			t.Errorf("%d clusters of group-2a are done", n)
		}
	})
}

func TestAnImageThatAppearsDuringARunIsForLaterClusters(t *testing.T) {
	upgrading(t, testState("w1", "w2"), imagesOnly(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		time.Sleep(takes / 2)
		r.p.Edit(func(w *embedded.State) { w.Regions["west"].Images[""] = []string{"i4", "i3"} })
		r.until("run-1", stages.Completed)
		r.wantHas("w1", []string{"1.29.4", "1.29.4 i3", "1.29.4 i3"})
		r.wantHas("w2", []string{"1.29.4", "1.29.4 i4", "1.29.4 i4"})
	})
}

func TestAConsistentImageIsFrozenForARunAndItsCatchUp(t *testing.T) {
	w := testState("w1", "e2")
	p := embedded.New(w, nil)
	target, err := upgrade.Resolve(t.Context(), p, []placement.Cluster{{Name: "w1"}, {Name: "e2"}}, full(upgrade.Consistent))
	if err != nil {
		t.Fatal(err)
	}
	upgrading(t, w, target, func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		time.Sleep(takes / 2)
		r.p.Edit(func(w *embedded.State) {
			for _, region := range w.Regions {
				region.Images[""] = slices.Insert(region.Images[""], 0, "i5")
			}
			w.Clusters["w3"] = testState("w3").Clusters["w3"]
			w.Clusters["n4"] = testState("n4").Clusters["n4"]
			w.Clusters["n4"].Region = "north"
			w.Regions["north"] = &embedded.Region{Images: map[string][]string{"": {"i5"}}}
		})
		r.until("run-1", stages.Completed)
		r.wantHas("w1", upgraded("i2"))
		r.wantHas("e2", upgraded("i2"))
		r.join("w3", "")
		r.join("n4", "")
		if _, err := r.e.Run("run-1").CatchUp(t.Context(), "run-2", approval.Identity{}); err != nil {
			t.Fatal(err)
		}
		s := r.until("run-2", stages.Completed)
		if d := cmp.Diff(map[string]stages.State{"w3": stages.Completed, "n4": stages.Skipped}, ended(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		r.wantHas("w3", upgraded("i2"))
		if why := r.reason("run-2", "n4"); !strings.Contains(why, "north") {
			t.Errorf("n4 was skipped: %s", why)
		}
	})
}

func TestARefusedUpgradeLeavesNothing(t *testing.T) {
	w := testState("w1", "e2", "w3")
	w.Clusters["e2"].ControlPlane, w.Clusters["w3"].ControlPlane = "1.28.0", "1.31.0"
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, w, full(upgrade.Latest))
		before := r.records()
		spec := fleet.RunSpec{Name: "run-1", Placement: "prod", Strategy: oneByOne(0)}
		_, previewed := r.e.Preview(t.Context(), spec)
		_, created := r.e.CreateRun(t.Context(), spec)
		for _, err := range []error{previewed, created} {
			refused, ok := errors.AsType[*upgrade.RefusedError](err)
			if !ok || len(refused.Problems) != 2 || refused.Problems[0].Cluster != "e2" || refused.Problems[1].Cluster != "w3" {
				t.Errorf("%v", err)
			}
		}
		if d := cmp.Diff(before, r.records()); d != "" {
			t.Errorf("what is stored (-before +after):\n%s", d)
		}
	})
}

func TestARefusedCatchUpLeavesNothing(t *testing.T) {
	upgrading(t, testState("w1"), full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		r.until("run-1", stages.Completed)
		r.p.Edit(func(w *embedded.State) {
			w.Clusters["w2"] = testState("w2").Clusters["w2"]
			w.Clusters["w2"].ControlPlane = "1.28.0"
		})
		r.join("w2", "")
		_, err := r.e.Run("run-1").CatchUp(t.Context(), "run-2", approval.Identity{})
		if refused, ok := errors.AsType[*upgrade.RefusedError](err); !ok || len(refused.Problems) != 1 || refused.Problems[0].Cluster != "w2" {
			t.Errorf("%v", err)
		}
		if runs, err := r.e.Placement("prod").RunNames(t.Context()); err != nil || len(runs) != 1 {
			t.Errorf("runs: %v, %v", runs, err)
		}
	})
}

func TestUnreachableClusterIsCheckedWhenItStarts(t *testing.T) {
	w := testState("w1", "e2")
	w.Clusters["e2"].ControlPlane = "1.28.0"
	w.Regions["east"].Unavailable = true
	upgrading(t, w, full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		time.Sleep(10 * time.Minute)
		r.wantHas("w1", upgraded("i3")) // e2 gave its turn to the next
		r.p.Edit(func(w *embedded.State) { w.Regions["east"].Unavailable = false })
		s := r.until("run-1", stages.Failed)
		if d := cmp.Diff(map[string]stages.State{"e2": stages.Failed, "w1": stages.Completed}, ended(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if why := r.reason("run-1", "e2"); !strings.Contains(why, "skip minor versions") {
			t.Errorf("e2 failed: %s", why)
		}
	})
}

func TestRunSkipsAnUpToDateCluster(t *testing.T) {
	upgrading(t, testState("w1", "w2"), full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		r.until("run-1", stages.Completed)
		r.p.Edit(func(w *embedded.State) { w.Clusters["w2"].Pools[1].Image = "i1" })
		r.create("run-2", oneByOne(0))
		s := r.until("run-2", stages.Completed)
		if d := cmp.Diff(map[string]stages.State{"w1": stages.Skipped, "w2": stages.Completed}, ended(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if why := r.reason("run-2", "w1"); !strings.Contains(why, "already there: control plane 1.30.2") {
			t.Errorf("w1 was skipped: %s", why)
		}
		if c := clusterOf(t, r.p, "w1"); len(c.Begun) != 2 {
			t.Errorf("changes of w1: %v", begun(&c))
		}
	})
}

func TestAFailingClusterIsHeldToTheBudget(t *testing.T) {
	for budget, want := range map[int]stages.State{0: stages.Failed, 1: stages.Completed} {
		w := testState("w1", "w2", "w3")
		w.Clusters["w1"].Fail, w.Clusters["w1"].Failure = -1, "quota exceeded"
		upgrading(t, w, full(upgrade.Latest), func(t *testing.T, r *env) {
			r.create("run-1", oneByOne(budget))
			s := r.until("run-1", want)
			others := map[stages.State]stages.State{stages.Failed: stages.NotStarted, stages.Completed: stages.Completed}[want]
			if d := cmp.Diff(map[string]stages.State{"w1": stages.Failed, "w2": others, "w3": others}, ended(s)); d != "" {
				t.Errorf("budget %d (-want +got):\n%s", budget, d)
			}
			if why := r.reason("run-1", "w1"); !strings.Contains(why, "quota exceeded") {
				t.Errorf("w1 failed: %s", why)
			}
		})
	}
}

func TestAFailedRunContinuesWithTheClusterThatFailed(t *testing.T) {
	w := testState("w1", "w2")
	w.Clusters["w1"].Fail = 1
	upgrading(t, w, full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		s := r.until("run-1", stages.Failed)
		r.command("run-1", stages.Command{Verb: stages.Start})
		r.until("run-1", stages.Completed)
		r.wantHas("w1", upgraded("i3"))
		r.wantHas("w2", upgraded("i3"))
		c := clusterOf(t, r.p, "w1")
		uid := s.Run.UID
		if d := cmp.Diff([]string{uid + ".1.ControlPlane", uid + ".2.ControlPlane", uid + ".2.Nodes"}, begun(&c)); d != "" {
			t.Errorf("changes of w1 (-want +got):\n%s", d)
		}
	})
}

func TestRetryOfFailedClusters(t *testing.T) {
	w := testState("w1", "w2", "w3")
	w.Clusters["w1"].Fail = 1
	upgrading(t, w, full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(1))
		time.Sleep(3 * takes)
		r.command("run-1", stages.Command{Verb: stages.Retry, Only: stages.OnlyFailed})
		s := r.until("run-1", stages.Completed)
		for name, state := range ended(s) {
			if state != stages.Completed {
				t.Errorf("%s is %s", name, state)
			}
			r.wantHas(name, upgraded("i3"))
		}
	})
}

func TestAStopLetsClustersInFlightFinishAndAStartContinues(t *testing.T) {
	upgrading(t, testState("w1", "w2"), full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		time.Sleep(takes / 2)
		r.command("run-1", stages.Command{Verb: stages.Stop})
		r.until("run-1", stages.Stopping)
		s := r.until("run-1", stages.Stopped)
		if d := cmp.Diff(map[string]stages.State{"w1": stages.Completed, "w2": stages.NotStarted}, ended(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		r.wantHas("w1", upgraded("i3"))
		time.Sleep(time.Hour)
		r.wantHas("w2", []string{"1.29.4", "1.29.4 i1", "1.29.4 i1"})
		r.command("run-1", stages.Command{Verb: stages.Start})
		r.until("run-1", stages.Completed)
		r.wantHas("w2", upgraded("i3"))
	})
}

func TestBusyClusterYieldsItsTurn(t *testing.T) {
	upgrading(t, testState("w1", "w2"), full(upgrade.Latest), func(t *testing.T, r *env) {
		if err := r.p.Occupy("w1", "scaling", time.Hour); err != nil {
			t.Fatal(err)
		}
		r.create("run-1", oneByOne(0))
		time.Sleep(10 * time.Minute)
		s, err := r.e.Run("run-1").Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]stages.State{"w1": stages.Pending, "w2": stages.Completed}, ended(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if why := r.reason("run-1", "w1"); !strings.Contains(why, "scaling") {
			t.Errorf("w1: %s", why)
		}
		r.until("run-1", stages.Completed)
		r.wantHas("w1", upgraded("i3"))
	})
}

func TestARunIsDoneWhenItsClustersAreHealthy(t *testing.T) {
	w := testState("w1", "w2")
	w.Clusters["w1"].Unhealthy.Duration = time.Hour
	upgrading(t, w, full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		r.until("run-1", stages.Completed)
		first, second := clusterOf(t, r.p, "w1"), clusterOf(t, r.p, "w2")
		if second.Begun[0].Began.Before(first.UnhealthyUntil) {
			t.Errorf("w2 began %v before w1 was healthy", first.UnhealthyUntil.Sub(second.Begun[0].Began))
		}
	})
}

func TestAPlacementOfUpgradesIsDeletedWithoutTouchingClusters(t *testing.T) {
	upgrading(t, testState("w1", "w2"), full(upgrade.Latest), func(t *testing.T, r *env) {
		r.create("run-1", oneByOne(0))
		r.until("run-1", stages.Completed)
		if err := r.e.Placement("prod").Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if left := r.records(); len(left) != 1 || !strings.HasPrefix(left[0], "deleted/") {
			t.Errorf("left in the store: %v", left)
		}
		for _, name := range []string{"w1", "w2"} {
			if c := clusterOf(t, r.p, name); len(c.Begun) != 2 {
				t.Errorf("changes of %s: %v", name, begun(&c))
			}
		}
	})
}
