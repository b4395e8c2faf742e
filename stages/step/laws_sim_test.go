package step

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// dice are rolled from bytes, so that the fuzzer can search. After the last byte every roll is 0.
type dice struct {
	data []byte
	next int
	// timed rolls calendars, strict budgets and retries as well.
	timed bool
	// divided rolls failure domains and a cap that runs share.
	divided bool
}

func (d *dice) out() bool { return d.next >= len(d.data) }

// n rolls a number from 0 to below k.
func (d *dice) n(k int) int {
	if d.out() {
		return 0
	}
	d.next++
	return int(d.data[d.next-1]) % k
}

// one reports whether a chance of one in k came true.
func (d *dice) one(k int) bool { return !d.out() && d.n(k) == k-1 }

func (d *dice) duration(choices ...time.Duration) time.Duration { return choices[d.n(len(choices))] }

func (d *dice) limit(least int) *intstr.IntOrString {
	var v intstr.IntOrString
	switch d.n(4) {
	case 0:
		return nil
	case 1:
		v = intstr.FromInt32(int32(least))
	case 2:
		v = intstr.FromInt32(int32(least + d.n(3)))
	default:
		v = intstr.FromString(strconv.Itoa(1+d.n(100)) + "%")
	}
	return &v
}

func (d *dice) tasks(when approval.When) []stages.Task {
	var out []stages.Task
	if when == approval.Before && d.one(6) {
		day := d.n(3)
		s := &stages.Schedule{Day: []string{"", "Thursday", "Friday"}[day], Time: []string{"00:02", "00:15", "01:00"}[d.n(3)]}
		out = append(out, stages.Task{Type: stages.ScheduledStart, Schedule: s})
	}
	kind := d.n(6)
	if kind == 3 || kind == 5 {
		out = append(out, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Duration(1+d.n(3)) * time.Minute}})
	}
	if kind == 4 || kind == 5 {
		t := stages.Task{Type: stages.Approval}
		switch d.n(4) {
		case 1:
			t.Approval = &approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}
		case 2:
			t.Approval = &approval.Policy{Expires: metav1.Duration{Duration: 5 * time.Minute}}
		case 3:
			t.Approval = &approval.Policy{ForbidStarter: true}
		}
		out = append(out, t)
	}
	return out
}

// plan rolls a strategy and a fleet for it.
func (d *dice) plan() (*stages.Plan, error) {
	s := stages.Strategy{
		Profile:          []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow}[d.n(3)],
		Attempts:         []int{0, 0, 1, 3}[d.n(4)],
		Backoff:          metav1.Duration{Duration: d.duration(0, 5*time.Second)},
		ProgressDeadline: metav1.Duration{Duration: d.duration(0, 0, 2*time.Minute)},
		MinHealthy:       metav1.Duration{Duration: d.duration(0, 0, time.Minute)},
	}
	if s.Attempts == 1 {
		s.UnreachableDeadline.Duration = 5 * time.Second
	}
	t := stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "rev-a", Revision: map[string]string{}, Remove: map[string]string{}, New: map[string]bool{}, Unproven: map[string]bool{}, Part: true}
	var fleet []placement.Cluster
	for i := range 1 + d.n(3) {
		st := d.stage(i)
		for g := range max(1, len(st.Groups)) {
			for range d.n(5) {
				name := fmt.Sprintf("m%d", len(fleet))
				if g == 0 && len(st.Groups) > 0 && st.Groups[0].New {
					t.New[name] = true
				}
				if len(st.Groups) > 0 && st.Groups[g].UnprovenFirst && d.n(2) == 1 {
					t.Unproven[name] = true
				}
				fleet = append(fleet, placement.Cluster{Name: name, UID: "u" + name, Labels: d.place(map[string]string{"s": strconv.Itoa(i), "g": strconv.Itoa(g)})})
				if d.one(4) {
					t.Revision[name] = "rev-b"
				}
			}
		}
		s.Stages = append(s.Stages, st)
	}
	for i := range max(0, d.n(6)-2) {
		t.Remove[fmt.Sprintf("old%d", i)] = ""
	}
	s.Removal = stages.Removal{MaxConcurrency: d.limit(1), Deadline: metav1.Duration{Duration: d.duration(0, 90*time.Second)}, Before: d.tasks(approval.Before), After: d.tasks(approval.After)}
	if d.divided && d.n(2) == 1 {
		s.Cap = "shared"
	}
	return planner.Plan(s, t, fleet)
}

func (d *dice) stage(i int) stages.Stage {
	pick := func(key string, i int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: strconv.Itoa(i)}}
	}
	st := stages.Stage{
		Name: fmt.Sprintf("s%d", i), Selector: pick("s", i), MaxConcurrency: d.limit(1), MaxFailures: d.limit(0),
		Before: d.tasks(approval.Before), After: d.tasks(approval.After),
	}
	groups := d.n(4)
	for g := 0; groups > 1 && g < groups; g++ {
		own := stages.Group{Name: fmt.Sprintf("g%d", g), Selector: pick("g", g), MaxConcurrency: d.limit(1), MaxFailures: d.limit(0)}
		if d.n(2) == 1 {
			own.Before, own.After = d.tasks(approval.Before), d.tasks(approval.After)
		}
		st.Groups = append(st.Groups, own)
	}
	if len(st.Groups) == 3 {
		st.Groups[0].New, st.Groups[0].Selector = true, nil
	}
	if d.timed {
		d.strict(&st)
	}
	if d.divided {
		d.divide(&st)
		for g := range st.Groups {
			st.Groups[g].UnprovenFirst = !st.Groups[g].New && d.n(2) == 1
		}
	}
	return st
}

// machine is Step, or a broken variant of it.
type machine func(*stages.Plan, Run, stages.Input) Ready

// sim drives a run through chaos and then to its end, under a checker.
type sim struct {
	d       *dice
	p       *stages.Plan
	step    machine
	run     Run
	acts    []stages.Action
	wake    time.Time
	clock   time.Time
	quiet   bool // the last step changed nothing
	check   *checker
	found   []violation
	sent    []stages.Command
	ids     int
	blocked string
	// cal is the calendar. newCal reports whether no saved step has seen it.
	cal    *diceCalendar
	newCal bool
	// slots is the number of clusters that the cap allows in flight.
	slots int
}

// play plays a run with the dice and returns the first violations.
func play(d *dice, step machine) ([]violation, error) {
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	s := &sim{d: d, p: p, step: step, clock: scriptEpoch}
	s.run = NewRun(p, "run", "uid-run", approval.Identity{Name: "ann"}, d.one(6), s.clock)
	s.check = newChecker(p, &s.run)
	if d.one(4) {
		s.blocked = "other"
	}
	for i := 0; i < 200 && !d.out() && len(s.found) == 0; i++ {
		in := s.chaos()
		if d.timed {
			s.timed(&in)
		}
		s.turn(in)
	}
	s.cal = s.cal.openSometimes()
	s.newCal, s.slots = d.timed, len(p.Clusters)
	s.finish()
	return s.found, nil
}

// turn steps once; the driver may crash before it saves, or after.
func (s *sim) turn(in stages.Input) {
	in.Slots = s.slots
	if in.NewCalendar = s.newCal; s.cal != nil {
		in.Calendar = s.cal
	}
	ready, next, found := s.check.step(s.run, in, s.step)
	s.found = append(s.found, found...)
	if s.d.one(10) {
		return // nothing was saved
	}
	s.quiet, s.newCal = !ready.Changed, false
	s.check, s.run, s.acts, s.wake = next, reloaded(ready.Run), ready.Actions, ready.Wake
	if s.d.one(6) {
		s.run = respelled(s.run)
	}
}

// chaos rolls an input.
func (s *sim) chaos() stages.Input {
	s.pass()
	in := stages.Input{Now: s.clock, Unwatched: s.d.one(12)}
	for i := range s.acts {
		if a := &s.acts[i]; a.Type != stages.Ask && s.d.n(3) > 0 {
			in.Observations = append(in.Observations, s.observation(a.Cluster))
		}
	}
	if len(s.p.Clusters) > 0 && s.d.one(5) {
		o := s.observation(s.p.Clusters[s.d.n(len(s.p.Clusters))].Name)
		o.Attempt = s.d.n(4)
		in.Observations = append(in.Observations, o)
	}
	for s.d.one(4) {
		in.Commands = append(in.Commands, s.command())
	}
	if len(s.p.Clusters) > 0 && s.d.one(16) {
		in.Gone = append(in.Gone, s.p.Clusters[s.d.n(len(s.p.Clusters))].Name)
	}
	if s.d.one(3) {
		s.blocked = ""
	}
	in.Blocked = s.blocked
	s.rollSlots()
	return in
}

// pass lets time go by, also backwards.
func (s *sim) pass() {
	switch s.d.n(8) {
	case 1, 2:
		s.clock = s.clock.Add(time.Second)
	case 3, 4:
		if !s.wake.IsZero() {
			s.clock = s.wake
		}
	case 5:
		s.clock = s.clock.Add(90 * time.Second)
	case 6:
		s.clock = s.clock.Add(10 * time.Minute)
	case 7:
		s.clock = s.clock.Add(-time.Duration(s.d.n(200)) * time.Second)
	}
}

func (s *sim) observation(cluster string) stages.Observation {
	words := []string{
		"healthy", "healthy", "healthy", "healthy", "progressing", "sent", "failed", "failed", "refused", "unreachable",
		"unreachable", "lost", "stale", "applied-stale", "behind", "unchanged", "unchanged-unhealthy",
	}
	o := (&scriptRun{plan: s.p, r: s.run}).observation(cluster, words[s.d.n(len(words))])
	if s.d.one(10) {
		o.Attempt += s.d.n(3) - 1
	}
	return o
}

// command rolls a command, or delivers an earlier one again.
func (s *sim) command() stages.Command {
	if len(s.sent) > 0 && s.d.one(6) {
		return s.sent[s.d.n(len(s.sent))]
	}
	s.ids++
	c := stages.Command{ID: fmt.Sprintf("c%d", s.ids), By: approval.Identity{Name: "ann"}, At: s.clock}
	switch s.d.n(13) {
	case 0, 1, 2:
		c.Verb = stages.Start
	case 3, 4:
		c.Verb = stages.Stop
	case 5, 6, 7:
		s.skip(&c)
	case 8, 9, 10:
		s.decision(&c)
	case 11:
		c.Verb = stages.CompleteGate
		st := s.p.Stages[s.d.n(len(s.p.Stages))]
		c.Name = st.Name
		if g := st.Groups[s.d.n(len(st.Groups))].Name; g != "" && s.d.n(3) > 0 {
			c.Name += "/" + g
		}
	default:
		c.Verb = []stages.Verb{stages.Start, stages.Abort, stages.Supersede, "Dance"}[s.d.n(4)]
	}
	s.sent = append(s.sent, c)
	return c
}

func (s *sim) skip(c *stages.Command) {
	c.Verb = stages.Skip
	st := s.p.Stages[s.d.n(len(s.p.Stages))]
	c.Scope, c.Name = stages.SkipStage, st.Name
	switch s.d.n(6) {
	case 0:
		c.Scope = stages.SkipAfterWait
	case 1:
		c.Scope, c.Name = stages.SkipGroup, st.Name+"/"+st.Groups[s.d.n(len(st.Groups))].Name
	case 2, 3, 4:
		if len(s.p.Clusters) > 0 {
			c.Scope, c.Name = stages.SkipCluster, s.p.Clusters[s.d.n(len(s.p.Clusters))].Name
		}
	}
}

func (s *sim) decision(c *stages.Command) {
	c.Verb = stages.Decide
	c.By.Name = []string{"ann", "bob", "cat"}[s.d.n(3)]
	d := &approval.Decision{Verdict: approval.Approve, By: c.By, At: s.clock}
	st := s.p.Stages[s.d.n(len(s.p.Stages))]
	d.Binding = approval.Binding{RunUID: s.run.UID, Stage: st.Name, When: approval.After, Attempt: 1, Plan: s.p.Digest}
	if reqs := Requests(s.p, &s.run); len(reqs) > 0 {
		d.Binding = reqs[s.d.n(len(reqs))].Binding
	}
	switch s.d.n(8) {
	case 5:
		d.Binding.Attempt += s.d.n(3) - 1
	case 6:
		d.Binding.RunUID = "uid-other"
	case 7:
		d.Verdict = approval.Reject
	}
	c.Decision = d
}

// finish ends the chaos: every cluster is healthy and everything is approved. The run must end in a
// bounded number of steps.
func (s *sim) finish() {
	s.d.next = len(s.d.data)
	bound := 30 + 8*len(s.p.Clusters) + 12*len(s.p.Stages)
	for i := range s.p.Stages {
		bound += 12 * len(s.p.Stages[i].Groups)
	}
	if s.cal != nil {
		bound *= 4
	}
	for i := 0; len(s.found) == 0; i++ {
		if s.run.IsEnded() && (s.run.State != stages.Failed || s.run.Final(s.p)) {
			return
		}
		if i > bound {
			s.found = append(s.found, violation{"6", fmt.Sprintf("the run does not end: it is %s and waits for %v", s.run.State, Waiting(s.p, &s.run))})
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// calm is an input that lets the run end: reports of healthy clusters, approvals and starts.
func (s *sim) calm() stages.Input {
	var in stages.Input
	for i := range s.acts {
		if a := &s.acts[i]; a.Type != stages.Ask {
			in.Observations = append(in.Observations, (&scriptRun{plan: s.p, r: s.run}).observation(a.Cluster, "healthy"))
		}
	}
	command := func(c stages.Command) {
		s.ids++
		c.ID = fmt.Sprintf("c%d", s.ids)
		in.Commands = append(in.Commands, c)
	}
	switch s.run.State {
	case stages.NotStarted, stages.Stopped, stages.Failed:
		command(stages.Command{Verb: stages.Start, By: approval.Identity{Name: "ann"}})
	}
	for _, req := range Requests(s.p, &s.run) {
		for _, name := range []string{"ann", "bob", "cat"} {
			by := approval.Identity{Name: name}
			command(stages.Command{Verb: stages.Decide, By: by, Decision: &approval.Decision{Verdict: approval.Approve, By: by, Binding: req.Binding}})
		}
	}
	return in
}
