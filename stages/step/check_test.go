package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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

// tossed is a run of a random plan with random inputs.
type tossed struct {
	r     *rand.Rand
	plan  *stages.Plan
	ready Ready
	now   time.Time
	ids   int
	// timed reports whether clusters have windows.
	timed bool
}

// oddHours lets every second cluster start only in odd hours.
type oddHours struct{}

func (oddHours) Window(pos int, at time.Time) stages.Window {
	return stages.Window{
		Limited: pos%2 == 0, Open: pos%2 != 0 || at.Hour()%2 == 1,
		Until: at.Truncate(time.Hour).Add(time.Hour), Reason: "an even hour",
	}
}

func toss(t testing.TB, seed uint64) *tossed {
	s := &tossed{r: rand.New(rand.NewPCG(seed, 19)), now: scriptEpoch}
	plan, err := planner.Plan(s.strategy())
	if err != nil {
		t.Fatal(err)
	}
	if s.plan, err = stages.DecodePlan(plan.Encode()); err != nil {
		t.Fatal(err)
	}
	s.timed = s.one(2)
	s.ready.Run = NewRun(plan, "r", "uid", approval.Identity{Name: "ann"}, s.one(5), s.now)
	return s
}

func (s *tossed) one(in int) bool { return s.r.IntN(in) == 0 }

func (s *tossed) tasks() (out []stages.Task) {
	if s.one(3) {
		out = append(out, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}})
	}
	if s.one(3) {
		out = append(out, stages.Task{Type: stages.Approval})
	}
	return out
}

// strategy rolls the inputs of a plan: stages with and without groups, each profile, clusters to
// remove.
func (s *tossed) strategy() (stages.Strategy, stages.Target, []placement.Cluster) {
	st := stages.Strategy{
		Profile:  []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow}[s.r.IntN(3)],
		Attempts: s.r.IntN(3), MinHealthy: metav1.Duration{Duration: time.Duration(s.r.IntN(2)) * time.Minute}, ProgressDeadline: metav1.Duration{Duration: time.Duration(s.r.IntN(2)) * 5 * time.Minute},
		Removal: stages.Removal{Before: s.tasks(), After: s.tasks()},
	}
	picks := func(key string, i int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: strconv.Itoa(i)}}
	}
	target := stages.Target{Placement: "web", Index: 1, Snapshot: "s", Selection: "d", Default: "rev", Remove: map[string]string{}}
	var clusters []placement.Cluster
	for i := range 1 + s.r.IntN(3) {
		most := intstr.FromInt32(1 + s.r.Int32N(3))
		stage := stages.Stage{Name: fmt.Sprintf("s%d", i), Selector: picks("s", i), MaxConcurrency: &most, Before: s.tasks(), After: s.tasks()}
		groups := s.r.IntN(3)
		for g := range groups {
			group := stages.Group{Name: fmt.Sprintf("g%d", g), Selector: picks("g", g), Before: s.tasks(), After: s.tasks()}
			if st.Profile != stages.ClusterUpdate {
				group.MaxConcurrency = &most
			}
			stage.Groups = append(stage.Groups, group)
		}
		for n := range s.r.IntN(6) {
			clusters = append(clusters, placement.Cluster{
				Name: fmt.Sprintf("m%d", len(clusters)), Labels: map[string]string{"s": strconv.Itoa(i), "g": strconv.Itoa(n % max(groups, 1))},
			})
		}
		st.Stages = append(st.Stages, stage)
	}
	for i := range s.r.IntN(3) {
		target.Remove[fmt.Sprintf("old%d", i)] = ""
	}
	return st, target, clusters
}

// input rolls an input: the time, observations of clusters, and commands.
func (s *tossed) input() stages.Input {
	s.now = s.now.Add([]time.Duration{0, time.Second, time.Minute, time.Hour}[s.r.IntN(4)])
	in := stages.Input{Now: s.now, Unwatched: s.one(9)}
	if s.timed {
		in.Calendar, in.NewCalendar = oddHours{}, s.one(9)
	}
	for i := range s.ready.Actions {
		if a := &s.ready.Actions[i]; a.Type != stages.Ask && !s.one(3) {
			in.Observations = append(in.Observations, s.seen(a))
		}
	}
	if n := len(s.plan.Clusters); n > 0 && s.one(12) {
		in.Gone = append(in.Gone, s.plan.Clusters[s.r.IntN(n)].Name)
	}
	if s.one(2) {
		in.Commands = append(in.Commands, s.command())
	}
	return in
}

func (s *tossed) seen(a *stages.Action) stages.Observation {
	o := stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: !s.one(6)}
	switch s.r.IntN(8) {
	case 0:
		return stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Failed: true, Permanent: s.one(2), Message: "quota exceeded"}
	case 1:
		return stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Unreachable: true, Sent: s.one(2), Message: "no route"}
	case 2:
		o.Unchanged, o.Sent = true, false
	}
	return o
}

func (s *tossed) command() stages.Command {
	s.ids++
	c := stages.Command{ID: strconv.Itoa(s.ids), By: approval.Identity{Name: "ann"}, At: s.now, Verb: stages.Start}
	switch s.r.IntN(15) {
	case 12:
		c.Verb, c.Only = stages.Retry, []stages.Only{"", stages.OnlyFailed, stages.OnlySkipped}[s.r.IntN(3)]
	case 13:
		c.Verb, c.Until, c.Message = stages.BypassWindows, s.now.Add(time.Minute), "in a hurry"
	case 14:
		c.Verb, c.Name = stages.CompleteGate, s.plan.Stages[s.r.IntN(len(s.plan.Stages))].Name
	case 0, 1:
		c.Verb = stages.Stop
	case 2, 3, 4:
		c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipStage, s.plan.Stages[s.r.IntN(len(s.plan.Stages))].Name
		if n := len(s.plan.Clusters); n > 0 && !s.one(4) {
			c.Scope, c.Name = stages.SkipCluster, s.plan.Clusters[s.r.IntN(n)].Name
		}
	case 5:
		c.Verb = []stages.Verb{stages.Abort, stages.Supersede, stages.Stop, stages.Start}[s.r.IntN(4)]
	case 6, 7, 8:
		for _, req := range Requests(s.plan, &s.ready.Run) {
			verdict := approval.Approve
			if s.one(5) {
				verdict = approval.Reject
			}
			c.Verb, c.Decision = stages.Decide, &approval.Decision{Verdict: verdict, By: c.By, At: s.now, Binding: req.Binding}
		}
	}
	return c
}

// Check accepts every run that Step can make, for any plan and any input: stops, restarts of a
// failed run, skips, removals, rejections.
func TestCheckAcceptsRunsOfStep(t *testing.T) {
	n, states, waiting, removing, again := few(150, 5), map[stages.State]int{}, 0, 0, 0
	if os.Getenv("SLIPWAY_SOAK") == "1" {
		n = 10_000
	}
	for seed := range uint64(n) {
		s := toss(t, seed)
		for range 60 {
			s.ready = Step(s.plan, s.ready.Run, s.input())
			run := new(reloaded(s.ready.Run))
			if err := run.Check(s.plan); err != nil {
				t.Fatalf("seed %d: %v\n%+v", seed, err, run)
			}
			states[run.State]++
			waiting += len(run.form.Waiting)
			again += max(0, run.Attempt-1)
			if run.form.Stage < len(s.plan.Stages) && s.plan.Stages[run.form.Stage].Remove {
				removing += len(run.form.InFlight)
			}
			s.ready.Run = *run
		}
	}
	for _, state := range []stages.State{stages.NotStarted, stages.Running, stages.Stopping, stages.Stopped, stages.Failed, stages.Completed, stages.Aborted, stages.Superseded} {
		if states[state] == 0 {
			t.Errorf("no run was %s: %v", state, states)
		}
	}
	if waiting == 0 || removing == 0 || again == 0 {
		t.Errorf("%d clusters waited, %d were removed, %d starts were later ones", waiting, removing, again)
	}
}

// A run that was tampered with, but has a valid checksum, is either refused, or Step and all
// queries cope with it: nothing panics, and the next stored form can be read.
func TestTamperedRunNeverPanics(t *testing.T) {
	n := few(300, 15)
	if os.Getenv("SLIPWAY_SOAK") == "1" {
		n = 20_000
	}
	refused, borne := 0, 0
	for seed := range uint64(n) {
		s := toss(t, seed)
		for range s.r.IntN(25) {
			s.ready = Step(s.plan, s.ready.Run, s.input())
		}
		for range 12 {
			run, what := s.tampered(t)
			if run == nil {
				continue
			}
			if run.Check(s.plan) != nil {
				refused++
				continue
			}
			borne++
			s.bear(t, run, what)
		}
	}
	if refused < n || borne < n {
		t.Errorf("%d were refused, %d not", refused, borne)
	}
	t.Logf("%d were refused, %d were borne", refused, borne)
}

// tampered returns a copy of the run with a changed value, or nil if the result cannot be decoded.
func (s *tossed) tampered(t *testing.T) (*Run, string) {
	b, err := json.Marshal(s.ready.Run)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + s.r.IntN(2) {
		tree = s.spoil(tree)
	}
	bad, err := json.Marshal(tree)
	var out Run
	if err != nil || bytes.Equal(b, bad) || json.Unmarshal(bad, &out) != nil {
		return nil, ""
	}
	return &out, string(bad)
}

// spoil changes something below a node.
func (s *tossed) spoil(node any) any {
	switch v := node.(type) {
	case map[string]any:
		if len(v) == 0 {
			return v
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		k := keys[s.r.IntN(len(keys))]
		if s.one(12) {
			delete(v, k)
			return v
		}
		v[k] = s.spoil(v[k])
		return v
	case []any:
		if len(v) == 0 || s.one(4) {
			return s.reshape(v)
		}
		i := s.r.IntN(len(v))
		v[i] = s.spoil(v[i])
		return v
	case json.Number:
		n, _ := v.Int64()
		hostile := []int64{-1, 0, 1, 2, 3, n + 1, n - 1, 200, 1 << 31, 1<<63 - 1, -1 << 63, int64(stages.LastInstant), int64(stages.LastInstant) + 1}
		return json.Number(strconv.FormatInt(hostile[s.r.IntN(len(hostile))], 10))
	case string:
		words := []string{"", "x", "Running", "Stopping", "Stopped", "Failed", "Completed", "Skipped", "Pending", "Superseded", "Approval", "After", strings.Repeat("ü", 300)}
		return words[s.r.IntN(len(words))]
	default:
		return !s.one(2)
	}
}

// reshape drops, duplicates or swaps elements.
func (s *tossed) reshape(v []any) []any {
	if len(v) == 0 {
		return append(v, map[string]any{})
	}
	i, j := s.r.IntN(len(v)), s.r.IntN(len(v))
	switch s.r.IntN(4) {
	case 0:
		return slices.Delete(v, i, i+1)
	case 1:
		v[i], v[j] = v[j], v[i]
		return v
	case 2:
		return nil
	default:
		return append(v, v[i])
	}
}

// bear steps a run that was tampered with, and calls every query.
func (s *tossed) bear(t *testing.T, run *Run, what string) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%v, of the run %s", p, what)
		}
	}()
	on := &tossed{r: s.r, plan: s.plan, ready: Ready{Run: *run}, now: s.now, ids: s.ids}
	for range 15 {
		Requests(on.plan, &on.ready.Run)
		Waiting(on.plan, &on.ready.Run)
		for pos := range on.ready.Run.States(on.plan) {
			if _, err := Explain(on.plan, &on.ready.Run, on.plan.Clusters[pos].Name); err != nil {
				t.Errorf("%v, of the run %s", err, what)
			}
		}
		on.ready = Step(on.plan, on.ready.Run, on.input())
		for i := range on.ready.Events {
			if _, err := json.Marshal(&on.ready.Events[i]); err != nil {
				t.Errorf("event %+v cannot be stored, of the run %s: %v", on.ready.Events[i], what, err)
			}
		}
		on.ready.Run = reloaded(on.ready.Run)
	}
}

// The cost of Check does not grow with the fleet.
func TestTheCheckOfARunDoesNotGrowWithTheFleet(t *testing.T) {
	cost := func(clusters int) float64 {
		var fleet []placement.Cluster
		for i := range clusters {
			fleet = append(fleet, placement.Cluster{Name: fmt.Sprintf("m%d", i)})
		}
		all := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: new(intstr.FromInt32(50))}
		p, err := planner.Plan(stages.Strategy{Stages: []stages.Stage{all}}, stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"}, fleet)
		if err != nil {
			t.Fatal(err)
		}
		run := Step(p, NewRun(p, "r", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch}).Run
		if n := len(run.form.InFlight); n != 50 {
			t.Fatalf("%d are in flight", n)
		}
		return testing.AllocsPerRun(20, func() {
			if err := run.Check(p); err != nil {
				t.Fatal(err)
			}
		})
	}
	if small, large := cost(100), cost(10_000); large > small+10 || large > 100 {
		t.Errorf("%v allocations for 100 clusters, %v for 10,000", small, large)
	}
}

// A cluster in flight that is not in the current stage is refused, and so is a cluster in flight in
// a run that has ended, with any groups.
func TestAClusterInFlightElsewhereIsRefused(t *testing.T) {
	env := func(name string, groups ...string) stages.Stage {
		s := stages.Stage{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": name}}}
		for _, g := range groups {
			s.Groups = append(s.Groups, stages.Group{Name: g, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": g}}})
		}
		return s
	}
	p, err := planner.Plan(
		stages.Strategy{Stages: []stages.Stage{env("first"), env("second", "g0", "g1")}},
		stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"},
		[]placement.Cluster{
			{Name: "a", Labels: map[string]string{"env": "first"}},
			{Name: "b", Labels: map[string]string{"env": "second", "group": "g0"}},
			{Name: "c", Labels: map[string]string{"env": "second", "group": "g1"}},
		})
	if err != nil {
		t.Fatal(err)
	}
	run := Step(p, NewRun(p, "r", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch}).Run
	if err := run.Check(p); err != nil {
		t.Fatal(err)
	}
	run.form.InFlight[0].Pos, _ = p.Position("c")
	if err := run.Check(p); err == nil || !strings.Contains(err.Error(), "cluster c") {
		t.Errorf("a cluster of another stage: %v", err)
	}
	run.form.InFlight[0].Pos, run.State, run.form.Stage = 0, stages.Completed, len(p.Stages)
	if err := run.Check(p); err == nil {
		t.Error("a run that is completed has a cluster in flight, and is not refused")
	}
}
