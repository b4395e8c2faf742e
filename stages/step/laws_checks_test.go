package step

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
)

// checkWalk is a random walk through a run with checks.
type checkWalk struct {
	t   *testing.T
	rnd *rand.Rand
	p   *stages.Plan
	r   Run
	now time.Time
	// last is the outcome of the last step.
	last Ready
	// good has the checks that ended as Successful, by cluster and attempt, since the attempt began
	// or health was lost.
	good     map[string]map[string]bool
	commands int
}

func randomChecks(rnd *rand.Rand, stage bool) (out []check.Check) {
	one := 1.0
	for i := range rnd.IntN(3) {
		c := check.Check{Name: fmt.Sprint("c", i), Query: "q", Max: &one, FailureLimit: rnd.IntN(3), InconclusiveLimit: rnd.IntN(3)}
		if rnd.IntN(2) == 0 {
			c.InitialDelay.Duration = time.Duration(rnd.IntN(30)) * time.Second
		}
		c.Interval.Duration = time.Duration(1+rnd.IntN(20)) * time.Second
		if limit := rnd.IntN(4); limit < 3 {
			c.ConsecutiveErrorLimit = &limit
		}
		if !stage {
			c.Count = rnd.IntN(4)
			c.Expires.Duration = time.Hour
		}
		out = append(out, c)
	}
	return out
}

func some(n int) *intstr.IntOrString {
	v := intstr.FromInt(n)
	return &v
}

func newCheckWalk(t *testing.T, seed uint64) *checkWalk {
	w := &checkWalk{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: scriptEpoch, good: map[string]map[string]bool{}}
	s := stages.Strategy{Profile: []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow}[w.rnd.IntN(3)], Attempts: w.rnd.IntN(3)}
	if w.rnd.IntN(2) == 0 {
		s.MinHealthy.Duration = time.Duration(w.rnd.IntN(10)) * time.Second
	}
	if w.rnd.IntN(2) == 0 {
		s.Rollback = &stages.RollbackPolicy{}
	}
	var clusters []placement.Cluster
	for i := range 1 + w.rnd.IntN(2) {
		label := fmt.Sprint("s", i)
		for j := range 1 + w.rnd.IntN(4) {
			clusters = append(clusters, placement.Cluster{Name: fmt.Sprintf("m%d%d", i, j), UID: fmt.Sprintf("u%d%d", i, j), Labels: map[string]string{"stage": label}})
		}
		st := stages.Stage{
			Name: label, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": label}},
			MaxConcurrency: some(1 + w.rnd.IntN(3)), MaxFailures: some(w.rnd.IntN(3)),
			Checks: randomChecks(w.rnd, true), ClusterChecks: randomChecks(w.rnd, false),
		}
		for _, tasks := range []*[]stages.Task{&st.Before, &st.After} {
			if list := randomChecks(w.rnd, false); len(list) > 0 {
				*tasks = append(*tasks, stages.Task{Type: stages.CheckTask, Checks: list})
			}
			if w.rnd.IntN(3) == 0 {
				*tasks = append(*tasks, stages.Task{Type: stages.Approval})
			}
			if w.rnd.IntN(3) == 0 {
				*tasks = append(*tasks, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 20 * time.Second}})
			}
		}
		s.Stages = append(s.Stages, st)
	}
	p, err := planner.Plan(s, stages.Target{Placement: "web", Snapshot: "r", Selection: "d", Default: "r"}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	w.p, w.r = p, NewRun(p, "run", "uid", approval.Identity{}, false, w.now)
	return w
}

// step steps the run, and holds it to the laws.
func (w *checkWalk) step(in stages.Input) {
	w.t.Helper()
	in.Now = w.now
	before := w.r
	out := Step(w.p, before, in)
	if out.Err != nil {
		w.t.Fatal(out.Err)
	}
	if again := Step(w.p, before, in); !reflect.DeepEqual(out, again) {
		w.t.Fatalf("the same step comes to something else:\n%s", cmp.Diff(out, again))
	}
	if stored := reloaded(out.Run); !reflect.DeepEqual(stored, out.Run) {
		w.t.Fatalf("it is another run when it was stored:\n%s", cmp.Diff(out.Run, stored))
	}
	for i := range out.Events {
		w.event(&out.Events[i])
	}
	for _, a := range out.Actions {
		if q := a.Measure; q != nil && check.Rounded(q.Window) > q.Window {
			w.t.Fatalf("check %s is asked about %s, and what it measures has been so for %s", q.Name, check.Rounded(q.Window), q.Window)
		}
	}
	w.heldStarts(&before, &out)
	w.gatesThatPassed(&before, &out.Run)
	w.r, w.last = out.Run, out
}

// heldStarts: no cluster of a stage starts in a step that begins and ends with a bad check of that
// stage.
func (w *checkWalk) heldStarts(before *Run, out *Ready) {
	if before.form.Stage != out.Run.form.Stage || before.form.Stage >= len(w.p.Stages) {
		return
	}
	if blockingChecks(&before.form.Stages[before.form.Stage]) == "" || blockingChecks(&out.Run.form.Stages[before.form.Stage]) == "" {
		return
	}
	for _, e := range out.Events {
		if e.Type == stages.ClusterStarted {
			w.t.Fatalf("%s starts while %s", e.Cluster, blockingChecks(&before.form.Stages[before.form.Stage]))
		}
	}
}

// gatesThatPassed: the last measurement of each check of a passed gate is good, and was requested
// when all other tasks of its side had ended.
func (w *checkWalk) gatesThatPassed(before, after *Run) {
	for i := range after.form.Stages {
		for _, g := range after.form.Stages[i].Gates {
			if g.Type != stages.CheckTask || g.State != stages.Completed {
				continue
			}
			if slices.ContainsFunc(before.form.Stages[i].Gates, func(o runstate.Gate) bool { return o.Type == g.Type && o.When == g.When && o.State == stages.Completed }) {
				continue
			}
			for _, r := range g.Checks {
				if r.Phase != check.Successful || r.Last != check.Successful {
					w.t.Fatalf("a gate passes, and %s", r.Says())
				}
				for _, o := range after.form.Stages[i].Gates {
					if o.When == g.When && o.Type != stages.CheckTask && (o.State == stages.Pending || r.At < o.Ended) {
						w.t.Fatalf("a gate passes, and check %s was asked at %d, before %s ended at %d", r.Name, r.At, o.Type, o.Ended)
					}
				}
			}
		}
	}
}

// event: a changed cluster completes only if each of its checks has ended as Successful in this
// attempt, since health was last lost.
func (w *checkWalk) event(e *stages.Event) {
	key := fmt.Sprint(e.Cluster, "/", e.Attempt)
	switch e.Type {
	case stages.ClusterUnhealthy:
		delete(w.good, key)
	case stages.CheckEnded:
		if e.Cluster != "" && e.Result == string(check.Successful) {
			if w.good[key] == nil {
				w.good[key] = map[string]bool{}
			}
			w.good[key][e.Check] = true
		}
	case stages.ClusterCompleted:
		pos, _ := w.p.Position(e.Cluster)
		stage, _ := w.p.StageOf(pos)
		if e.Unchanged || w.r.form.Stages[stage].SkipGates {
			return
		}
		for _, c := range w.p.Stages[stage].ClusterChecks {
			if !w.good[key][c.Name] {
				w.t.Fatalf("%s completes, and its check %s was not good", e.Cluster, c.Name)
			}
		}
	}
}

// measurement answers a question.
func (w *checkWalk) measurement(q *check.Question, good bool) check.Measured {
	m := check.Measured{Where: q.Where, Query: "q", At: w.now.Add(-time.Duration(w.rnd.IntN(3)) * time.Second)}
	switch n := w.rnd.IntN(8); {
	case good || n < 4:
		m.At, m.Values = w.now, []float64{0}
	case n < 6:
		m.Values = []float64{2}
	case n == 6:
		m.Err = "down"
	default:
	}
	return m
}

// goOn lets clusters become healthy, answers questions and approves.
func (w *checkWalk) goOn(good bool) {
	var in stages.Input
	s := &scriptRun{plan: w.p, r: w.r}
	for _, a := range w.last.Actions {
		switch a.Type {
		case stages.Measure:
			if m := w.measurement(a.Measure, good); good || w.rnd.IntN(3) > 0 {
				in.Measured = append(in.Measured, m)
			}
		case stages.Ask:
			if good || w.rnd.IntN(4) == 0 {
				w.commands++
				by := approval.Identity{Name: fmt.Sprint("p", w.commands)}
				d := approval.Decision{Verdict: approval.Approve, By: by, At: w.now, Binding: a.Request.Binding}
				in.Commands = append(in.Commands, stages.Command{ID: fmt.Sprint("c", w.commands), Verb: stages.Decide, By: by, Decision: &d})
			}
		default:
			word := "healthy"
			if !good {
				word = []string{"healthy", "healthy", "healthy", "unhealthy", "unchanged", "lost", "failed"}[w.rnd.IntN(7)]
			}
			in.Observations = append(in.Observations, s.observation(a.Cluster, word))
		}
	}
	w.step(in)
	// A repeated delivery changes nothing.
	quiet, again := Step(w.p, w.r, stages.Input{Now: w.now}), Step(w.p, w.r, stages.Input{Now: w.now, Measured: in.Measured})
	if !reflect.DeepEqual(quiet.Run, again.Run) {
		w.t.Fatalf("measurements count twice:\n%s", cmp.Diff(quiet.Run, again.Run))
	}
}

// A run with checks keeps the laws for any measurements in any order, and ends once all of them are
// good.
func TestLawsOfChecks(t *testing.T) {
	for seed := range uint64(few(600, 12)) {
		w := newCheckWalk(t, seed)
		w.step(stages.Input{})
		for range 60 {
			w.now = w.now.Add(time.Duration(w.rnd.IntN(8)) * time.Second)
			switch w.rnd.IntN(20) {
			case 1:
				w.command(stages.Stop, "")
			case 2:
				w.command(stages.Start, "")
			case 3:
				w.command(stages.Retry, "")
			case 4:
				w.step(stages.Input{Unwatched: true})
			default:
				w.goOn(false)
			}
		}
		for n := 0; !w.r.Final(w.p); n++ {
			if n > 1500 { // longer than checks take to expire
				t.Fatalf("seed %d: it does not end: %s %s, %+v", seed, w.r.State, w.r.Reason, Waiting(w.p, &w.r))
			}
			if w.r.State == stages.Stopped || w.r.State == stages.Failed {
				w.command(stages.Start, "")
			}
			w.now = w.now.Add(5 * time.Second)
			if wake := w.last.Wake; wake.After(w.now) && len(w.last.Actions) == 0 {
				w.now = wake
			}
			w.goOn(true)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (w *checkWalk) command(v stages.Verb, name string) {
	w.commands++
	w.step(stages.Input{Commands: []stages.Command{{ID: fmt.Sprint("c", w.commands), Verb: v, By: approval.Identity{Name: "ann"}, At: w.now, Name: name}}})
}
