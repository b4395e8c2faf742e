package planner

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/stages"
)

func TestPlanPositions(t *testing.T) {
	p := mustPlan(t, rich(), richTarget(), testFleet())
	if p.Len() != 48 || p.Len() != len(p.Clusters) {
		t.Errorf("the plan has %d clusters", p.Len())
	}
	for i, st := range p.Stages {
		for j, g := range st.Groups {
			for pos := g.First; pos < g.First+g.Len; pos++ {
				if stage, group := p.StageOf(pos); stage != i || group != j {
					t.Errorf("position %d is in stage %d, group %d, want %d, %d", pos, stage, group, i, j)
				}
				if got, ok := p.Position(p.Clusters[pos].Name); got != pos || !ok {
					t.Errorf("%s is at %d, want %d", p.Clusters[pos].Name, got, pos)
				}
			}
		}
	}
	if _, ok := p.Position("missing"); ok {
		t.Error("a cluster that is not in the plan has a position")
	}
	for _, pos := range []int{-1, p.Len()} {
		if stage, group := p.StageOf(pos); stage != -1 || group != -1 {
			t.Errorf("position %d is in stage %d, group %d", pos, stage, group)
		}
	}
}

func TestStageOfSkipsEmptyStages(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "empty"}, everything("all"), {Name: "none"}}}
	p := mustPlan(t, s, testTarget(), clusters(2))
	for pos := range 2 {
		if stage, group := p.StageOf(pos); stage != 1 || group != 0 {
			t.Errorf("position %d is in stage %d, group %d", pos, stage, group)
		}
	}
}

func TestDigestCoversEverythingButWarnings(t *testing.T) {
	base := mustPlan(t, rich(), richTarget(), testFleet())
	changes := map[string]func(*stages.Plan){
		"strategy":        func(p *stages.Plan) { p.Strategy.Attempts++ },
		"placement":       func(p *stages.Plan) { p.Placement += "x" },
		"index":           func(p *stages.Plan) { p.Index++ },
		"snapshot":        func(p *stages.Plan) { p.Snapshot += "x" },
		"selection":       func(p *stages.Plan) { p.Selection += "x" },
		"stage":           func(p *stages.Plan) { p.Stages[0].MaxConcurrency++ },
		"group":           func(p *stages.Plan) { p.Stages[1].Groups[0].MaxFailures++ },
		"gate":            func(p *stages.Plan) { p.Stages[1].Gates[0].Policy.ForbidStarter = true },
		"revisions":       func(p *stages.Plan) { p.Revisions[0] += "x" },
		"cluster":         func(p *stages.Plan) { p.Clusters[0].Name += "x" },
		"uid":             func(p *stages.Plan) { p.Clusters[0].UID += "x" },
		"revision":        func(p *stages.Plan) { p.Clusters[0].Revision++ },
		"order":           func(p *stages.Plan) { slices.Reverse(p.Clusters) },
		"name to uid":     func(p *stages.Plan) { c := &p.Clusters[0]; c.UID, c.Name = c.Name[1:]+c.UID, c.Name[:1] },
		"digest":          func(p *stages.Plan) { p.Digest = "x" },
		"cluster missing": func(p *stages.Plan) { p.Clusters = p.Clusters[1:] },
	}
	for name, change := range changes {
		p := mustPlan(t, rich(), richTarget(), testFleet())
		change(p)
		if p.Verify() == nil {
			t.Errorf("%s: the digest did not notice", name)
		}
	}
	base.Warnings = nil
	if err := base.Verify(); err != nil {
		t.Error(err)
	}
}

func TestZeroPlanDoesNotPanic(t *testing.T) {
	var p stages.Plan
	if _, ok := p.Position("a"); ok || p.Len() != 0 || p.Verify() == nil {
		t.Error("a zero plan has something")
	}
	p.StageOf(0)
	header, pages := p.Encode()
	if _, err := stages.DecodePlan(header, pages); err == nil {
		t.Error("a zero plan was read")
	}
}
