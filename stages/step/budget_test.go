package step

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// failing is a random fleet with a strict budget, or with two if it has groups.
type failing struct {
	r     *rand.Rand
	p     *stages.Plan
	now   time.Time
	ready Ready
}

func newFailing(t *testing.T, r *rand.Rand, n, concurrency int) *failing {
	number := func(n int) *intstr.IntOrString {
		v := intstr.FromInt32(int32(n))
		return &v
	}
	st := stages.Stage{
		Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: number(concurrency),
		MaxFailures: number(1 + r.IntN(n)), StrictFailures: true,
	}
	if r.IntN(2) == 0 {
		for _, name := range []string{"a", "b"} {
			st.Groups = append(st.Groups, stages.Group{
				Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"g": name}},
				MaxConcurrency: number(concurrency), MaxFailures: number(1 + r.IntN(n)), StrictFailures: r.IntN(2) == 0,
			})
		}
	}
	fleet := make([]placement.Cluster, n)
	for i := range fleet {
		fleet[i] = placement.Cluster{Name: fmt.Sprintf("m%03d", i), Labels: map[string]string{"g": string("ab"[r.IntN(2)])}}
	}
	s := stages.Strategy{
		Profile: []stages.Profile{stages.Staged, stages.Workflow}[r.IntN(2)], Attempts: 1 + r.IntN(3), Backoff: metav1.Duration{Duration: time.Second}, Stages: []stages.Stage{st},
	}
	p, err := planner.Plan(s, stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "r1"}, fleet)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{r: r, p: p, now: scriptEpoch}
	f.ready = Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, f.now), stages.Input{Now: f.now})
	return f
}

// step lets some clusters in flight fail or complete, and others wait.
func (f *failing) step(rate float64) {
	in := stages.Input{}
	for _, a := range f.ready.Actions {
		word := "healthy"
		switch x := f.r.Float64(); {
		case x < rate:
			word = "failed"
		case x > 0.9:
			continue
		}
		in.Observations = append(in.Observations, (&scriptRun{plan: f.p, r: f.ready.Run}).observation(a.Cluster, word))
	}
	f.now = f.now.Add(time.Second)
	in.Now = f.now
	f.ready = Step(f.p, f.ready.Run, in)
}

// spent returns the number of clusters that have failed or are in flight, in the stage and in each
// group.
func (f *failing) spent() (failed, all int, own []int) {
	st, run := &f.p.Stages[0], &f.ready.Run.form.Stages[0]
	for i := range st.Groups {
		own = append(own, run.Groups[i].Failed)
		failed += run.Groups[i].Failed
	}
	all = failed
	for _, fl := range f.ready.Run.form.InFlight {
		if fl.Attempt != 0 {
			_, g := f.p.StageOf(fl.Pos)
			own[g]++
			all++
		}
	}
	return failed, all, own
}

// At no concurrency do more clusters fail than a strict budget allows: failed clusters and clusters
// in flight together never exceed it. The run ends as Completed, or as Failed if the budget is used
// up and clusters are left.
func TestAStrictBudgetIsNeverExceeded(t *testing.T) {
	sizes := []int{2, 3, 4, 7, 20, 61, 200}
	if os.Getenv("SLIPWAY_SOAK") != "" {
		sizes = nil
		for n := 2; n <= 200; n++ {
			sizes = append(sizes, n)
		}
	}
	ended := map[stages.State]int{}
	for _, n := range sizes {
		for concurrency := 1; concurrency <= n; concurrency++ {
			r := rand.New(rand.NewPCG(uint64(n), uint64(concurrency)))
			ended[strictly(t, newFailing(t, r, n, concurrency), r.Float64())]++
			if t.Failed() {
				t.Fatalf("%d clusters, concurrency %d", n, concurrency)
			}
		}
	}
	if ended[stages.Completed] == 0 || ended[stages.Failed] == 0 || ended[stages.Stopped] == 0 {
		t.Errorf("the runs ended as %v", ended)
	}
}

// strictly plays a fleet to its end, and returns the final state.
func strictly(t *testing.T, f *failing, rate float64) stages.State {
	t.Helper()
	st := &f.p.Stages[0]
	for i := 0; f.ready.Run.State == stages.Running || f.ready.Run.State == stages.Stopping; i++ {
		if i > 10000 {
			t.Fatal("the run does not end")
		}
		failed, all, own := f.spent()
		if all > st.MaxFailures {
			t.Fatalf("%d have failed and %d more are in flight, and %d may fail", failed, all-failed, st.MaxFailures)
		}
		for g := range own {
			if st.Groups[g].Strict && own[g] > st.Groups[g].MaxFailures {
				t.Fatalf("%d of a group have failed or are in flight, and %d may fail", own[g], st.Groups[g].MaxFailures)
			}
		}
		f.step(rate)
	}
	failed, _, own := f.spent()
	left, used := 0, failed == st.MaxFailures
	for _, state := range f.ready.Run.States(f.p) {
		if state == stages.NotStarted {
			left++
		}
	}
	over := false
	for g := range own {
		used = used || st.Groups[g].Strict && own[g] == st.Groups[g].MaxFailures
		over = over || own[g] > st.Groups[g].MaxFailures && st.Groups[g].MaxFailures >= 0
	}
	if done := f.ready.Run.State == stages.Completed; done != (left == 0 && !over) || !done && !used && !over {
		t.Errorf("the run is %s, %d have failed of %d, and %d are left", f.ready.Run.State, failed, st.MaxFailures, left)
	}
	return f.ready.Run.State
}

// The reason of the run reports a strict budget that is used up.
func TestAStrictBudgetThatIsUsedUpEndsTheRun(t *testing.T) {
	w := newScriptEnv()
	w.setClusters("m1\nm2\nm3\nm4\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 4, maxFailures: 50%, strictFailures: true}]\nattempts: 1")
	w.say("plan")
	if got := w.say("start"); !strings.HasSuffix(got, "Running: apply m1#1 apply m2#1\n") {
		t.Error(got)
	}
	// A cluster that completes makes room for another one; a cluster that fails does not.
	if got := w.say("observe m1 healthy m2 failed"); !strings.HasSuffix(got, "Running: apply m3#1\n") {
		t.Error(got)
	}
	want := `Failed "2 clusters of stage all have failed, which is all that may: no other can be started, and not all have been"` + "\n"
	if got := w.say("observe m3 failed"); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
}

// If as many clusters have failed as may and no cluster is left, the stage completes.
func TestAStrictBudgetThatJustSufficesCompletes(t *testing.T) {
	w := newScriptEnv()
	w.setClusters("m1\nm2\nm3\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 3, maxFailures: 2, strictFailures: true}]\nattempts: 1")
	w.say("plan")
	w.say("start")
	w.say("observe m1 healthy m2 failed")
	if got := w.say("observe m3 failed"); !strings.HasSuffix(got, "Completed\n") {
		t.Error(got)
	}
}

// These are Azure's examples: 25% of 5 clusters is 2, and a group of 4 that may all fail completes
// if all have failed.
func TestAzureBudgets(t *testing.T) {
	w := newScriptEnv()
	w.setClusters("m1\nm2\nm3\nm4\nm5\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 25%, maxFailures: 25%}]\nprofile: ClusterUpdate")
	if got := w.say("plan"); !strings.HasPrefix(got, "all concurrency=1 failures=2\n") {
		t.Error(got)
	}
	w.say("start")
	w.say("observe m1 failed")
	if got := w.say("observe m2 failed"); !strings.HasSuffix(got, "Running: apply m3#1\n") {
		t.Error(got)
	}
	if got := w.say("observe m3 failed"); !strings.HasSuffix(got, `Failed "3 clusters of stage all have failed, and 2 may"`+"\n") {
		t.Error(got)
	}
	w = newScriptEnv()
	w.setClusters("m1\nm2\nm3\nm4\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 4, maxFailures: 4}]\nprofile: ClusterUpdate")
	if got := w.say("plan"); !strings.Contains(got, "warning: stage all never fails: maxFailures allows 4 and it has 4 clusters") {
		t.Error(got)
	}
	w.say("start")
	if got := w.say("observe m1 failed m2 failed m3 failed m4 failed"); !strings.HasSuffix(got, "Completed\n") {
		t.Error(got)
	}
}
