package status

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// rig steps a run by hand and folds its events, so that the test chooses every time in a status.
type rig struct {
	t       *testing.T
	now     time.Time
	plan    *stages.Plan
	run     step.Run
	history RunHistory
	facts   RunFacts
	nth     int
	// asked are the measurements that the last step requested.
	asked []*check.Question
}

// clock returns a time on the day of the tutorial.
func clock(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateTime, "2025-07-22 "+text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func newRig(t *testing.T, at string, s stages.Strategy, hold bool, clusters ...placement.Cluster) *rig {
	t.Helper()
	r := &rig{t: t, now: clock(t, at)}
	r.plan = planOf(t, s, clusters)
	r.run = step.NewRun(r.plan, "example-run", "u1", approval.Identity{Name: "sam"}, hold, r.now)
	r.facts = RunFacts{
		Name: "example-run", Generation: 1, Run: &r.run, Plan: r.plan, History: &r.history,
		Placement: &fleet.Placement{Name: "example-placement"},
	}
	return r
}

// planOf returns the plan of a strategy for clusters; the ones with the label gone have left the
// placement.
func planOf(t testing.TB, s stages.Strategy, clusters []placement.Cluster) *stages.Plan {
	t.Helper()
	target := stages.Target{Placement: "example-placement", Index: 1, Snapshot: "s", Selection: "d", Default: "r", Remove: map[string]string{}}
	var picked []placement.Cluster
	for _, c := range clusters {
		if c.Labels["gone"] != "" {
			target.Remove[c.Name] = c.UID
		} else {
			picked = append(picked, c)
		}
	}
	p, err := planner.Plan(s, target, picked)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step advances the run at a time of day; "" is the time of the last step.
func (r *rig) step(at string, in stages.Input) {
	r.t.Helper()
	if at != "" {
		r.now = clock(r.t, at)
	}
	in.Now = r.now
	ready := step.Step(r.plan, r.run, in)
	r.run, r.asked = ready.Run, nil
	for i := range ready.Actions {
		if q := ready.Actions[i].Measure; q != nil {
			r.asked = append(r.asked, q)
		}
	}
	for i := range ready.Events {
		r.history.Fold(r.plan, &ready.Events[i])
	}
}

// finish reports that clusters in flight are done.
func (r *rig) finish(at string, clusters ...string) {
	r.t.Helper()
	var in stages.Input
	for _, name := range clusters {
		o := r.observation(name)
		o.Sent, o.Applied, o.Current, o.Healthy = true, true, true, true
		in.Observations = append(in.Observations, o)
	}
	r.step(at, in)
}

// observation returns an empty observation of the current attempt on a cluster.
func (r *rig) observation(name string) stages.Observation {
	r.t.Helper()
	pos, _ := r.plan.Position(name)
	for _, f := range r.run.Form(runstate.Key{}).InFlight {
		if f.Attempt != 0 && f.Pos == pos {
			o := stages.Observation{Cluster: name, Attempt: f.Attempt}
			if rev := r.plan.Clusters[pos].Revision; rev >= 0 {
				o.Revision = r.plan.Revisions[rev]
			}
			return o
		}
	}
	r.t.Fatalf("cluster %s is not in flight", name)
	return stages.Observation{}
}

func (r *rig) command(at string, c stages.Command) {
	r.t.Helper()
	r.nth++
	c.ID = fmt.Sprint("c", r.nth)
	r.step(at, stages.Input{Commands: []stages.Command{c}})
}

// decide answers the open request.
func (r *rig) decide(at string, v approval.Verdict) {
	r.t.Helper()
	open := step.Requests(r.plan, &r.run)
	if len(open) != 1 {
		r.t.Fatalf("%d requests are open", len(open))
	}
	d := approval.Decision{Verdict: v, By: approval.Identity{Name: "ann"}, At: clock(r.t, at), Binding: open[0].Binding}
	r.command(at, stages.Command{Verb: stages.Decide, Decision: &d})
}

func (r *rig) status() map[string]any {
	r.t.Helper()
	r.facts.Now = r.now
	return jsonOf(r.t, Run(&r.facts))
}

// jsonOf returns a status as an API server would return it.
func jsonOf(t testing.TB, status any) map[string]any {
	t.Helper()
	m, err := api.ToMap(status)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// golden reads a YAML file of testdata.
func golden(t testing.TB, name string) map[string]any {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// told returns conditions as texts without times.
func told(t testing.TB, conditions any) []string {
	t.Helper()
	list, _ := conditions.([]any)
	var out []string
	for _, c := range list {
		m := c.(map[string]any)
		out = append(out, fmt.Sprintf("%v=%v %v: %v", m["type"], m["status"], m["reason"], m["message"]))
	}
	return out
}

func wantTold(t *testing.T, what string, conditions any, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, told(t, conditions)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// since returns the time of day when a condition changed.
func since(t testing.TB, conditions any, kind string) string {
	t.Helper()
	list, _ := conditions.([]any)
	for _, c := range list {
		if m := c.(map[string]any); m["type"] == kind {
			at, err := time.Parse(time.RFC3339, m["lastTransitionTime"].(string))
			if err != nil {
				t.Fatal(err)
			}
			return at.Format(time.TimeOnly)
		}
	}
	return "never"
}

func inStage(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"environment": name}}
}

// tutorial returns the strategy and the clusters of the tutorial.
func tutorial() (stages.Strategy, []placement.Cluster) {
	s := stages.Strategy{Name: "example-strategy", Requests: approval.NamedByStage, Stages: []stages.Stage{
		{Name: "staging", Selector: inStage("staging"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}},
		{Name: "canary", Selector: inStage("canary"), SortKey: "order", After: []stages.Task{{Type: stages.Approval}}},
	}}
	return s, []placement.Cluster{
		{Name: "member1", Labels: map[string]string{"environment": "canary", "order": "2"}},
		{Name: "member2", Labels: map[string]string{"environment": "staging"}},
		{Name: "member3", Labels: map[string]string{"environment": "canary", "order": "1"}},
	}
}

// tutorialRig returns the tutorial's run, waiting for approval.
func tutorialRig(t *testing.T) *rig {
	s, clusters := tutorial()
	r := newRig(t, "21:28:08", s, false, clusters...)
	r.step("", stages.Input{})
	r.finish("21:28:23", "member2")
	r.step("21:29:23", stages.Input{})
	r.finish("21:29:38", "member3")
	r.finish("21:29:53", "member1")
	return r
}
