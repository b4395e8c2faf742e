package step

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// FuzzRollBack plays random runs of random plans to random points. It holds the plans that roll
// them back to the laws, and then runs of these plans.
func FuzzRollBack(f *testing.F) {
	for seed := range corpus() {
		f.Add(lawBytes(uint64(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range backKinds() {
			for _, v := range playBack(t, data, kind, RollBack) {
				t.Errorf("%s: law %s: %s", kind, v.law, v.text)
			}
		}
	})
}

func TestRollBackLaws(t *testing.T) {
	n := uint64(few(1000, 150))
	if testing.Short() {
		n = 100
	}
	for seed := range n {
		for _, kind := range backKinds() {
			for _, v := range playBack(t, lawBytes(seed), kind, RollBack) {
				t.Fatalf("seed %d, %s: law %s: %s", seed, kind, v.law, v.text)
			}
		}
	}
}

// backKind is the kind of the plan whose run is rolled back.
type backKind string

func backKinds() []backKind { return []backKind{"stages", "domains", "workflow"} }

// inversion is RollBack, or a broken variant of it.
type inversion func(*stages.Plan, *Run, map[string]stages.Previous) (*stages.Plan, error)

// backCase is a run at a random point, with the previous state of its clusters.
type backCase struct {
	p        *stages.Plan
	r        *Run
	previous map[string]stages.Previous
	// started are the clusters that have a start event.
	started map[string]bool
	found   []violation
}

func (b *backCase) fail(law, format string, args ...any) {
	b.found = append(b.found, violation{law, fmt.Sprintf(format, args...)})
}

func playBack(t *testing.T, data []byte, kind backKind, do inversion) []violation {
	t.Helper()
	d := &dice{data: data, divided: kind == "domains"}
	roll := d.plan
	if kind == "workflow" {
		roll = d.flowPlan
	}
	p, err := roll()
	if err != nil {
		t.Fatal(err)
	}
	p.Strategy.Rollback = d.rollback()
	if err := p.Seal(); err != nil {
		t.Fatal(err)
	}
	b := &backCase{p: p, started: map[string]bool{}}
	b.advance(d)
	b.previous = d.previous(p)
	out := b.planned(do)
	if out == nil || len(b.found) > 0 {
		return b.found
	}
	b.holds(out)
	if len(b.found) == 0 && len(out.Clusters) > 0 {
		b.ends(d, out)
	}
	return b.found
}

func (d *dice) rollback() *stages.RollbackPolicy {
	b := &stages.RollbackPolicy{
		New:    []stages.NewClusters{"", stages.RemoveNew, stages.LeaveNew}[d.n(3)],
		Causes: [][]stages.RollbackCause{nil, {stages.BudgetExceeded}, {stages.GateRejected}, {stages.OnCommand}}[d.n(4)],
	}
	if d.n(3) == 2 {
		b.Approval = &approval.Policy{}
	}
	return b
}

// previous rolls the previous state of clusters; some have none.
func (d *dice) previous(p *stages.Plan) map[string]stages.Previous {
	out := map[string]stages.Previous{}
	for i := range p.Clusters {
		n := d.n(4)
		had := stages.Previous{Index: n, Snapshot: "s" + strconv.Itoa(n), Revision: []string{"rev-z", "rev-y", "rev-a", "rev-b"}[n]}
		switch d.n(8) {
		case 0:
			continue
		case 1:
			had = stages.Previous{Index: -1}
		case 2:
			had.Keep = []string{"snapshot 3 is irreversible", "it is not known"}[d.n(2)]
		case 3:
			had.Back = true
		}
		out[p.Clusters[i].Name] = had
	}
	return out
}

// advance plays the run to a random point.
func (b *backCase) advance(d *dice) {
	s := &sim{d: d, p: b.p, step: Step, clock: scriptEpoch, slots: len(b.p.Clusters)}
	s.run = NewRun(b.p, "run", "uid-run", approval.Identity{Name: "ann"}, false, s.clock)
	for i := range d.n(80) {
		in := s.chaos()
		if d.n(2) == 0 { // so that the run makes progress
			in = s.calm()
			in.Now = s.clock
		}
		if i > 10 && d.one(30) {
			in.Commands = append(in.Commands, stages.Command{ID: "back" + strconv.Itoa(i), Verb: stages.RequestRollback, By: approval.Identity{Name: "bob"}})
		}
		in.Slots = s.slots
		ready := Step(b.p, s.run, in)
		for _, e := range ready.Events {
			if e.Type == stages.ClusterStarted {
				b.started[e.Cluster] = true
			}
		}
		s.run, s.acts, s.wake = ready.Run, ready.Actions, ready.Wake
	}
	b.r = &s.run
}

// planned makes the plan twice. Neither the inputs nor the result may change.
func (b *backCase) planned(do inversion) (out *stages.Plan) {
	defer func() {
		if cause := recover(); cause != nil {
			b.fail("panic", "%v", cause)
			out = nil
		}
	}()
	before := dump(b.p) + dump(*b.r) + dump(b.previous)
	out, err := do(b.p, b.r, b.previous)
	if err != nil {
		b.fail("valid", "%v", err)
		return nil
	}
	again, err := do(b.p, b.r, b.previous)
	if err != nil || again.Digest != out.Digest || dump(again) != dump(out) {
		b.fail("pure", "the same run has another plan the second time: %v", err)
	}
	if dump(b.p)+dump(*b.r)+dump(b.previous) != before {
		b.fail("pure", "the arguments were changed")
	}
	if len(out.Clusters) > 0 {
		b.stored(out)
	}
	if _, err := RollBack(out, b.r, b.previous); err == nil {
		b.fail("valid", "a plan that takes back can be taken back")
	}
	return out
}

// stored checks that the plan can be stored and read.
func (b *backCase) stored(out *stages.Plan) {
	header, pages := out.Encode()
	read, err := stages.DecodePlan(header, pages)
	switch {
	case err != nil:
		b.fail("valid", "%v", err)
	case read.Digest != out.Digest:
		b.fail("valid", "the digest is %s, and %s when it was read", out.Digest, read.Digest)
	}
}

// ends runs the plan, through some chaos, to its end. Then no change of the run may be left.
func (b *backCase) ends(d *dice, out *stages.Plan) {
	s := &flowSim{sim: sim{d: d, p: out, clock: scriptEpoch, slots: len(out.Clusters)}}
	s.step = func(p *stages.Plan, r Run, in stages.Input) Ready {
		in.Slots = s.slots
		return Step(p, r, in)
	}
	s.check = &checker{p: out, found: &s.found}
	s.run = NewRun(out, "back", "uid-back", approval.Identity{Name: "bob"}, false, s.clock)
	for i := 0; i < 40 && !d.out() && len(s.found) == 0; i++ {
		s.turn(s.chaos())
	}
	s.blocked, s.slots = "", len(out.Clusters)
	s.end()
	b.found = append(b.found, s.found...)
	if len(b.found) > 0 {
		return
	}
	had := maps.Clone(b.previous)
	for pos, state := range s.run.States(out) {
		if name := out.Clusters[pos].Name; state == stages.Completed {
			p := had[name]
			p.Back = true
			had[name] = p
		}
	}
	again := &backCase{p: b.p, r: b.r, previous: had, started: b.started}
	if next := again.planned(RollBack); next != nil {
		again.holds(next)
	}
	b.found = append(b.found, again.found...)
}
