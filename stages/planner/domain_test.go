package planner

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// divided returns a strategy with failure domains and a cap.
func divided() stages.Strategy {
	return stages.Strategy{
		Name: "divided", Unassigned: stages.UnassignedExclude, Cap: "database",
		Stages: []stages.Stage{
			{Name: "prod", Selector: matchLabel("env", "prod"), MaxConcurrency: number(8), Domains: []stages.Domain{
				{Key: "region", MaxConcurrency: percent("25%")}, {Key: "order"},
			}},
			{Name: "canary", Selector: matchLabel("env", "canary"), Domains: []stages.Domain{{Key: "region", MaxConcurrency: number(3)}}},
			{Name: "missing", Selector: matchLabel("env", "none"), Domains: []stages.Domain{{Key: "region"}}},
		},
	}
}

// The values of the labels are frozen with the plan. Each value is a domain with a limit; a
// percentage is rounded down over the domain's clusters, to at least 1. Clusters without the label
// are a domain of their own, with a warning. The order of the clusters in the argument has no
// effect.
func TestDomainsAreFrozen(t *testing.T) {
	clusters := []placement.Cluster{
		cluster("a1", "region=eu"), cluster("a2", "region=eu"), cluster("a3", "region=us"), cluster("a4"),
		cluster("a5", "region="), cluster("a6", "region=eu"), cluster("a7", "region=eu"), cluster("a8", "region=eu"),
	}
	st := everything("all")
	st.Domains = []stages.Domain{{Key: "region", MaxConcurrency: percent("45%")}}
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters)
	want := []stages.PlannedDomain{
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
	if again := mustPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters); again.Digest != p.Digest {
		t.Error("the order of the argument makes another plan")
	}
	clusters[0].Labels["region"] = "us"
	if other := mustPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters); other.Digest == p.Digest {
		t.Error("the digest does not cover the domain of a cluster")
	}
	if p.Domains(-1) != nil || p.Domains(8) != nil || p.CellSizes(0, 0) == nil {
		t.Error("domains of no cluster, or no sizes")
	}
}

// All problems of the domains of a strategy are reported at once.
func TestDomainsAreChecked(t *testing.T) {
	st := everything("all")
	st.Domains = []stages.Domain{{}, {Key: "not a key"}, {Key: "zone", MaxConcurrency: number(0)}, {Key: "zone"}, {Key: "region", MaxConcurrency: percent("101%")}}
	err := stages.Strategy{Stages: []stages.Stage{st}, Cap: "No_Name"}.Validate()
	wantError(t, err, "stages[0].domains: Too many: 5: must have at most 4 items", "stages[0].domains[0].key: Required value", `stages[0].domains[1].key: Invalid value: "not a key"`,
		"stages[0].domains[2].maxConcurrency", `stages[0].domains[3].key: Duplicate value: "zone"`, "stages[0].domains[4].maxConcurrency", `cap: Invalid value: "No_Name"`)
}

// A label with a different value on almost every cluster is refused: it divides nothing and would
// make the record of every run large.
func TestDomainsAreBounded(t *testing.T) {
	var clusters []placement.Cluster
	for i := range 300 {
		clusters = append(clusters, cluster(fmt.Sprintf("c%d", i), fmt.Sprintf("host=h%d", i), fmt.Sprintf("a=%d", i%100), fmt.Sprintf("b=%d", i%91)))
	}
	st := everything("all")
	st.Domains = []stages.Domain{{Key: "host"}}
	_, err := Plan(stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters)
	wantError(t, err, "strategy.stages[0].domains[0].key", "has 300 values among the clusters of the stage, and may have 256")

	for i := range 5000 {
		clusters = append(clusters, cluster(fmt.Sprintf("d%d", i), fmt.Sprintf("a=%d", i%100), fmt.Sprintf("b=%d", i%91)))
	}
	st.Domains = []stages.Domain{{Key: "a"}, {Key: "b"}}
	_, err = Plan(stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters)
	wantError(t, err, "strategy.stages[0].domains: Invalid value: 5000", "divide the stage into too many parts: there may be 4096")
}

// A stored plan with domains that was changed is refused, with any digest.
func TestDividedPlansAreStored(t *testing.T) {
	p := mustPlan(t, divided(), testTarget(), testFleet())
	header, pages := p.Encode()
	if read, err := stages.DecodePlan(header, pages); err != nil || !reflect.DeepEqual(read.Clusters, p.Clusters) {
		t.Errorf("it is read as %+v, %v", read, err)
	}
	changes := map[string]func(*stages.PlannedStage, *stages.Plan){
		"no cells":            func(st *stages.PlannedStage, _ *stages.Plan) { st.Cells = nil },
		"no domains":          func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains = nil },
		"cap of 0":            func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains[0].MaxConcurrency = 0 },
		"more clusters":       func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains[1].Clusters++ },
		"bad key":             func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains[0].Key = "a b" },
		"values out of order": func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains[0].Value = "zz" },
		"cells out of order":  func(st *stages.PlannedStage, _ *stages.Plan) { slices.Reverse(st.Cells) },
		"cell of nothing":     func(st *stages.PlannedStage, _ *stages.Plan) { st.Cells[0][0] = 99 },
		"negative cell":       func(st *stages.PlannedStage, _ *stages.Plan) { st.Cells[0][1] = -1 },
		"cell of one label":   func(st *stages.PlannedStage, _ *stages.Plan) { st.Cells[0] = st.Cells[0][:1] },
		"cluster in no cell":  func(_ *stages.PlannedStage, p *stages.Plan) { p.Clusters[0].Cell = 99 },
		"cluster before all":  func(_ *stages.PlannedStage, p *stages.Plan) { p.Clusters[0].Cell = -1 },
		"another cell":        func(_ *stages.PlannedStage, p *stages.Plan) { p.Clusters[0].Cell++ },
		"present and absent":  func(st *stages.PlannedStage, _ *stages.Plan) { st.Domains[0].Absent = true },
	}
	for name, change := range changes {
		p := mustPlan(t, divided(), testTarget(), testFleet())
		change(&p.Stages[0], p)
		if err := reseal(p); err != nil {
			t.Fatal(err)
		}
		if read, err := stages.DecodePlan(p.Encode()); err == nil {
			t.Errorf("%s: it is read as %+v", name, read.Stages[0])
		}
	}
	if _, err := stages.DecodePlan(header, [][]byte{bytes.Replace(pages[0], []byte(`{"format":1`), []byte(`{"format":2`), 1)}); !errors.As(err, new(*versioned.FormatError)) {
		t.Errorf("a page of a newer format: %v", err)
	}
}
