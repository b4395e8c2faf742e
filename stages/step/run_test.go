package step_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/versioned"
)

// oneAtATime returns a plan of three clusters with one in flight.
func oneAtATime(t testing.TB) *stages.Plan {
	t.Helper()
	var fleet []placement.Cluster
	for i := range 3 {
		fleet = append(fleet, placement.Cluster{Name: fmt.Sprintf("m%d", i), UID: fmt.Sprintf("uid-%d", i)})
	}
	one := intstr.FromInt32(1)
	p, err := planner.Plan(
		stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &one}}},
		stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "rev"}, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kept returns a run after it was stored as JSON and read again.
func kept(t testing.TB, r step.Run) (out step.Run) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%v, of %s", err, b)
	}
	return out
}

// If a host stores a run as JSON between two steps, one cluster is in flight under a cap of one,
// and the run completes on the proof of all three.
func TestARunKeptAsJSONStaysUnderItsCap(t *testing.T) {
	p, now := oneAtATime(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := step.NewRun(p, "run", "uid", approval.Identity{Name: "ann"}, false, now)
	proven := map[string]bool{}
	var in stages.Input
	for n := 0; !run.IsEnded(); n++ {
		if n == 20 {
			t.Fatalf("the run is %s after %d steps", run.State, n)
		}
		in.Now = now.Add(time.Duration(n) * time.Second)
		ready := step.Step(p, run, in)
		if ready.Err != nil {
			t.Fatal(ready.Err)
		}
		back := kept(t, ready.Run)
		if d := cmp.Diff(ready.Run, back); d != "" {
			t.Fatalf("step %d: %s", n, d)
		}
		if len(ready.Actions) > 1 {
			t.Fatalf("step %d: %d clusters are in flight", n, len(ready.Actions))
		}
		run, in = back, stages.Input{}
		// Every other step has no proof, so that the cluster stays in flight.
		for _, a := range ready.Actions {
			if n%2 == 1 {
				proven[a.Cluster] = true
				in.Observations = append(in.Observations, stages.Observation{
					Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true,
				})
			}
		}
	}
	if run.State != stages.Completed || len(proven) != 3 {
		t.Errorf("the run is %s, and %d clusters were proven", run.State, len(proven))
	}
}

// Invalid JSON of a run is refused as a whole: a newer format, a field that would be lost, no JSON
// at all. The target of the decoding does not change.
func TestTheJSONOfARunIsReadStrictly(t *testing.T) {
	p := oneAtATime(t)
	run := step.NewRun(p, "run", "uid", approval.Identity{}, false, time.UnixMilli(1))
	b, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, bad := range map[string]string{
		"a newer format":              strings.Replace(text, `"format":1`, `"format":2`, 1),
		"a second, newer format":      strings.TrimSuffix(text, "}") + `,"format":2}`,
		"no format":                   strings.Replace(text, `"format":1,`, ``, 1),
		"a field that is not known":   strings.TrimSuffix(text, "}") + `,"updating":[]}`,
		"a field of a slot, too":      strings.TrimSuffix(text, "}") + `,"inFlight":[{"p":0,"a":1,"f":1,"s":1,"z":1}]}`,
		"a number in place of a text": strings.Replace(text, `"name":"run"`, `"name":1`, 1),
		"null":                        `null`,
		"a list":                      `[]`,
		"something behind its end":    text + text,
	} {
		back := run
		err := back.UnmarshalJSON([]byte(bad))
		if err == nil {
			t.Errorf("%s: was read", name)
		}
		if newer := (*versioned.FormatError)(nil); errors.As(err, &newer) != strings.Contains(name, "newer") {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(run, back); d != "" {
			t.Errorf("%s: the run was changed: %s", name, d)
		}
	}
}

// The JSON of a plan is complete, too: a run continues under the decoded plan.
func TestAPlanKeptAsJSONIsWhole(t *testing.T) {
	p := oneAtATime(t)
	for name, marshal := range map[string]func() ([]byte, error){
		"by its pointer": func() ([]byte, error) { return json.Marshal(p) },
		"by its value":   func() ([]byte, error) { return json.Marshal(*p) },
		"indented":       func() ([]byte, error) { return json.MarshalIndent(p, "", "  ") },
	} {
		b, err := marshal()
		if err != nil {
			t.Fatal(err)
		}
		var back stages.Plan
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(p, &back) {
			t.Errorf("%s: %+v, want %+v", name, back, *p)
		}
		now := time.UnixMilli(1)
		ready := step.Step(&back, step.NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
		if ready.Err != nil || len(ready.Actions) != 1 {
			t.Errorf("%s: %d actions: %v", name, len(ready.Actions), ready.Err)
		}
		for what, bad := range map[string]string{
			"another cluster": strings.Replace(string(b), "m1 0 0 uid-1", "mx 0 0 uid-1", 1),
			"another cap":     strings.ReplaceAll(strings.ReplaceAll(string(b), `"maxConcurrency":1`, `"maxConcurrency":3`), `"maxConcurrency": 1`, `"maxConcurrency": 3`),
			"an unknown part": strings.Replace(string(b), `"pages"`, `"more":1,"pages"`, 1),
			"no pages":        `{"header":{}}`,
		} {
			kept := back
			if err := json.Unmarshal([]byte(bad), &kept); err == nil || bad == string(b) || !reflect.DeepEqual(kept, back) {
				t.Errorf("%s, with %s: %v", name, what, err)
			}
		}
	}
}

// Texts that are not UTF-8 are converted when they arrive, and not when the run is stored. So a
// repeated command is recognized by its ID, and nothing changes.
func TestInvalidUTF8IsConvertedOnArrival(t *testing.T) {
	p, now, bad := oneAtATime(t), time.UnixMilli(1), "a\xffb\xc3"
	run := step.NewRun(p, bad, "uid", approval.Identity{Name: bad, Groups: []string{bad}}, true, now)
	stop := stages.Command{ID: bad, Verb: stages.Start, By: approval.Identity{Name: bad}, Message: bad}
	in := stages.Input{Now: now, Commands: []stages.Command{stop}}
	ready := step.Step(p, run, in)
	if d := cmp.Diff(ready.Run, kept(t, ready.Run)); d != "" {
		t.Error(d)
	}
	o := stages.Observation{Cluster: "m0", Attempt: 1, Sent: true, Applied: true, Revision: "rev", Current: true, Message: bad}
	ready = step.Step(p, kept(t, ready.Run), stages.Input{Now: now, Observations: []stages.Observation{o}, Commands: in.Commands})
	if d := cmp.Diff(ready.Run, kept(t, ready.Run)); d != "" {
		t.Error(d)
	}
	if again := step.Step(p, kept(t, ready.Run), stages.Input{Now: now, Observations: []stages.Observation{o}, Commands: in.Commands}); again.Changed {
		t.Errorf("delivered again it changes the run: %s", cmp.Diff(ready.Run, again.Run))
	}
}

// A clock that is far out of range makes no run that cannot be stored or stepped.
func TestExtremeClocksMakeValidRuns(t *testing.T) {
	p := oneAtATime(t)
	for _, now := range []time.Time{{}, time.UnixMilli(-1), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		run := kept(t, step.NewRun(p, "run", "uid", approval.Identity{}, false, now))
		for range 3 {
			ready := step.Step(p, run, stages.Input{Now: now})
			if ready.Err != nil || len(ready.Actions) != 1 {
				t.Fatalf("%s: %d actions: %v", now, len(ready.Actions), ready.Err)
			}
			if _, err := json.Marshal(ready.Events); err != nil {
				t.Fatal(err)
			}
			run = kept(t, ready.Run)
		}
	}
}
