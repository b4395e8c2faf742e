package step

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// afoot returns a plan and a run of it. The run has a cluster in flight, a failed cluster, a
// cluster that has not started, and a gate that has passed.
func afoot(t testing.TB) (*stages.Plan, Run) {
	t.Helper()
	w := newScriptEnv()
	w.setClusters("a env=x\nb env=x\nc env=x\nd env=z\n")
	w.setStrategy(`
profile: Staged
attempts: 1
stages:
- name: first
  labelSelector: {matchLabels: {env: x}}
  maxConcurrency: 1
  maxFailures: 3
  beforeStageTasks: [{type: Approval}]
- name: second
  labelSelector: {matchLabels: {env: z}}
`)
	if out := w.makePlan(parseArgs("index=1")); w.plan == nil {
		t.Fatal(out)
	}
	w.start(parseArgs(""))
	w.decide(approval.Approve, parseArgs("first by=ann when=Before"))
	w.observe(parseArgs("a failed"))
	r := reloaded(w.cur.r)
	if len(r.form.InFlight) != 1 || len(r.form.Unsuccessful) != 1 || len(r.form.Stages[0].Gates) != 1 || r.form.Stages[0].Gates[0].State != stages.Completed {
		t.Fatalf("%+v", r)
	}
	return w.plan, r
}

// Step leaves a run unchanged that does not belong to its plan: a host that does not read Err gets
// no action, no event and nothing to save.
func TestStepDoesNotChangeARunOfAnotherPlan(t *testing.T) {
	p, r := afoot(t)
	other := benchPlan(t, 4, 1)
	lost := &stages.Plan{Strategy: p.Strategy, Placement: p.Placement, Stages: p.Stages, Revisions: p.Revisions, Digest: p.Digest}
	for name, tt := range map[string]struct {
		plan   *stages.Plan
		change func(*Run)
		field  string
	}{
		"no plan":                               {nil, func(*Run) {}, "plan"},
		"an empty plan":                         {new(stages.Plan), func(*Run) {}, "plan"},
		"another plan":                          {other, func(*Run) {}, "plan"},
		"a plan that lost its clusters":         {lost, func(*Run) {}, "plan"},
		"the zero run":                          {p, func(r *Run) { *r = Run{} }, "plan"},
		"another digest":                        {p, func(r *Run) { r.Plan = other.Digest }, "plan"},
		"another placement":                     {p, func(r *Run) { r.Placement = "other" }, "placement"},
		"no UID":                                {p, func(r *Run) { r.UID = "" }, "uid"},
		"a cursor past the stages":              {p, func(r *Run) { r.form.Stage = 3 }, "stage"},
		"a negative cursor":                     {p, func(r *Run) { r.form.Stage = -1 }, "stage"},
		"a stage ahead of its clusters":         {p, func(r *Run) { r.form.Stage = 1 }, "stages[0]"},
		"a stage too few":                       {p, func(r *Run) { r.form.Stages = r.form.Stages[:1] }, "stages"},
		"a group too many":                      {p, func(r *Run) { r.form.Stages[0].Groups = make([]runstate.GroupRun, 2) }, "stages[0].groups"},
		"a group past its clusters":             {p, func(r *Run) { r.form.Stages[0].Groups[0].Next = 4 }, "stages[0].groups[0].next"},
		"a slot of no cluster":                  {p, func(r *Run) { r.form.InFlight[0].Pos = 4 }, "inFlight"},
		"a slot before all clusters":            {p, func(r *Run) { r.form.InFlight[0].Pos = -1 }, "inFlight"},
		"a slot of another stage":               {p, func(r *Run) { r.form.InFlight[0].Pos = 3 }, "inFlight"},
		"a slot of a cluster that has failed":   {p, func(r *Run) { r.form.InFlight[0].Pos = 0 }, "inFlight"},
		"a slot of one that was not started":    {p, func(r *Run) { r.form.InFlight[0].Pos = 2 }, "inFlight"},
		"a cluster in flight twice":             {p, func(r *Run) { r.form.InFlight = append(r.form.InFlight, r.form.InFlight[0]) }, "inFlight"},
		"more in flight than the cap":           {p, overCap, "inFlight"},
		"more slots than clusters":              {p, func(r *Run) { r.form.InFlight = slices.Concat(make([]runstate.InFlight, 4), r.form.InFlight) }, "inFlight"},
		"a free slot at the end":                {p, func(r *Run) { r.form.InFlight = append(r.form.InFlight, runstate.InFlight{}) }, "inFlight"},
		"a phase that does not exist":           {p, func(r *Run) { r.form.InFlight[0].Phase = 9 }, "inFlight"},
		"what is in flight was lost":            {p, func(r *Run) { r.form.InFlight = nil }, "stages[0].groups[0]"},
		"what failed was lost":                  {p, func(r *Run) { r.form.Unsuccessful = nil }, "stages[0].groups[0].failed"},
		"failures that the groups do not count": {p, func(r *Run) { r.form.Stages[0].Groups[0].Failed, r.form.Stages[0].Groups[0].Completed = 0, 1 }, "stages[0].groups[0].failed"},
		"a gate of the plan in no state of one": {p, func(r *Run) { r.form.Stages[0].Gates[0].State = "Open" }, "stages[0].gates[0].state"},
		"an approval of a moment that was kept": {p, func(r *Run) {
			g := &r.form.Stages[0].Gates[0]
			g.State, g.Ended, g.Decisions[0].PointInTime = stages.Pending, 0, true
		}, "stages[0].gates[0].decisions"},
		"a gate that the plan does not have":      {p, func(r *Run) { r.form.Stages[0].Gates[0].Type = stages.TimedWait }, "stages[0].gates[0]"},
		"a gate twice":                            {p, func(r *Run) { r.form.Stages[0].Gates = append(r.form.Stages[0].Gates, r.form.Stages[0].Gates[0]) }, "stages[0].gates[1]"},
		"a state that no run is in":               {p, func(r *Run) { r.State = "Done" }, "state"},
		"an ending without an end":                {p, func(r *Run) { r.Ending = stages.Failed }, "ending"},
		"completed before its last stage":         {p, func(r *Run) { r.State = stages.Completed }, "stage"},
		"a stage that was reached before a start": {p, func(r *Run) { r.Started = 0 }, "stages[0]"},
		"a time that cannot be stored":            {p, func(r *Run) { r.Now = 1 << 62 }, "now"},
	} {
		bad := reloaded(r)
		tt.change(&bad)
		before := dump(bad)
		in := stages.Input{
			Now: bad.Now.Time().Add(1 << 40), Unwatched: true, NewCalendar: true, Gone: []string{"a", "b"}, Slots: 9,
			Commands:     []stages.Command{{ID: "1", Verb: stages.Start}, {ID: "2", Verb: stages.Skip, Scope: stages.SkipStage, Name: "first"}},
			Observations: []stages.Observation{{Cluster: "b", Attempt: 1, Sent: true, Applied: true, Revision: "r1", Current: true, Healthy: true}},
		}
		ready := Step(tt.plan, bad, in)
		problem, ok := errors.AsType[*RunError](ready.Err)
		if !ok || !strings.HasPrefix(problem.Field, tt.field) {
			t.Errorf("%s: %v", name, ready.Err)
		}
		ready.Err = nil
		if !reflect.DeepEqual(ready, Ready{Run: bad}) || dump(bad) != before {
			t.Errorf("%s: %+v", name, ready)
		}
		checkAnswers(t, name, tt.plan, &bad)
	}
	if ready := Step(p, r, stages.Input{Now: r.Now.Time()}); ready.Err != nil || len(ready.Actions) != 1 {
		t.Errorf("%d actions: %v", len(ready.Actions), ready.Err)
	}
}

// overCap puts two clusters in flight although the cap is one.
func overCap(r *Run) {
	r.form.Stages[0].Groups[0].Next = 3
	f := r.form.InFlight[0]
	f.Pos = 2
	r.form.InFlight = append(r.form.InFlight, f)
}

// checkAnswers checks that the queries return nothing for a run that does not belong to the plan.
func checkAnswers(t *testing.T, name string, p *stages.Plan, r *Run) {
	t.Helper()
	n := len(Requests(p, r)) + len(Waiting(p, r)) + len(r.Outline(p).Stages)
	for range r.States(p) {
		n++
	}
	_, explained := Explain(p, r, "a")
	_, back := RollBack(p, r, nil)
	if allowed := Allowed(p, r, stages.Command{Verb: stages.Stop}); n != 0 || explained == nil || back == nil || allowed == nil {
		t.Errorf("%s: %d answers, %v, %v, %v", name, n, explained, back, allowed)
	}
}

// FuzzRunOfAnyBytes decodes runs from any bytes and steps them. A run that does not belong to the
// plan stays unchanged. A run that could belong to it does no more than the plan allows.
func FuzzRunOfAnyBytes(f *testing.F) {
	p, r := afoot(f)
	ready := Ready{Run: r}
	for i := range 8 {
		b, err := json.Marshal(ready.Run)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		for _, swap := range [][2]string{{`"stage":0`, `"stage":1`}, {`"p":1`, `"p":2`}, {`"inFlight":[`, `"inFlight":[{"p":2,"a":1,"f":1,"s":1},`}, {`"next":2`, `"next":3`}, {`"Running"`, `"Stopped"`}} {
			f.Add([]byte(strings.ReplaceAll(string(b), swap[0], swap[1])))
		}
		in := stages.Input{Now: scriptEpoch.Add(1 << (30 + i))}
		for _, a := range ready.Actions {
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, "healthy"))
		}
		ready = Step(p, ready.Run, in)
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Run
		if json.Unmarshal(data, &r) != nil {
			return
		}
		if back := reloaded(r); dump(back) != dump(r) {
			t.Fatal("read twice it is another one")
		}
		for range 4 {
			ready := Step(p, r, stages.Input{Now: scriptEpoch, Unwatched: true, Commands: []stages.Command{{ID: "fuzz", Verb: stages.Start}}})
			if ready.Err != nil {
				if ready.Changed || len(ready.Actions)+len(ready.Events) > 0 || !ready.Wake.IsZero() || !reflect.DeepEqual(ready.Run, r) {
					t.Fatalf("%v, and %+v", ready.Err, ready)
				}
				return
			}
			within(t, p, &ready)
			r = reloaded(ready.Run)
		}
	})
}

// within checks the actions: each is about a cluster of the current stage, no cluster has two, and
// their number does not exceed the cap.
func within(t *testing.T, p *stages.Plan, ready *Ready) {
	t.Helper()
	seen := map[int]bool{}
	for _, a := range ready.Actions {
		if a.Type == stages.Ask {
			continue
		}
		stage, _ := p.StageOf(a.Pos)
		if seen[a.Pos] || stage != ready.Run.form.Stage || a.Cluster != p.Clusters[a.Pos].Name || a.UID != p.Clusters[a.Pos].UID || a.Revision != "r1" {
			t.Fatalf("%+v in stage %d", a, ready.Run.form.Stage)
		}
		seen[a.Pos] = true
		if most := p.Stages[stage].MaxConcurrency; most > 0 && len(seen) > most {
			t.Fatalf("%d clusters of stage %d are in flight", len(seen), stage)
		}
		if x := runstate.UnsuccessfulAt(ready.Run.form.Unsuccessful, a.Pos); x != nil {
			t.Fatalf("cluster %s is %s and in flight", a.Cluster, x.State)
		}
	}
}
