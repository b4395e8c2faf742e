package stages

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
)

// planDivided uses failure domains and a cap.
func planDivided() Strategy {
	return Strategy{
		Name: "divided", Unassigned: UnassignedExclude, Cap: "database",
		Stages: []Stage{
			{Name: "prod", Selector: planSel("env", "prod"), MaxConcurrency: planNum(8), Domains: []Domain{
				{Key: "region", MaxConcurrency: planStr("25%")}, {Key: "order"},
			}},
			{Name: "canary", Selector: planSel("env", "canary"), Domains: []Domain{{Key: "region", MaxConcurrency: planNum(3)}}},
			{Name: "nobody", Selector: planSel("env", "none"), Domains: []Domain{{Key: "region"}}},
		},
	}
}

// The values of the labels are frozen with the plan: each is a domain with a
// number, a percentage rounded down over its clusters but at least 1; clusters
// without the label are one of their own and are told; numbers, and the order of
// clusters in the argument, make no difference to it.
func TestDomainsAreFrozen(t *testing.T) {
	clusters := []placement.Cluster{
		planMember("a1", "region=eu"), planMember("a2", "region=eu"), planMember("a3", "region=us"), planMember("a4"),
		planMember("a5", "region="), planMember("a6", "region=eu"), planMember("a7", "region=eu"), planMember("a8", "region=eu"),
	}
	st := planEverything("all")
	st.Domains = []Domain{{Key: "region", MaxConcurrency: planStr("45%")}}
	p := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	want := []PlannedDomain{
		{Key: "region", Clusters: 1, MaxConcurrency: 1},
		{Key: "region", Value: "eu", Clusters: 5, MaxConcurrency: 2},
		{Key: "region", Value: "us", Clusters: 1, MaxConcurrency: 1},
		{Key: "region", Absent: true, Clusters: 1, MaxConcurrency: 1},
	}
	if diff := cmp.Diff(want, p.Stages[0].Domains); diff != "" {
		t.Error(diff)
	}
	var of []string
	for pos := range p.Clusters {
		of = append(of, p.Clusters[pos].Name+" "+p.Domains(pos)[0].String())
	}
	if diff := cmp.Diff([]string{"a1 region=eu", "a2 region=eu", "a3 region=us", "a4 those without region", "a5 region=", "a6 region=eu", "a7 region=eu", "a8 region=eu"}, of); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"clusters of stage all without the label region are a failure domain of their own: a4"}, p.Warnings); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(clusters)
	if again := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters); again.Digest != p.Digest {
		t.Error("the order of the argument makes another plan")
	}
	clusters[0].Labels["region"] = "us"
	if other := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters); other.Digest == p.Digest {
		t.Error("the digest does not cover the domain of a cluster")
	}
	if p.Domains(-1) != nil || p.Domains(8) != nil || p.CellSizes(0, 0) == nil {
		t.Error("domains of nobody, or no sizes")
	}
}

// Every problem of the domains of a strategy is told at once.
func TestDomainsAreChecked(t *testing.T) {
	st := planEverything("all")
	st.Domains = []Domain{{}, {Key: "not a key"}, {Key: "zone", MaxConcurrency: planNum(0)}, {Key: "zone"}, {Key: "region", MaxConcurrency: planStr("101%")}}
	err := Strategy{Stages: []Stage{st}, Cap: "No_Name"}.Validate()
	planWants(t, err, "stages[0].domains: Too many: 5: must have at most 4 items", "stages[0].domains[0].key: Required value", `stages[0].domains[1].key: Invalid value: "not a key"`,
		"stages[0].domains[2].maxConcurrency", `stages[0].domains[3].key: Duplicate value: "zone"`, "stages[0].domains[4].maxConcurrency", `cap: Invalid value: "No_Name"`)
}

// A label that hardly two clusters share divides nothing and would make every
// run's record large.
func TestDomainsAreBounded(t *testing.T) {
	var clusters []placement.Cluster
	for i := range 300 {
		clusters = append(clusters, planMember(fmt.Sprintf("c%d", i), fmt.Sprintf("host=h%d", i), fmt.Sprintf("a=%d", i%100), fmt.Sprintf("b=%d", i%91)))
	}
	st := planEverything("all")
	st.Domains = []Domain{{Key: "host"}}
	_, err := NewPlan(Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	planWants(t, err, "strategy.stages[0].domains[0].key", "has 300 values among the clusters of the stage, and may have 256")

	for i := range 5000 {
		clusters = append(clusters, planMember(fmt.Sprintf("d%d", i), fmt.Sprintf("a=%d", i%100), fmt.Sprintf("b=%d", i%91)))
	}
	st.Domains = []Domain{{Key: "a"}, {Key: "b"}}
	_, err = NewPlan(Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	planWants(t, err, "strategy.stages[0].domains: Invalid value: 5000", "divide the stage into too many parts: there may be 4096")
}

// A plan with domains is stored in format 3, with pages in format 2, and comes
// back as it was; what was changed in it does not, whatever digest it has.
func TestDividedPlansAreStored(t *testing.T) {
	p := planMust(t, planDivided(), planTarget(), planFleet())
	header, pages := p.Encode()
	if !bytes.HasPrefix(header, []byte(`{"format":3,`)) || !bytes.HasPrefix(pages[0], []byte(`{"format":2,`)) {
		t.Errorf("%.20s %.20s", header, pages[0])
	}
	capped, _ := planMust(t, Strategy{Cap: "x", Stages: []Stage{planEverything("all")}}, planTarget(), planFleet()).Encode()
	if !bytes.HasPrefix(capped, []byte(`{"format":3,`)) {
		t.Errorf("%.20s", capped)
	}
	changes := map[string]func(*PlannedStage, *Plan){
		"no cells":            func(st *PlannedStage, _ *Plan) { st.Cells = nil },
		"no domains":          func(st *PlannedStage, _ *Plan) { st.Domains = nil },
		"cap of 0":            func(st *PlannedStage, _ *Plan) { st.Domains[0].MaxConcurrency = 0 },
		"more clusters":       func(st *PlannedStage, _ *Plan) { st.Domains[1].Clusters++ },
		"bad key":             func(st *PlannedStage, _ *Plan) { st.Domains[0].Key = "a b" },
		"values out of order": func(st *PlannedStage, _ *Plan) { st.Domains[0].Value = "zz" },
		"cells out of order":  func(st *PlannedStage, _ *Plan) { slices.Reverse(st.Cells) },
		"cell of nothing":     func(st *PlannedStage, _ *Plan) { st.Cells[0][0] = 99 },
		"negative cell":       func(st *PlannedStage, _ *Plan) { st.Cells[0][1] = -1 },
		"cell of one label":   func(st *PlannedStage, _ *Plan) { st.Cells[0] = st.Cells[0][:1] },
		"cluster in no cell":  func(_ *PlannedStage, p *Plan) { p.Clusters[0].Cell = 99 },
		"cluster before all":  func(_ *PlannedStage, p *Plan) { p.Clusters[0].Cell = -1 },
		"another cell":        func(_ *PlannedStage, p *Plan) { p.Clusters[0].Cell++ },
		"present and absent":  func(st *PlannedStage, _ *Plan) { st.Domains[0].Absent = true },
	}
	for name, change := range changes {
		p := planMust(t, planDivided(), planTarget(), planFleet())
		change(&p.Stages[0], p)
		if err := p.seal(); err != nil {
			t.Fatal(err)
		}
		if read, err := DecodePlan(p.Encode()); err == nil {
			t.Errorf("%s: it is read as %+v", name, read.Stages[0])
		}
	}
	if _, err := DecodePlan(header, [][]byte{bytes.Replace(pages[0], []byte(`{"format":2`), []byte(`{"format":3`), 1)}); !errors.As(err, new(*FormatError)) {
		t.Errorf("a page of a newer format: %v", err)
	}
}

// What a run keeps of its domains grows with those, and not with the fleet, and
// neither does the time of a step that starts one cluster for another.
func TestDividedRunsStaySmall(t *testing.T) {
	var clusters []placement.Cluster
	for i := range 10000 {
		clusters = append(clusters, planMember(fmt.Sprintf("c%05d", i), fmt.Sprintf("region=r%d", i%10), fmt.Sprintf("zone=z%d", i%3)))
	}
	st := planEverything("all")
	st.MaxConcurrency = &intstr.IntOrString{IntVal: 50}
	st.Domains = []Domain{{Key: "region", MaxConcurrency: planNum(3)}, {Key: "zone", MaxConcurrency: planNum(10)}}
	p := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	w := &scriptRun{plan: p, r: NewRun(p, "r", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch)}
	w.last = Step(p, w.r, Input{Now: scriptEpoch})
	peak := 0
	for round := 0; w.last.Run.State == Running && round < 20000; round++ {
		var in Input
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
	if w.last.Run.State != Completed || peak > 16<<10 {
		t.Errorf("the run is %s, its record had up to %d bytes", w.last.Run.State, peak)
	}
}

// Two plans are the same whatever the index of their cells is.
var planOnly = cmpopts.IgnoreUnexported(Plan{})

// A plan that takes back has the domains of the one that it takes back.
func TestRollBackKeepsDomains(t *testing.T) {
	s := planDivided()
	s.Rollback = &Rollback{}
	p := planMust(t, s, planTarget(), planFleet())
	r := Step(p, NewRun(p, "r", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch), Input{Now: scriptEpoch, Slots: 100}).Run
	previous := map[string]Previous{}
	for i := range r.Flights {
		r.Flights[i].Sent = true
		previous[p.Clusters[r.Flights[i].Pos].Name] = Previous{Index: 1, Snapshot: "old", Revision: "old-rev"}
	}
	back, err := RollBack(p, &r, previous)
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodePlan(back.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(back, read, planOnly); diff != "" || len(back.Clusters) == 0 || back.Strategy.Cap != s.Cap {
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
