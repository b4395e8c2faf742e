package step

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// FuzzWorkflowLaws plays random runs of random workflows: pauses, timeouts, groups that depend on
// others, and stages with Always.
func FuzzWorkflowLaws(f *testing.F) {
	for seed := range corpus() {
		f.Add(lawBytes(uint64(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range playFlow(t, data, Step) {
			t.Errorf("law %s: %s", v.law, v.text)
		}
	})
}

func TestWorkflowLaws(t *testing.T) {
	n := uint64(few(1000, 100))
	if testing.Short() {
		n = 100
	}
	for seed := range n {
		for _, v := range playFlow(t, lawBytes(seed), Step) {
			t.Fatalf("seed %d: law %s: %s", seed, v.law, v.text)
		}
	}
}

// The laws detect machines with a broken feature of workflows.
func TestWorkflowLawsFindMutants(t *testing.T) {
	change := func(how func(*stages.PlannedStage, *stages.PlannedGroup)) machine {
		return func(p *stages.Plan, r Run, in stages.Input) Ready {
			broken := *p
			broken.Stages = slices.Clone(p.Stages)
			for i := range broken.Stages {
				st := &broken.Stages[i]
				st.Groups = slices.Clone(st.Groups)
				for j := range st.Groups {
					how(st, &st.Groups[j])
				}
			}
			return step(&broken, r, in)
		}
	}
	for name, do := range map[string]machine{
		"groups depend on nothing": change(func(_ *stages.PlannedStage, g *stages.PlannedGroup) { g.After = nil }),
		"everything runs always":   change(func(st *stages.PlannedStage, g *stages.PlannedGroup) { st.Always, g.Always = true, true }),
		"nothing runs always":      change(func(st *stages.PlannedStage, g *stages.PlannedGroup) { st.Always, g.Always = false, false }),
		"what is late goes on":     change(func(st *stages.PlannedStage, g *stages.PlannedGroup) { st.Timeout.Duration, g.Timeout.Duration = 0, 0 }),
		"pauses are passed":        change(func(st *stages.PlannedStage, g *stages.PlannedGroup) { st.Pause, g.Pause = false, false }),
		"a pause has no gates":     change(func(st *stages.PlannedStage, _ *stages.PlannedGroup) { st.Gates = nil }),
		"a clock is not stored":    func(p *stages.Plan, r Run, in stages.Input) Ready { return forget(Step(p, r, in)) },
		"takes back without a request": func(p *stages.Plan, r Run, in stages.Input) Ready {
			broken := *p
			broken.Strategy.Rollback = &stages.RollbackPolicy{}
			return step(&broken, r, in)
		},
		"is taken back, and goes on":    func(p *stages.Plan, r Run, in stages.Input) Ready { return goOnAnyway(Step(p, r, in)) },
		"a failure ends it all at once": func(p *stages.Plan, r Run, in stages.Input) Ready { return endAtOnce(Step(p, r, in)) },
	} {
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			found = len(playFlow(t, lawBytes(seed), do)) > 0
		}
		if !found {
			t.Errorf("%s: no law finds it", name)
		}
	}
}

func forget(r Ready) Ready {
	r.Run.form.Stages = slices.Clone(r.Run.form.Stages)
	for i := range r.Run.form.Stages {
		r.Run.form.Stages[i].Deadline = 0
	}
	return r
}

func goOnAnyway(r Ready) Ready {
	if r.Run.form.RollbackRequest != nil && r.Run.State == stages.Failed {
		r.Run.State = stages.Completed
	}
	return r
}

func endAtOnce(r Ready) Ready {
	if c := r.Run.form.Closing; c != nil && r.Run.State == stages.Running {
		r.Run.State, r.Actions = c.State, nil
	}
	return r
}

// flowPlan rolls a workflow and a fleet for it.
func (d *dice) flowPlan() (*stages.Plan, error) {
	s := stages.Strategy{
		Profile: stages.Workflow, OnFailure: []stages.OnFailure{stages.EndRun, stages.EndRun, stages.SuspendRun}[d.n(3)],
		Attempts: 1 + d.n(2), Backoff: metav1.Duration{Duration: d.duration(0, 5*time.Second)}, MinHealthy: metav1.Duration{Duration: d.duration(0, 0, time.Minute)},
	}
	var fleet []placement.Cluster
	clusters := func() (names []string) {
		for range 1 + d.n(3) {
			name := "m" + strconv.Itoa(len(fleet))
			fleet = append(fleet, placement.Cluster{Name: name})
			names = append(names, name)
		}
		return names
	}
	for i := range 2 + d.n(3) {
		st := stages.Stage{Name: fmt.Sprintf("s%d", i), Flow: d.flow()}
		switch {
		case st.Pause:
			st.Before = d.hold()
		case d.n(2) == 0:
			st.Clusters, st.MaxConcurrency, st.MaxFailures = clusters(), d.limit(1), d.limit(0)
		default:
			for g := range 1 + d.n(4) {
				own := stages.Group{Name: fmt.Sprintf("g%d", g), Flow: d.flow()}
				if own.Pause {
					own.Before = d.hold()
				} else {
					own.Clusters, own.MaxConcurrency = clusters(), d.limit(1)
				}
				for before := range g {
					if d.n(2) == 1 {
						own.DependsOn = append(own.DependsOn, fmt.Sprintf("g%d", before))
					}
				}
				st.Groups = append(st.Groups, own)
				st.Clusters = append(st.Clusters, own.Clusters...)
			}
		}
		s.Stages = append(s.Stages, st)
	}
	t := stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "rev-a"}
	return planner.Plan(s, t, fleet)
}

func (d *dice) flow() stages.Flow {
	return stages.Flow{Pause: d.n(5) == 4, Timeout: metav1.Duration{Duration: d.duration(0, 0, 3*time.Minute, 20*time.Minute)}, Always: d.n(4) == 3}
}

// hold rolls the tasks of a pause.
func (d *dice) hold() []stages.Task {
	return [][]stages.Task{{{Type: stages.Approval}}, {{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 2 * time.Minute}}}, {{Type: stages.Approval}, {Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}}[d.n(3)]
}

// flowSim plays a run of a workflow.
type flowSim struct {
	sim
	check *checker
}

func playFlow(t *testing.T, data []byte, step machine) []violation {
	t.Helper()
	d := &dice{data: data}
	p, err := d.flowPlan()
	if err != nil {
		t.Fatal(err)
	}
	if d.n(3) == 2 {
		p.Strategy.Rollback = d.rollback()
	}
	s := &flowSim{sim: sim{d: d, p: p, step: step, clock: scriptEpoch}}
	s.check = &checker{p: p, found: &s.found}
	s.run = NewRun(p, "run", "uid-run", approval.Identity{Name: "ann"}, false, s.clock)
	for i := 0; i < 150 && !d.out() && len(s.found) == 0; i++ {
		in := s.chaos()
		if p.Strategy.Rollback != nil && i > 10 && d.one(40) {
			in.Commands = append(in.Commands, stages.Command{ID: "back" + strconv.Itoa(i), Verb: stages.RequestRollback, By: approval.Identity{Name: "ann"}})
		}
		s.turn(in)
	}
	s.blocked = ""
	s.end()
	return s.found
}

// turn steps once and checks the result; the driver may crash before it saves.
func (s *flowSim) turn(in stages.Input) {
	before := s.run
	ready := s.check.function(before, in, s.step)
	s.checkStep(&before, &ready, in)
	s.check.again(&ready, in, s.step)
	if s.d.one(10) {
		return
	}
	s.quiet = !ready.Changed
	s.run, s.acts, s.wake = reloaded(ready.Run), ready.Actions, ready.Wake
}

// end lets clusters and people do everything that the run needs to end.
func (s *flowSim) end() {
	s.d.next = len(s.d.data)
	for i := 0; len(s.found) == 0 && !s.run.IsEnded(); i++ {
		if i > 100+20*len(s.p.Clusters)+40*len(s.p.Stages) {
			s.check.fail("6", "the run does not end: it is %s and waits for %v", s.run.State, Waiting(s.p, &s.run))
			return
		}
		s.clock = later(s.clock, s.run.Now.Time())
		in := s.calm()
		if s.quiet {
			s.clock = later(s.wake, s.clock)
		}
		in.Now = s.clock
		s.turn(in)
	}
}

// checkStep holds a step to the laws.
func (s *flowSim) checkStep(was *Run, ready *Ready, in stages.Input) {
	r, c := &ready.Run, s.check
	closing := was.form.Closing != nil
	for i := range ready.Events {
		e := &ready.Events[i]
		closing = closing || e.Type == stages.RunClosing
		switch {
		case was.Final(s.p) && e.Type != stages.CommandRefused:
			c.fail("4", "%s after the run was %s", e.Type, was.State)
		case e.Type == stages.ClusterStarted:
			s.starts(was, r, e, closing)
		case e.Type == stages.StageStarted:
			s.begins(r, e, closing)
		case e.Type == stages.StageSkipped && !closing:
			if i := s.p.StageIndex(e.Stage); s.p.Stages[i].Pause && !r.form.Stages[i].SkipGates {
				c.fail("2", "pause %s was passed over", e.Stage)
			}
		}
	}
	if r.State == stages.Running || r.State == stages.Stopping {
		s.goesOn(r)
	}
	s.rollbackRequested(was, r)
	s.ends(was, r, in)
}

// rollbackRequested checks that a rollback has a cause that the strategy names, and that the run
// then fails: it does not complete or stop, and continues only with stages and groups with Always.
func (s *flowSim) rollbackRequested(was, r *Run) {
	u := r.form.RollbackRequest
	if u == nil {
		return
	}
	b := s.p.Strategy.Rollback
	asked := b != nil && (u.Cause == stages.OnCommand || len(b.Causes) == 0 || slices.Contains(b.Causes, u.Cause))
	ending := r.State == stages.Failed || r.State == stages.Stopping && r.Ending == stages.Failed || r.form.Closing != nil && r.form.Closing.State == stages.Failed
	switch {
	case !asked:
		s.check.fail("rollback", "it is taken back because of %s", u.Cause)
	case !ending:
		s.check.fail("rollback", "it is taken back, and is %s", r.State)
	case was.form.RollbackRequest != nil && dump(*was.form.RollbackRequest) != dump(*u):
		s.check.fail("rollback", "it was taken back because %+v, and now because %+v", was.form.RollbackRequest, u)
	}
}

// starts checks that a cluster may start.
func (s *flowSim) starts(was, r *Run, e *stages.Event, closing bool) {
	pos, _ := s.p.Position(e.Cluster)
	stage, group := s.p.StageOf(pos)
	st := &s.p.Stages[stage]
	if closing && !st.Always && !st.Groups[group].Always {
		s.check.fail("4", "%s started in %s while only what runs always does", e.Cluster, e.Stage)
	}
	first := len(was.form.Stages[stage].Groups) == 0 || was.form.Stages[stage].Groups[group].Next == 0
	for _, i := range st.Groups[group].After {
		if first && r.form.Stages[stage].Groups[i].Ended == 0 {
			s.check.fail("2", "%s started in %s/%s before %s had ended", e.Cluster, e.Stage, e.Group, st.Groups[i].Name)
		}
	}
}

// begins checks that a stage may begin.
func (s *flowSim) begins(r *Run, e *stages.Event, closing bool) {
	i := s.p.StageIndex(e.Stage)
	st, run := &s.p.Stages[i], &r.form.Stages[i]
	if st.Pause && !run.SkipGates && !runstate.GatesPassed(st.Gates, run.Gates, approval.Before) {
		s.check.fail("2", "pause %s ended before its gates had passed", e.Stage)
	}
	always := st.Always || slices.ContainsFunc(st.Groups, func(g stages.PlannedGroup) bool { return g.Always })
	if closing && !always && !run.IsBroken() {
		s.check.fail("4", "stage %s began while only what runs always does", e.Stage)
	}
}

// goesOn checks a run that has not ended: its caps, its timeouts, and the conditions that it waits
// for.
func (s *flowSim) goesOn(r *Run) {
	if len(Waiting(s.p, r)) == 0 {
		s.check.fail("6", "the run is %s and waits for nothing", r.State)
	}
	st, run := &s.p.Stages[r.form.Stage], &r.form.Stages[r.form.Stage]
	for i := range run.Groups {
		if g, gr := &st.Groups[i], &run.Groups[i]; g.Pause && gr.Ended != 0 && !gr.SkipGates && !run.SkipGates && slices.ContainsFunc(gr.Gates, isNotPassed) {
			s.check.fail("2", "pause %s ended before its gates had passed", g.Name)
		}
	}
	flying := make([]int, len(st.Groups))
	for i := range r.form.InFlight {
		if r.form.InFlight[i].Attempt != 0 {
			_, group := s.p.StageOf(r.form.InFlight[i].Pos)
			flying[group]++
		}
	}
	for i, n := range flying {
		if n > limit(st.Groups[i].MaxConcurrency) {
			s.check.fail("2", "%d clusters of group %s are in flight", n, st.Groups[i].Name)
		}
		if r.State == stages.Running && run.Groups != nil {
			s.inTime(r, &st.Groups[i].Flow, &run.Groups[i].Clock, n > 0, st.Groups[i].Name)
		}
	}
	if r.State == stages.Running && !run.IsBroken() {
		s.inTime(r, &st.Flow, &run.Clock, inFlight(r) > 0, st.Name)
	}
}

func isNotPassed(g runstate.Gate) bool { return g.State != stages.Completed }

// inTime checks that a stage or group with a timeout has a deadline while it is under way, and that
// the deadline has not passed.
func (s *flowSim) inTime(r *Run, f *stages.Flow, c *runstate.Clock, busy bool, name string) {
	switch {
	case c.IsOver(r.Now):
		s.check.fail("8", "%s goes on after its timeout", name)
	case busy && f.Timeout.Duration > 0 && c.Deadline == 0 && r.form.Closing == nil:
		s.check.fail("8", "%s is under way and has no deadline", name)
	case c.Deadline > r.Now.Add(f.Timeout.Duration):
		s.check.fail("8", "%s has more time than its timeout", name)
	}
}

func inFlight(r *Run) (n int) {
	for i := range r.form.InFlight {
		if r.form.InFlight[i].Attempt != 0 {
			n++
		}
	}
	return n
}

// ends checks that a run that ends has run its stages and groups with Always.
func (s *flowSim) ends(was, r *Run, in stages.Input) {
	if was.IsEnded() || r.State != stages.Failed && r.State != stages.Aborted {
		return
	}
	aborts := map[string]bool{}
	for _, c := range in.Commands {
		aborts[c.ID] = c.Verb == stages.Abort
	}
	maps.DeleteFunc(aborts, func(_ string, is bool) bool { return !is })
	again := was.form.Closing != nil && len(aborts) > 0 || len(aborts) > 1
	if again || was.Started == 0 {
		return
	}
	for pos, state := range r.States(s.p) {
		stage, _ := s.p.StageOf(pos)
		if st := &s.p.Stages[stage]; st.Always && stage > was.form.Stage && (state == stages.NotStarted || state == stages.Pending || state == stages.Running) {
			s.check.fail("9", "the run is %s, and %s of stage %s, which runs always, is %s", r.State, s.p.Clusters[pos].Name, st.Name, state)
		}
	}
}
