package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

var updateGolden = flag.Bool("update-plans", false, "write the golden files of stored plans again")

func samples(t testing.TB) map[string]*stages.Plan {
	small := mustPlan(t, stages.Strategy{Name: "small", Stages: []stages.Stage{everything("all")}}, testTarget(), clusters(3))
	return map[string]*stages.Plan{
		"plan-small":   small,
		"plan-rich":    mustPlan(t, rich(), richTarget(), testFleet()),
		"plan-newer":   mustPlan(t, newer(), testTarget(), testFleet()),
		"plan-divided": mustPlan(t, divided(), testTarget(), testFleet()),
	}
}

// A plan that an older version stored can always be read. These files may be added to but never
// changed.
func TestPlanGolden(t *testing.T) {
	for name, p := range samples(t) {
		path := filepath.Join("testdata", "golden", name+".jsonl")
		header, pages := p.Encode()
		got := append(bytes.Join(append([][]byte{header}, pages...), []byte("\n")), '\n')
		if *updateGolden {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		lines := bytes.Split(bytes.TrimSuffix(want, []byte("\n")), []byte("\n"))
		read, err := stages.DecodePlan(lines[0], lines[1:])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(p, read, cmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPlanPagesAreBounded(t *testing.T) {
	many := clusters(1)
	target := testTarget()
	target.Revision = map[string]string{}
	for i := range 2500 {
		c := placement.Cluster{Name: fmt.Sprintf("c%05d", i), UID: strings.Repeat("<", 200)}
		if i < 1500 {
			c.UID = "uid"
		}
		target.Revision[c.Name] = "revision-" + strconv.Itoa(i)
		many = append(many, c)
	}
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, many)
	header, pages := p.Encode()
	if len(header) > 1<<10 {
		t.Errorf("the header grows with the fleet: %d bytes", len(header))
	}
	for i, b := range pages {
		var page pageRecord
		if err := json.Unmarshal(b, &page); err != nil {
			t.Fatal(err)
		}
		if len(b) > 128<<10 || len(page.Clusters) > 1000 || len(page.Revisions) > 1000 {
			t.Errorf("page %d has %d bytes, %d clusters, %d revisions", i, len(b), len(page.Clusters), len(page.Revisions))
		}
	}
	read, err := stages.DecodePlan(header, pages)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, read, cmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
		t.Error(diff)
	}
	if pos, ok := read.Position("c00042"); !ok || read.Clusters[pos].Name != "c00042" {
		t.Error("positions are not found in a plan that was read")
	}
}

// Every single bit of every record is protected.
func TestDecodePlanNoticesEveryBit(t *testing.T) {
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{everything("all"), {Name: "none"}}}, testTarget(), clusters(3))
	header, pages := p.Encode()
	records := append([][]byte{header}, pages...)
	for i, record := range records {
		for bit := range len(record) * 8 {
			damaged := slices.Clone(records)
			damaged[i] = bytes.Clone(record)
			damaged[i][bit/8] ^= 1 << (bit % 8)
			if _, err := stages.DecodePlan(damaged[0], damaged[1:]); err == nil {
				t.Errorf("record %d, bit %d: %q was read", i, bit, damaged[i])
			}
		}
	}
}

func TestDecodePlanRefuses(t *testing.T) {
	p := samples(t)["plan-rich"]
	header, pages := p.Encode()
	replace := func(b []byte, from, to string) []byte {
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("there is no %s in %s", from, b)
		}
		return bytes.Replace(b, []byte(from), []byte(to), 1)
	}
	tests := []struct {
		name   string
		header []byte
		pages  [][]byte
		want   string
	}{
		{"nothing", nil, nil, "plan header: "},
		{"a header of something else", []byte(`{"kind":"Run"}`), pages, "has no format"},
		{"a header without a plan", []byte(`{"format":1,"pages":1}`), pages, "has no plan"},
		{"an unknown field", replace(header, `"format":1`, `"format":1,"more":2`), pages, "more"},
		{"an unknown field of the strategy", replace(header, `"name":"rich"`, `"name":"rich","more":2`), pages, "more"},
		{"something behind", append(bytes.Clone(header), '{'), pages, "plan header"},
		{"a space", append(bytes.Clone(header), ' '), pages, "was changed"},
		{"a page missing", header, nil, "has 1 pages, but there are 0"},
		{"a page twice", header, [][]byte{pages[0], pages[0]}, "has 1 pages, but there are 2"},
		{"a warning changed", replace(header, "come last", "come next"), pages, "warnings"},
		{"a cluster changed", header, [][]byte{replace(pages[0], "uid-c1", "uid-c2")}, "it was changed"},
		{"a cluster without a revision", header, [][]byte{replace(pages[0], " -1 0 uid0", "")}, "with a space between"},
		{"another page", header, [][]byte{replace(pages[0], `"page":0`, `"page":1`)}, "is page 1"},
		{"a page of no format", header, [][]byte{replace(pages[0], `"format":1`, `"format":0`)}, "plan page 0: has no format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := stages.DecodePlan(tt.header, tt.pages)
			wantError(t, err, tt.want)
			if p != nil {
				t.Error("there is a plan")
			}
		})
	}
}

func TestDecodePlanRefusesNewerFormats(t *testing.T) {
	header, pages := samples(t)["plan-small"].Encode()
	newer := func(b []byte) []byte {
		return bytes.Replace(b, []byte(`{"format":1`), []byte(`{"format":4,"unheard":[]`), 1)
	}
	for record, tt := range map[string]struct {
		records [][]byte
		want    int
	}{
		"plan header": {[][]byte{newer(header), pages[0]}, 1},
		"plan page 0": {[][]byte{header, newer(pages[0])}, 1},
	} {
		_, err := stages.DecodePlan(tt.records[0], tt.records[1:])
		var format *versioned.FormatError
		if !errors.As(err, &format) {
			t.Fatalf("%s: %v", record, err)
		}
		if diff := cmp.Diff(&versioned.FormatError{Record: record, Have: 4, Want: tt.want}, format); diff != "" {
			t.Error(diff)
		}
		wantError(t, err, record, "format 4 is newer than "+strconv.Itoa(tt.want))
	}
}

// A client that can write a plan can also write its digest. So a plan with the right digest is
// refused, too, if Plan cannot have made it.
func TestDecodePlanRefusesImpossiblePlansWithAValidDigest(t *testing.T) {
	changes := map[string]func(*stages.Plan){
		"strategy":          func(p *stages.Plan) { p.Strategy.Attempts = -7 },
		"placement":         func(p *stages.Plan) { p.Placement = "No" },
		"index":             func(p *stages.Plan) { p.Index = -1 },
		"digest":            func(p *stages.Plan) { p.Snapshot = "" },
		"revision order":    func(p *stages.Plan) { slices.Reverse(p.Revisions) },
		"revision empty":    func(p *stages.Plan) { p.Revisions[0] = "" },
		"no groups":         func(p *stages.Plan) { p.Stages[0].Groups = nil },
		"no stages":         func(p *stages.Plan) { p.Stages = nil },
		"stage twice":       func(p *stages.Plan) { p.Stages[0].Name = p.Stages[1].Name },
		"not removing":      func(p *stages.Plan) { p.Stages[3].Remove = false },
		"removing too soon": func(p *stages.Plan) { p.Stages[2], p.Stages[3] = p.Stages[3], p.Stages[2] },
		"removing before the last": func(p *stages.Plan) {
			late := stages.PlannedStage{Name: "late", Groups: []stages.PlannedGroup{{First: p.Len(), MaxConcurrency: 1}}}
			p.Stages = append(p.Stages, late)
		},
		"cap":              func(p *stages.Plan) { p.Stages[0].MaxConcurrency = -1 },
		"budget":           func(p *stages.Plan) { p.Stages[0].MaxFailures = -2 },
		"group cap":        func(p *stages.Plan) { p.Stages[0].Groups[0].MaxConcurrency = 0 },
		"group budget":     func(p *stages.Plan) { p.Stages[0].Groups[0].MaxFailures = -2 },
		"group name":       func(p *stages.Plan) { p.Stages[1].Groups[0].Name = "" },
		"gap":              func(p *stages.Plan) { p.Stages[1].Groups[0].First++ },
		"negative length":  func(p *stages.Plan) { p.Stages[1].Groups[0].Len = -1 },
		"huge length":      func(p *stages.Plan) { p.Stages[1].Groups[0].Len = 1<<63 - 1 },
		"uncovered":        func(p *stages.Plan) { p.Stages[3].Groups[0].Len-- },
		"no such revision": func(p *stages.Plan) { p.Clusters[0].Revision = len(p.Revisions) },
		"removed too soon": func(p *stages.Plan) { p.Clusters[0].Revision = -1 },
		"not removed":      func(p *stages.Plan) { p.Clusters[47].Revision = 0 },
		"cluster twice":    func(p *stages.Plan) { p.Clusters[0].Name = p.Clusters[1].Name },
		"cluster name":     func(p *stages.Plan) { p.Clusters[0].Name = "" },
		"uid":              func(p *stages.Plan) { p.Clusters[0].UID = "a b" },
		"gate type":        func(p *stages.Plan) { p.Stages[0].Gates[0].Type = "Nap" },
		"gate wait":        func(p *stages.Plan) { p.Stages[0].Gates[0].Wait.Duration = -1 },
		"gate side":        func(p *stages.Plan) { p.Stages[0].Gates[0].When = "During" },
		"gate of a group": func(p *stages.Plan) {
			p.Stages[1].Groups[0].Gates = []stages.PlannedGate{{When: approval.After, Type: "Nap"}}
		},
		"start after": func(p *stages.Plan) {
			p.Stages[0].Gates[0] = stages.PlannedGate{When: approval.After, Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "02:00"}}
		},
		"no schedule": func(p *stages.Plan) {
			p.Stages[0].Gates[0] = stages.PlannedGate{When: approval.Before, Type: stages.ScheduledStart}
		},
		"gate of no group": func(p *stages.Plan) {
			p.Stages[0].Groups[0].Gates = []stages.PlannedGate{{When: approval.After, Type: stages.Approval}}
		},
		"strict group of nothing": func(p *stages.Plan) { p.Stages[1].Groups[1].Strict = true },
		"strict without a group":  func(p *stages.Plan) { p.Stages[0].Groups[0].Strict = true },
		"strict stage of nothing": func(p *stages.Plan) { p.Stages[0].Strict = true },
		"left and planned":        func(p *stages.Plan) { p.Left = []string{p.Clusters[0].Name} },
		"left twice":              func(p *stages.Plan) { p.Left = []string{"left", "left"} },
		"left without a name":     func(p *stages.Plan) { p.Left = []string{""} },
		"strict removal":          func(p *stages.Plan) { p.Stages[3].Strict, p.Stages[3].MaxFailures = true, 1 },
	}
	for name, change := range changes {
		p := mustPlan(t, rich(), richTarget(), testFleet())
		change(p)
		if err := reseal(p); err != nil {
			t.Fatal(err)
		}
		if _, err := stages.DecodePlan(p.Encode()); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}

func FuzzDecodePlan(f *testing.F) {
	for _, p := range samples(f) {
		header, pages := p.Encode()
		f.Add(header, pages[0])
	}
	f.Add([]byte(`{"format":1,"pages":1,"plan":{"stages":[{"groups":[]}]}}`), []byte(`{"format":1,"clusters":["a 0 0 b"]}`))
	f.Fuzz(func(t *testing.T, header, page []byte) {
		for _, pages := range [][][]byte{nil, {page}, {page, page}} {
			p, err := stages.DecodePlan(header, pages)
			if err != nil {
				continue
			}
			if h, ps := p.Encode(); !bytes.Equal(h, header) || !slices.EqualFunc(ps, pages, bytes.Equal) {
				t.Error("a plan that was read is not stored as it was")
			}
			for pos := range p.Len() {
				p.StageOf(pos)
			}
		}
	})
}

// FuzzDecodePlanSealed gives a plan with any content the right digest, so that the checks after the
// digest are reached.
func FuzzDecodePlanSealed(f *testing.F) {
	for _, p := range samples(f) {
		header, pages := p.Encode()
		f.Add(header, pages[0])
	}
	f.Fuzz(func(t *testing.T, header, page []byte) {
		p, err := spelled(header, page)
		if err != nil || reseal(p) != nil {
			return
		}
		read, err := stages.DecodePlan(p.Encode())
		if err != nil {
			return
		}
		for pos := range read.Len() {
			stage, group := read.StageOf(pos)
			if g := read.Stages[stage].Groups[group]; pos < g.First || pos >= g.First+g.Len {
				t.Errorf("position %d is not in group %+v", pos, g)
			}
		}
	})
}

// The digest of a plan is part of every approval: it must not change between
// versions.
func TestPlanDigestIsPinned(t *testing.T) {
	p := samples(t)["plan-small"]
	const want = "32ca9c4952d6725a49690d3fdf627e28ad5f397dc1c0b36da1dfe63cbb2b96d5"
	if len(p.Digest) != 2*sha256.Size || p.Digest != want {
		t.Errorf("the digest is %s, want %s", p.Digest, want)
	}
}

func BenchmarkDecodePlan(b *testing.B) {
	s, target, clusters := large(100_000)
	p := mustPlan(b, s, target, clusters)
	header, pages := p.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stages.DecodePlan(header, pages); err != nil {
			b.Fatal(err)
		}
	}
}
