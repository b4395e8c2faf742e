package step

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// The state that a run keeps for its domains grows with the number of domains, and not with the
// fleet. The time of a step that starts the next cluster does not grow with the fleet either.
func TestDividedRunsStaySmall(t *testing.T) {
	var clusters []placement.Cluster
	for i := range 10000 {
		clusters = append(clusters, labelled(fmt.Sprintf("c%05d", i), fmt.Sprintf("region=r%d", i%10), fmt.Sprintf("zone=z%d", i%3)))
	}
	st := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}}
	st.MaxConcurrency = &intstr.IntOrString{IntVal: 50}
	st.Domains = []stages.Domain{{Key: "region", MaxConcurrency: &intstr.IntOrString{IntVal: 3}}, {Key: "zone", MaxConcurrency: &intstr.IntOrString{IntVal: 10}}}
	p := newPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, clusters)
	w := &scriptRun{plan: p, r: NewRun(p, "r", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch)}
	w.last = Step(p, w.r, stages.Input{Now: scriptEpoch})
	peak := 0
	for round := 0; w.last.Run.State == stages.Running && round < 20000; round++ {
		var in stages.Input
		in.Now = scriptEpoch
		for i, a := range w.last.Actions {
			// Region r0 is ten times slower than the others.
			if p.Domains(a.Pos)[0].Value == "r0" && round%10 != 0 || i%3 == round%3 {
				continue
			}
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: w.last.Run}).observation(a.Cluster, "healthy"))
		}
		w.last = Step(p, w.last.Run, in)
		peak = max(peak, len(dump(w.last.Run)))
	}
	if w.last.Run.State != stages.Completed || peak > 16<<10 {
		t.Errorf("the run is %s, its record had up to %d bytes", w.last.Run.State, peak)
	}
}

// The plan of a rollback has the domains of the plan that it rolls back.
func TestRollBackKeepsDomains(t *testing.T) {
	p := divided(t, &stages.RollbackPolicy{})
	r := Step(p, NewRun(p, "r", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch), stages.Input{Now: scriptEpoch, Slots: 100}).Run
	previous := map[string]stages.Previous{}
	for i := range r.form.InFlight {
		r.form.InFlight[i].Sent = true
		previous[p.Clusters[r.form.InFlight[i].Pos].Name] = stages.Previous{Index: 1, Snapshot: "old", Revision: "old-rev"}
	}
	back, err := RollBack(p, &r, previous)
	if err != nil {
		t.Fatal(err)
	}
	read, err := stages.DecodePlan(back.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(back, read, planOnly); diff != "" || len(back.Clusters) == 0 || back.Strategy.Cap != p.Strategy.Cap {
		t.Errorf("%d clusters, cap %q: %s", len(back.Clusters), back.Strategy.Cap, diff)
	}
	for pos, c := range back.Clusters {
		from, _ := p.Position(c.Name)
		if diff := cmp.Diff(p.Domains(from), back.Domains(pos)); diff != "" {
			t.Errorf("%s: %s", c.Name, diff)
		}
	}
	if !strings.Contains(fmt.Sprint(back.Domains(0)), "region=") {
		t.Error(back.Domains(0))
	}
}

// planOnly ignores the index of the cells, which is not part of a plan's value.
var planOnly = cmpopts.IgnoreUnexported(stages.Plan{})
