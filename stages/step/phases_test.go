package step

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
)

// A soaking cluster that cannot be reached is not done when its soak ends, also if nothing was sent
// to it and so many clusters wait already that it keeps its slot.
func TestASoakOfAnUnreachableClusterWithItsSlotIsInterrupted(t *testing.T) {
	const clusters = maxUnreached + 2
	p := soakPlan(t, clusters)
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	step := func(observed ...stages.Observation) {
		ready = Step(p, ready.Run, stages.Input{Now: now, Observations: observed})
	}
	name := p.Clusters[0].Name
	first := stages.Observation{Cluster: name, Attempt: 1, Failed: true, Message: "not yet"}
	step(first)
	now = now.Add(time.Minute)
	step()
	proven := stages.Observation{Cluster: name, Attempt: 2, Applied: true, Unchanged: true, Revision: p.Revisions[0], Current: true, Healthy: true}
	step(proven)
	lost := []stages.Observation{}
	for i := 1; i <= maxUnreached; i++ {
		lost = append(lost, stages.Observation{Cluster: p.Clusters[i].Name, Attempt: 1, Unreachable: true, Message: "no route"})
	}
	step(lost...)
	if f := ready.Run.form.At(0); f == nil || f.Phase != stages.Soaking || f.Sent || len(ready.Run.form.Waiting) != maxUnreached {
		t.Fatalf("cluster %s is %+v, %d clusters wait", name, f, len(ready.Run.form.Waiting))
	}
	step(stages.Observation{Cluster: name, Attempt: 2, Unreachable: true, Message: "no route"})
	now = now.Add(10 * time.Second)
	step()
	if f := ready.Run.form.At(0); f == nil || f.Phase != stages.Settling {
		t.Errorf("cluster %s is %+v after its soak, in which it could not be reached", name, f)
	}
	step(proven)
	if f := ready.Run.form.At(0); f != nil || ready.Run.form.Stages[0].Groups[0].Completed != 1 {
		t.Errorf("cluster %s is %+v when it is proven again after its soak", name, f)
	}
}

// flight is a run with one cluster, which soaks for ten seconds and is then measured.
type flight struct {
	t     *testing.T
	p     *stages.Plan
	now   time.Time
	ready Ready
}

func newFlight(t *testing.T) *flight {
	t.Helper()
	least := 1.0
	p, err := planner.Plan(stages.Strategy{
		MinHealthy: metav1.Duration{Duration: 10 * time.Second}, Backoff: metav1.Duration{Duration: time.Minute},
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, ClusterChecks: []check.Check{{Name: "x", Query: "x", Min: &least}}}},
	}, stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "r1"}, []placement.Cluster{{Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	f := &flight{t: t, p: p, now: scriptEpoch}
	f.ready = Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, f.now), stages.Input{Now: f.now})
	return f
}

// observe steps with observations, each described by a word of the scripts; soaked lets the soak
// end instead.
func (f *flight) observe(words ...string) *flight {
	f.t.Helper()
	for _, word := range words {
		in := stages.Input{}
		if word == "soaked" {
			f.now = f.now.Add(10 * time.Second)
		} else {
			in.Observations = []stages.Observation{(&scriptRun{plan: f.p, r: f.ready.Run}).observation("c", word)}
		}
		in.Now = f.now
		if f.ready = Step(f.p, f.ready.Run, in); f.ready.Err != nil {
			f.t.Fatal(f.ready.Err)
		}
	}
	return f
}

func (f *flight) cluster() *runstate.InFlight {
	f.t.Helper()
	c := f.ready.Run.form.At(0)
	if c == nil {
		f.t.Fatalf("the cluster is not in flight: the run is %s", f.ready.Run.State)
	}
	return c
}

// phase returns the phase of the cluster, and the fields from the phase before.
func (f *flight) phase() string {
	c := f.cluster()
	out := c.Phase.String()
	if c.Phase == stages.Settling && c.SoakEnds != 0 {
		out += ", in its soak"
	}
	if c.Phase == stages.Settling && c.Checks != nil {
		out += ", with checks"
	}
	return out
}

// phases are the phases of a cluster in flight, with the observations that lead to them.
func phases() map[string][]string {
	return map[string][]string{
		"Applying":              nil,
		"Settling":              {"unhealthy"},
		"Soaking":               {"healthy"},
		"Settling, in its soak": {"healthy", "lost"},
		"Measuring":             {"healthy", "soaked"},
		"Settling, with checks": {"healthy", "soaked", "lost"},
		"BackingOff":            {"failed"},
	}
}

// The phase of a cluster and an observation give its next phase. Only while the state is unknown
// does a cluster keep its soak or its checks: if it is seen unhealthy, they begin again.
func TestThePhaseAfterAnObservation(t *testing.T) {
	words := []string{"lost", "sent-pointless", "stale", "unhealthy", "healthy", "failed"}
	for phase, after := range map[string][]string{
		"Applying":              {"Applying", "Applying", "Applying", "Settling", "Soaking", "BackingOff"},
		"Settling":              {"Settling", "Settling", "Settling", "Settling", "Soaking", "BackingOff"},
		"Soaking":               {"Settling, in its soak", "Settling, in its soak", "Settling", "Settling", "Soaking", "BackingOff"},
		"Settling, in its soak": {"Settling, in its soak", "Settling, in its soak", "Settling", "Settling", "Soaking", "BackingOff"},
		"Measuring":             {"Settling, with checks", "Settling, with checks", "Settling", "Settling", "Measuring", "BackingOff"},
		"Settling, with checks": {"Settling, with checks", "Settling, with checks", "Settling", "Settling", "Measuring", "BackingOff"},
		"BackingOff":            {"BackingOff", "BackingOff", "BackingOff", "BackingOff", "BackingOff", "BackingOff"},
	} {
		for i, word := range words {
			f := newFlight(t).observe(phases()[phase]...)
			before := *f.cluster()
			if got := f.phase(); got != phase {
				t.Fatalf("%q lead to %s, want %s", phases()[phase], got, phase)
			}
			f.observe(word)
			now := f.cluster()
			if got := f.phase(); got != after[i] || now.Wrong() != "" {
				t.Errorf("%s, then %s: %s, want %s; %s", phase, word, got, after[i], now.Wrong())
			}
			if kept := strings.Contains(phase, "soak") || phase == "Soaking"; kept && (f.phase() == "Soaking" || strings.Contains(f.phase(), "soak")) && now.SoakEnds != before.SoakEnds {
				t.Errorf("%s, then %s: the soak ends at %d, not at %d", phase, word, now.SoakEnds, before.SoakEnds)
			}
		}
	}
}

// A run whose cluster has fields of another phase is refused.
func TestAClusterWithFieldsOfAnotherPhase(t *testing.T) {
	for phase, words := range phases() {
		for name, change := range map[string]func(*runstate.InFlight){
			"a soak":            func(f *runstate.InFlight) { f.SoakEnds = 1 },
			"no soak":           func(f *runstate.InFlight) { f.SoakEnds = 0 },
			"a backoff":         func(f *runstate.InFlight) { f.NotYet = 1 },
			"no backoff":        func(f *runstate.InFlight) { f.NotYet = 0 },
			"checks":            func(f *runstate.InFlight) { f.Checks = newFlight(t).observe("healthy", "soaked").cluster().Checks },
			"no checks":         func(f *runstate.InFlight) { f.Checks = nil },
			"a phase before":    func(f *runstate.InFlight) { f.Phase = 0 },
			"a phase after all": func(f *runstate.InFlight) { f.Phase = stages.Measuring + 1 },
		} {
			f := newFlight(t).observe(words...)
			run := f.ready.Run
			run.form.InFlight = slices.Clone(run.form.InFlight)
			change(&run.form.InFlight[0])
			allowed := map[string][]string{
				"Applying": {"no soak", "no backoff", "no checks"}, "Settling": {"a soak", "no soak", "no backoff", "checks", "no checks"},
				"Soaking": {"a soak", "no backoff", "no checks"}, "Settling, in its soak": {"a soak", "no soak", "no backoff", "no checks"},
				"Measuring": {"no soak", "no backoff", "checks"}, "Settling, with checks": {"no soak", "no backoff", "checks", "no checks"},
				"BackingOff": {"no soak", "a backoff", "no checks"},
			}[phase]
			if err := run.Check(f.p); (err == nil) != slices.Contains(allowed, name) || err != nil && !strings.Contains(err.Error(), "inFlight") {
				t.Errorf("a cluster that is %s with %s: %v", phase, name, err)
			}
		}
	}
}

// soakPlan returns a plan with all clusters in flight at once that soak for ten seconds.
func soakPlan(t *testing.T, clusters int) *stages.Plan {
	t.Helper()
	all := intstr.FromString("100%")
	fleet := make([]placement.Cluster, clusters)
	for i := range fleet {
		fleet[i] = placement.Cluster{Name: fmt.Sprintf("cluster-%03d", i)}
	}
	p, err := planner.Plan(stages.Strategy{
		MinHealthy: metav1.Duration{Duration: 10 * time.Second}, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &all}},
	}, stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "r1"}, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
