package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// latest is the last moment that a run may name, the end of the year 9990: an
// event cannot be stored that is, or waits for, a moment after the year 9999.
const latest = stages.Instant(253118303999999)

// checkRun tells that a stored run is one that [stages.Step] can have made of
// its plan: nothing in it is beyond the plan, negative, there twice, or at odds
// with the rest. A checksum says that a record is what somebody wrote, and not
// that it was an engine. It costs what a step costs: it grows with the clusters
// in flight and the exceptions, not with the fleet.
func checkRun(p *stages.Plan, r *stages.Run) error {
	c := runCheck{key: runKey(r.Name), plan: p, run: r, placed: map[int]bool{}}
	c.record()
	if c.err == nil {
		c.clusters()
	}
	for i := 0; i < len(p.Stages) && c.err == nil; i++ {
		c.balance(i)
	}
	return c.err
}

// checkRecord is checkRun for a run of which the clusters in flight were not
// read yet.
func checkRecord(p *stages.Plan, r *stages.Run) error {
	c := runCheck{key: runKey(r.Name), plan: p, run: r}
	c.record()
	return c.err
}

// runStates are those that a run can be in.
func runStates() []stages.State {
	return []stages.State{
		stages.NotStarted, stages.Pending, stages.Running, stages.Stopping, stages.Stopped,
		stages.Failed, stages.Completed, stages.Aborted, stages.Superseded,
	}
}

// runCheck keeps the first problem of a run.
type runCheck struct {
	key  string
	plan *stages.Plan
	run  *stages.Run
	// placed are the positions in flight and waiting, in are how many of each
	// group of the current stage those are.
	placed map[int]bool
	in     []int
	err    error
}

// record checks all but the clusters in flight and those that wait.
func (c *runCheck) record() {
	p, r := c.plan, c.run
	c.demand(r.Plan == p.Digest && r.Placement == p.Placement, "its plan %s is that of placement %q", p.Digest, p.Placement)
	c.demand(slices.Contains(runStates(), r.State), "state %q does not exist", r.State)
	c.demand((r.State == stages.Stopping) == (r.Ending != ""), "state is %s and ending %q: a run has an ending while it is Stopping", r.State, r.Ending)
	c.within("attempt", r.Attempt, 0, math.MaxInt32)
	c.moments("now, created, started, ended or stopAt", r.Now, r.Created, r.Started, r.Ended, r.StopAt)
	c.within("stage", r.Stage, 0, len(p.Stages))
	if r.Bypass != nil {
		c.moments("bypass", r.Bypass.Until)
	}
	c.demand(len(r.Stages) == len(p.Stages), "it has %d stages, its plan %d", len(r.Stages), len(p.Stages))
	for i := 0; i < len(p.Stages) && c.err == nil; i++ {
		c.stage(i)
	}
	if c.err == nil {
		c.exceptions()
	}
}

func (c *runCheck) demand(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = damaged(c.key, fmt.Errorf(format, args...))
	}
}

func (c *runCheck) within(field string, n, least, most int) {
	if n < least || n > most {
		c.demand(false, "%s is %d, and must be from %d to %d", field, n, least, most)
	}
}

func (c *runCheck) moments(field string, all ...stages.Instant) {
	for _, t := range all {
		if t < 0 || t > latest {
			c.demand(false, "%s is %d, and must be a moment from 0 to %d", field, t, latest)
		}
	}
}

// stage checks how far a stage is: those before the current one have ended,
// those after it were not reached.
func (c *runCheck) stage(i int) {
	s, planned := &c.run.Stages[i], &c.plan.Stages[i]
	at := fmt.Sprintf("stages[%d]", i)
	c.moments(at, s.Reached, s.Started, s.Done, s.Ended)
	c.demand(i >= c.run.Stage || s.Ended != 0, "%s has not ended, and the run is in stage %d", at, c.run.Stage)
	c.demand(i <= c.run.Stage || s.Reached == 0, "%s was reached, and the run is in stage %d", at, c.run.Stage)
	want := len(planned.Groups)
	if s.Reached == 0 {
		want = 0
	}
	c.demand(len(s.Groups) == want, "%s has %d groups, and must have %d", at, len(s.Groups), want)
	c.demand(s.Reached != 0 || s.Started == 0, "%s was started, and not reached", at)
	for j := 0; j < want && c.err == nil; j++ {
		c.cells(fmt.Sprintf("%s.groups[%d].cells", at, j), &s.Groups[j], c.plan.CellSizes(i, j))
		c.group(fmt.Sprintf("%s.groups[%d]", at, j), &s.Groups[j], &planned.Groups[j])
	}
	for j := range s.Gates {
		c.gate(fmt.Sprintf("%s.gates[%d]", at, j), &s.Gates[j], planned.Gates, "stage "+planned.Name)
	}
}

func (c *runCheck) group(at string, g *stages.GroupRun, planned *stages.PlannedGroup) {
	c.within(at+".next", g.Next, 0, planned.Len)
	c.within(at+".completed", g.Completed, 0, g.Next)
	c.within(at+".failed", g.Failed, 0, g.Next)
	c.within(at+".skipped", g.Skipped, 0, g.Next)
	c.moments(at, g.Reached, g.Done, g.Ended)
	for i := range g.Gates {
		c.gate(fmt.Sprintf("%s.gates[%d]", at, i), &g.Gates[i], planned.Gates, "group "+planned.Name)
	}
	next, end := planned.First, planned.First+g.Next
	if len(g.Cells) > 0 {
		end = planned.First + planned.Len
	}
	for _, p := range g.Passed {
		if p.First < next || p.First > p.Last || p.Last >= end {
			c.demand(false, "%s.passed: positions %d to %d are not among those from %d to %d", at, p.First, p.Last, next, end-1)
		}
		c.moments(at+".passed", p.NotYet)
		next = p.Last + 1
	}
}

// cells checks how far a group is in each of its cells.
func (c *runCheck) cells(at string, g *stages.GroupRun, sizes []int) {
	c.demand(len(g.Cells) == len(sizes), "%s: there are %d, and must be %d", at, len(g.Cells), len(sizes))
	sum := 0
	for i := 0; i < len(sizes) && c.err == nil; i++ {
		c.within(at, g.Cells[i], 0, sizes[i])
		sum += g.Cells[i]
	}
	c.demand(len(sizes) == 0 || sum == g.Next, "%s: their sum is %d, and next %d", at, sum, g.Next)
}

func (c *runCheck) gate(at string, g *stages.Gate, planned []stages.PlannedGate, of string) {
	c.demand(slices.ContainsFunc(planned, func(p stages.PlannedGate) bool { return p.When == g.When && p.Type == g.Type }),
		"%s: the plan has no %s %s %s", at, g.Type, g.When, of)
	c.moments(at, g.Opened, g.Until, g.Ended)
	c.within(at+".attempt", g.Attempt, 0, math.MaxInt32)
}

// exceptions checks that those are clusters of the plan, in order, and that
// only such have failed that the run has come to.
func (c *runCheck) exceptions() {
	next := 0
	for i := range c.run.Exceptions {
		x := &c.run.Exceptions[i]
		switch stage, _ := c.plan.StageOf(x.Last); {
		case x.First < next || x.First > x.Last || stage < 0:
			c.demand(false, "exceptions: positions %d to %d are not among those from %d to %d", x.First, x.Last, next, len(c.plan.Clusters)-1)
		case x.State != stages.Skipped && x.State != stages.Failed:
			c.demand(false, "exceptions: state %q does not exist", x.State)
		case x.State == stages.Failed && c.run.Stages[stage].Reached == 0:
			c.demand(false, "exceptions: cluster %s has failed, and its stage was not reached", c.plan.Clusters[x.Last].Name)
		}
		c.within("exceptions: attempts", x.Attempts, 0, math.MaxInt32)
		next = x.Last + 1
	}
}

// clusters checks those in flight and those that wait.
func (c *runCheck) clusters() {
	if c.run.Stage < len(c.plan.Stages) {
		c.in = make([]int, len(c.plan.Stages[c.run.Stage].Groups))
	}
	for i := range c.run.Flights {
		f := &c.run.Flights[i]
		if *f == (stages.Flight{}) {
			continue
		}
		c.within("flights: phase", int(f.Phase), int(stages.Applying), int(stages.BackingOff))
		c.moments("flights", f.Started, f.Until, f.Since)
		c.place(f.Pos, f.Attempt, f.Tries)
	}
	for i := range c.run.Waiting {
		y := &c.run.Waiting[i]
		c.moments("waiting", y.Started, y.NotYet, y.Since, stages.Instant(y.Spent))
		c.place(y.Pos, y.Attempt, y.Tries)
	}
}

// place takes in that a cluster is in flight or waits: it is one of the current
// stage that was started, and has not ended.
func (c *runCheck) place(pos, attempt, tries int) {
	c.within("flights or waiting: attempt", attempt, 1, math.MaxInt32)
	c.within("flights or waiting: tries", tries, 0, math.MaxInt32)
	c.within("flights or waiting: position", pos, 0, len(c.plan.Clusters)-1)
	if c.err != nil {
		return
	}
	if wrong := c.misplaced(pos); wrong != "" {
		c.demand(false, "flights or waiting: cluster %s %s", c.plan.Clusters[pos].Name, wrong)
		return
	}
	c.placed[pos] = true
	_, group := c.plan.StageOf(pos)
	c.in[group]++
}

// balance checks that of the clusters of a stage that were started each has
// ended, is in flight, or waits.
func (c *runCheck) balance(i int) {
	for j, g := range c.run.Stages[i].Groups {
		n := g.Completed + g.Failed + g.Skipped + passed(&g)
		if i == c.run.Stage {
			n += c.in[j]
		}
		if n != g.Next {
			c.demand(false, "stages[%d].groups[%d]: %d clusters were started, and %d have ended, are in flight or wait", i, j, g.Next, n)
		}
	}
}

// letsGo tells that the cluster at pos is one that let others go first.
func letsGo(g *stages.GroupRun, pos int) bool {
	return slices.ContainsFunc(g.Passed, func(p stages.Passed) bool { return p.First <= pos && pos <= p.Last })
}

// passed counts the clusters of a group that let others go first.
func passed(g *stages.GroupRun) (n int) {
	for _, p := range g.Passed {
		n += p.Last - p.First + 1
	}
	return n
}

// misplaced returns why a cluster is not one to be in flight or to wait, or "".
func (c *runCheck) misplaced(pos int) string {
	stage, group := c.plan.StageOf(pos)
	_, ended := slices.BinarySearchFunc(c.run.Exceptions, pos, func(x stages.Exception, pos int) int {
		if x.First <= pos && pos <= x.Last {
			return 0
		}
		return cmp.Compare(x.First, pos)
	})
	switch groups := c.run.Stages[stage].Groups; {
	case c.placed[pos]:
		return "is there twice"
	case stage != c.run.Stage:
		return fmt.Sprintf("is in stage %d, and the run in stage %d", stage, c.run.Stage)
	case !c.run.HasComeTo(c.plan, pos):
		return "was not started"
	case ended:
		return "has ended"
	case letsGo(&groups[group], pos):
		return "lets others go first"
	default:
		return ""
	}
}
