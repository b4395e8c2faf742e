package step

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// RunError reports why a run does not belong to a plan.
type RunError struct {
	// Run is the name of the run.
	Run string
	// Field is the path of the wrong field in the run's JSON.
	Field string
	// Reason describes the problem and the valid values.
	Reason string
}

// Error names the run, the field and the reason.
func (e *RunError) Error() string {
	return fmt.Sprintf("run %.256q is not one of the plan: %s: %s", e.Run, e.Field, e.Reason)
}

// Check returns a [*RunError] with the first problem if [NewRun] and [Step] cannot have made r from
// the plan p, and nil otherwise. It refuses a run of another plan or placement, or with other
// stages, and a run with a value that is negative, duplicate, missing, inconsistent or out of the
// plan's range. It also refuses a run that lost clusters: every started cluster must have ended, be
// in flight or wait.
//
// [Step] and the query methods check their run with it. It is cheaper than a step: its cost grows
// with the clusters in flight, the exceptions and the groups, not with the fleet.
func (r *Run) Check(p *stages.Plan) error {
	c := runCheck{p: p, r: r}
	c.plan()
	if c.err == nil {
		c.run()
	}
	for i := 0; c.err == nil && i < len(p.Stages); i++ {
		c.stage(i)
	}
	if c.err == nil {
		c.unsuccessful()
	}
	if c.err == nil {
		c.clusters()
	}
	if c.err == nil {
		return nil
	}
	return c.err
}

// runCheck keeps the first problem of a run.
type runCheck struct {
	p   *stages.Plan
	r   *Run
	err *RunError
}

// wrong records a problem unless there is an earlier one.
func (c *runCheck) wrong(field, format string, args ...any) {
	if c.err == nil {
		c.err = &RunError{Run: c.r.Name, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
}

// plan checks that the plan is complete, and that the run belongs to it.
func (c *runCheck) plan() {
	p, r := c.p, c.r
	switch {
	case p == nil:
		c.wrong("plan", "there is no plan")
	case !p.IsSealed():
		c.wrong("plan", "the plan is not one that the planner, DecodePlan or its JSON returned")
	case r.Plan != p.Digest:
		c.wrong("plan", "it is %.80q, and the plan's digest %q", r.Plan, p.Digest)
	case r.Placement != p.Placement:
		c.wrong("placement", "it is %.80q, and the plan's %q", r.Placement, p.Placement)
	case r.UID == "":
		c.wrong("uid", "there is none: no answer could be told from one to another run")
	case len(r.form.Stages) != len(p.Stages):
		c.wrong("stages", "there are %d, and must be %d, as in the plan", len(r.form.Stages), len(p.Stages))
	case r.form.Stage < 0 || r.form.Stage > len(p.Stages):
		c.wrong("stage", "it is %d, and must be from 0 to %d", r.form.Stage, len(p.Stages))
	}
}

// run checks the fields of the run itself.
func (c *runCheck) run() {
	r := c.r
	switch r.State {
	case stages.NotStarted, stages.Pending, stages.Running, stages.Stopping, stages.Stopped, stages.Failed, stages.Completed, stages.Aborted, stages.Superseded:
	default:
		c.wrong("state", "a run is never %.80q", r.State)
	}
	switch {
	case (r.State == stages.Stopping) != (r.Ending != ""):
		c.wrong("ending", "it is %.80q, and the run is %s: it has one while it is Stopping", r.Ending, r.State)
	case r.Ending != "" && r.Ending != stages.Stopped && r.Ending != stages.Failed && r.Ending != stages.Superseded:
		c.wrong("ending", "a run that is Stopping does not come to be %.80q", r.Ending)
	case (r.State == stages.Pending) != (r.Ahead != ""):
		c.wrong("ahead", "it is %.80q, and the run is %s: a run that is Pending names the run that it waits for", r.Ahead, r.State)
	case r.form.Closing != nil && r.form.Closing.State != stages.Failed && r.form.Closing.State != stages.Aborted:
		c.wrong("closing.state", "it is %.80q, and must be Failed or Aborted", r.form.Closing.State)
	case r.State == stages.Completed && r.form.Stage < len(c.p.Stages):
		c.wrong("stage", "it is %d of %d, and the run is Completed", r.form.Stage, len(c.p.Stages))
	}
	c.within("attempt", r.Attempt, 0, math.MaxInt32)
	c.moments("now, created, started, ended, stopAt or halted", r.Now, r.Created, r.Started, r.Ended, r.form.StopAt, r.form.Halted)
	if r.form.Bypass != nil {
		c.moments("bypass.until", r.form.Bypass.Until)
	}
}

// within checks a number. It formats the name of the field only if the number is wrong, so that a
// check is cheap.
func (c *runCheck) within(field string, n, least, most int) {
	if n < least || n > most {
		c.wrong(field, "it is %d, and must be from %d to %d", n, least, most)
	}
}

func (c *runCheck) moments(field string, all ...stages.Instant) {
	for _, t := range all {
		if t < 0 || t > stages.LastInstant {
			c.wrong(field, "it is %d, and must be a moment from 0 to %d", t, stages.LastInstant)
		}
	}
}

// isState reports whether a stage can be in a state.
func isState(s stages.State) bool {
	switch s {
	case stages.NotStarted, stages.Pending, stages.Running, stages.Stopping, stages.Stopped, stages.Skipped, stages.Failed, stages.Completed, stages.Aborted:
		return true
	default:
		return false
	}
}

// stage checks the progress of a stage: stages before the current one must have ended, stages after
// it must not have been reached.
func (c *runCheck) stage(i int) {
	s, planned := &c.r.form.Stages[i], &c.p.Stages[i]
	groups := len(planned.Groups)
	if s.Reached == 0 {
		groups = 0
	}
	at := func(field string) string { return fmt.Sprintf("stages[%d]%s", i, field) }
	switch {
	case !isState(s.State):
		c.wrong(at(".state"), "a stage is never %.80q", s.State)
	case i < c.r.form.Stage && (s.Reached == 0 || s.Ended == 0):
		c.wrong(at(""), "it has not ended, and the run is in stage %d", c.r.form.Stage)
	case i > c.r.form.Stage && s.Reached != 0:
		c.wrong(at(""), "it was reached, and the run is in stage %d", c.r.form.Stage)
	case s.Reached != 0 && c.r.Started == 0:
		c.wrong(at(""), "it was reached, and the run has not started")
	case s.Reached == 0 && s.Started != 0:
		c.wrong(at(""), "it was started, and not reached")
	case len(s.Groups) != groups:
		c.wrong(at(".groups"), "there are %d, and must be %d", len(s.Groups), groups)
	}
	if !areMoments(s.Reached, s.Started, s.Done, s.Ended, s.Deadline) {
		c.moments(at(""), s.Reached, s.Started, s.Done, s.Ended, s.Deadline)
	}
	c.gates(s.Gates, planned.Gates, func() string { return at("") })
	if s.Started != 0 || len(s.Checks) > 0 {
		c.checks(s.Checks, planned.Checks, func() string { return at(".checks") })
	}
	for j := 0; c.err == nil && j < groups; j++ {
		c.group(i, j)
	}
}

// areMoments reports whether all instants are in the valid range.
func areMoments(all ...stages.Instant) bool {
	for _, t := range all {
		if t < 0 || t > stages.LastInstant {
			return false
		}
	}
	return true
}

// group checks the progress of a group. If the run has left the stage, all clusters of the group
// must have ended.
func (c *runCheck) group(stage, group int) {
	g, planned := &c.r.form.Stages[stage].Groups[group], &c.p.Stages[stage].Groups[group]
	at := func(field string) string { return fmt.Sprintf("stages[%d].groups[%d]%s", stage, group, field) }
	for _, n := range [...]int{g.Completed, g.Failed, g.Skipped} {
		if n < 0 || n > g.Next {
			c.wrong(at(""), "%d completed, %d failed and %d skipped must be from 0 to next, which is %d", g.Completed, g.Failed, g.Skipped, g.Next)
		}
	}
	switch {
	case g.Next < 0 || g.Next > planned.Len:
		c.wrong(at(".next"), "it is %d, and must be from 0 to %d", g.Next, planned.Len)
	case stage < c.r.form.Stage && (g.Next < planned.Len || len(g.Deferred) > 0):
		c.wrong(at(""), "clusters have not ended, and the run is in stage %d", c.r.form.Stage)
	}
	if !areMoments(g.Reached, g.Done, g.Ended, g.Deadline) {
		c.moments(at(""), g.Reached, g.Done, g.Ended, g.Deadline)
	}
	c.gates(g.Gates, planned.Gates, func() string { return at("") })
	next, end := planned.First, planned.First+g.Next
	if len(g.Cells) > 0 {
		end = planned.First + planned.Len
	}
	for i := range g.Deferred {
		p := &g.Deferred[i]
		switch {
		case p.First < next || p.First > p.Last || p.Last >= end:
			c.wrong(at(".passed"), "positions %d to %d are not among those from %d to %d", p.First, p.Last, next, end-1)
		case !areMoments(p.NotYet):
			c.moments(at(".passed"), p.NotYet)
		}
		next = p.Last + 1
	}
	c.cells(g, c.p.Members(stage, group), func() string { return at(".cells") })
}

// cells checks the progress of a group in each of its cells.
func (c *runCheck) cells(g *runstate.GroupRun, cells []stages.CellMembers, at func() string) {
	if len(g.Cells) != len(cells) {
		c.wrong(at(), "there are %d, and must be %d", len(g.Cells), len(cells))
		return
	}
	sum := 0
	for i := range cells {
		if n := g.Cells[i]; n < 0 || n > len(cells[i].Positions) {
			c.wrong(at(), "it is %d, and must be from 0 to %d", n, len(cells[i].Positions))
			return
		}
		sum += g.Cells[i]
	}
	if len(cells) > 0 && sum != g.Next {
		c.wrong(at(), "their sum is %d, and next %d", sum, g.Next)
	}
}

// gates checks that each gate is in the plan, appears once, and has a state that fits the progress
// of the run.
func (c *runCheck) gates(gates []runstate.Gate, planned []stages.PlannedGate, at func() string) {
	for i := range gates {
		g := &gates[i]
		same := func(o runstate.Gate) bool { return o.When == g.When && o.Type == g.Type }
		field := func(f string) string { return fmt.Sprintf("%s.gates[%d]%s", at(), i, f) }
		switch {
		case !slices.ContainsFunc(planned, func(p stages.PlannedGate) bool { return p.When == g.When && p.Type == g.Type }):
			c.wrong(field(""), "the plan has no %.80s %.80s it", g.Type, g.When)
		case slices.ContainsFunc(gates[:i], same):
			c.wrong(field(""), "%s %s it is there twice", g.Type, g.When)
		case g.State != stages.Pending && g.State != stages.Completed && g.State != stages.Skipped && g.State != stages.Failed:
			c.wrong(field(".state"), "a gate is never %.80q", g.State)
		case g.State == stages.Pending && slices.ContainsFunc(g.Decisions, isMomentary):
			c.wrong(field(".decisions"), "an approval that holds at a point in time only is recorded, and the gate did not open with it")
		case g.Attempt < 0 || g.Attempt > math.MaxInt32:
			c.within(field(".attempt"), g.Attempt, 0, math.MaxInt32)
		case !areMoments(g.Opened, g.Until, g.Ended):
			c.moments(field(""), g.Opened, g.Until, g.Ended)
		case g.Type == stages.CheckTask || len(g.Checks) > 0:
			c.checks(g.Checks, plannedChecks(g, planned), func() string { return field(".checks") })
		}
	}
}

func plannedChecks(g *runstate.Gate, planned []stages.PlannedGate) []check.Check {
	i := slices.IndexFunc(planned, func(p stages.PlannedGate) bool { return p.When == g.When && p.Type == g.Type })
	return planned[i].Checks
}

// checks checks that each check is in the plan and that its numbers fit together.
func (c *runCheck) checks(checks []stages.CheckRun, planned []check.Check, at func() string) {
	if len(checks) != len(planned) {
		c.wrong(at(), "there are %d, and must be %d, as in the plan", len(checks), len(planned))
		return
	}
	for i := range checks {
		r := &checks[i]
		wrong := func(field, format string, args ...any) {
			c.wrong(fmt.Sprintf("%s[%d]%s", at(), i, field), format, args...)
		}
		if r.Name != planned[i].Name {
			wrong(".name", "it is %.80q, and the plan's %q", r.Name, planned[i].Name)
		}
		for _, n := range [...]int{r.Successful, r.Failed, r.Inconclusive, r.Errors, r.ErrorsInARow} {
			if n < 0 || n > math.MaxInt32 {
				wrong("", "%d measurements are impossible", n)
			}
		}
		if r.Number != r.Successful+r.Failed+r.Inconclusive+r.Errors || r.ErrorsInARow > r.Errors {
			wrong(".n", "%d measurements are not %d Successful, %d Failed, %d Inconclusive and %d Error", r.Number, r.Successful, r.Failed, r.Inconclusive, r.Errors)
		}
		switch r.Phase {
		case check.Running, check.Successful, check.Failed, check.Error, check.Inconclusive:
		default:
			wrong(".phase", "a check is never %.80q", r.Phase)
		}
		if !areMoments(r.At, r.Next) {
			wrong("", "%d and %d must be moments", r.At, r.Next)
		}
		if r.Phase == check.Running && r.Next == 0 {
			wrong(".next", "it is Running, and nothing more would be measured")
		}
	}
}

// clusterChecks checks the checks of a cluster in flight.
func (c *runCheck) clusterChecks(f *runstate.InFlight) {
	switch {
	case c.r.form.Stage >= len(c.p.Stages):
		c.wrong("inFlight", "a cluster has checks after the last stage")
	case !areMoments(f.Checks.Since, f.Checks.Until):
		c.moments("inFlight", f.Checks.Since, f.Checks.Until)
	default:
		c.checks(f.Checks.Checks, c.p.Stages[c.r.form.Stage].ClusterChecks, func() string { return "inFlight.checks" })
	}
}

func isMomentary(d approval.Decision) bool { return d.IsMomentary() }

// unsuccessful checks that the unsuccessful ranges are clusters of the plan, in order, and that the
// groups count them.
func (c *runCheck) unsuccessful() {
	es, next := c.r.form.Unsuccessful, 0
	for i := range es {
		switch x := &es[i]; {
		case x.First < next || x.First > x.Last || x.Last >= len(c.p.Clusters):
			c.wrong("unsuccessful", "positions %d to %d are not among those from %d to %d", x.First, x.Last, next, len(c.p.Clusters)-1)
			return
		case x.State != stages.Skipped && x.State != stages.Failed:
			c.wrong("unsuccessful", "cluster %s is %.80q, and must be Skipped or Failed", c.p.Clusters[x.First].Name, x.State)
		case x.Attempts < 0 || x.Attempts > math.MaxInt32:
			c.within("unsuccessful: attempts", x.Attempts, 0, math.MaxInt32)
		}
		next = es[i].Last + 1
	}
	first := 0
	for i := range c.p.Stages {
		for j := range c.p.Stages[i].Groups {
			g := &c.p.Stages[i].Groups[j]
			for first < len(es) && es[first].Last < g.First {
				first++
			}
			failed, skipped := 0, 0
			for k := first; k < len(es) && es[k].First < g.First+g.Len; k++ {
				n := min(es[k].Last, g.First+g.Len-1) - max(es[k].First, g.First) + 1
				if es[k].State == stages.Failed {
					failed += n
				} else {
					skipped += n
				}
			}
			c.counts(i, j, failed, skipped)
		}
	}
}

// counts compares the counters of a group with its unsuccessful clusters.
func (c *runCheck) counts(stage, group, failed, skipped int) {
	var gr runstate.GroupRun
	if groups := c.r.form.Stages[stage].Groups; len(groups) > 0 {
		gr = groups[group]
	}
	switch {
	case gr.Failed != failed:
		c.wrong(fmt.Sprintf("stages[%d].groups[%d].failed", stage, group), "it is %d, and %d clusters of the group have failed", gr.Failed, failed)
	case gr.Skipped > skipped || stage < c.r.form.Stage && gr.Skipped != skipped:
		c.wrong(fmt.Sprintf("stages[%d].groups[%d].skipped", stage, group), "it is %d, and %d clusters of the group are skipped", gr.Skipped, skipped)
	}
}

// clusters checks the clusters in flight and in Waiting. Each must be in the current stage, appear
// once, have been started and not have ended. Each started cluster must have ended, be in flight,
// or wait.
func (c *runCheck) clusters() {
	inFlight, waiting := c.r.form.InFlight, c.r.form.Waiting
	if n := len(c.p.Clusters); len(inFlight) > n || len(waiting) > n {
		c.wrong("inFlight or waiting", "there are %d and %d, and the plan has %d clusters", len(inFlight), len(waiting), n)
		return
	}
	var in []int
	if c.r.form.Stage < len(c.p.Stages) {
		in = make([]int, len(c.p.Stages[c.r.form.Stage].Groups))
	}
	placed := make([]int, 0, len(inFlight)+len(waiting))
	for i := range inFlight {
		f := &inFlight[i]
		switch {
		case f.Attempt == 0 && *f == runstate.InFlight{} && i < len(inFlight)-1:
			continue
		case f.Attempt < 1 || f.Attempt > math.MaxInt32 || f.Tries < 0:
			c.wrong("inFlight", "slot %d: attempt %d or %d tries is impossible", i, f.Attempt, f.Tries)
		case f.Wrong() != "":
			c.wrong("inFlight", "slot %d: a cluster is %s: %s", i, f.Phase, f.Wrong())
		case !areMoments(f.Started, f.SoakEnds, f.NotYet, f.Since):
			c.moments("inFlight", f.Started, f.SoakEnds, f.NotYet, f.Since)
		case f.Checks != nil:
			c.clusterChecks(f)
		}
		placed = c.place(placed, in, f.Pos)
	}
	c.caps(in, placed)
	for i := range waiting {
		y := &waiting[i]
		switch {
		case y.Attempt < 1 || y.Attempt > math.MaxInt32 || y.Tries < 0:
			c.wrong("waiting", "attempt %d or %d tries is impossible", y.Attempt, y.Tries)
		case !areMoments(y.Started, y.NotYet, y.Since, stages.Instant(y.Spent)):
			c.moments("waiting", y.Started, y.NotYet, y.Since, stages.Instant(y.Spent))
		}
		placed = c.place(placed, in, y.Pos)
	}
	if pos := twice(placed); pos >= 0 {
		c.wrong("inFlight or waiting", "cluster %s is there twice", c.p.Clusters[pos].Name)
	}
	for i := 0; c.err == nil && i < len(c.p.Stages); i++ {
		c.balance(i, in)
	}
}

// twice returns a duplicate position, or -1. It sorts the positions unless they are a rotated
// ascending list. They mostly are, because the next cluster takes each slot that becomes free.
func twice(positions []int) int {
	falls := 0
	for i := 1; i < len(positions); i++ {
		if positions[i] <= positions[i-1] {
			falls++
		}
	}
	if falls == 0 || falls == 1 && positions[len(positions)-1] < positions[0] {
		return -1
	}
	slices.Sort(positions)
	for i := 1; i < len(positions); i++ {
		if positions[i-1] == positions[i] {
			return positions[i]
		}
	}
	return -1
}

// caps checks that the clusters in flight do not exceed the caps. in has their number in each group
// of the current stage, and flying their positions.
func (c *runCheck) caps(in, flying []int) {
	if c.err != nil || len(flying) == 0 {
		return
	}
	st := &c.p.Stages[c.r.form.Stage]
	if n := limit(st.MaxConcurrency); len(flying) > n {
		c.wrong("inFlight", "%d clusters of stage %s are in flight, and %d may be", len(flying), st.Name, n)
	}
	for i, n := range in {
		if n > limit(st.Groups[i].MaxConcurrency) {
			c.wrong("inFlight", "%d clusters of group %s of stage %s are in flight, and %d may be", n, st.Groups[i].Name, st.Name, st.Groups[i].MaxConcurrency)
		}
	}
	if len(st.Cells) == 0 {
		return
	}
	domains := make([]int, len(st.Domains))
	for _, pos := range flying {
		for _, d := range st.Cells[c.p.Clusters[pos].Cell] {
			if domains[d]++; domains[d] > st.Domains[d].MaxConcurrency {
				c.wrong("inFlight", "more clusters of %s %s are in flight than the %d that may be", st.Domains[d].Key, st.Domains[d].Value, st.Domains[d].MaxConcurrency)
			}
		}
	}
}

// place records that a cluster is in flight or waits.
func (c *runCheck) place(placed, in []int, pos int) []int {
	if c.err != nil {
		return placed
	}
	if pos < 0 || pos >= len(c.p.Clusters) {
		c.wrong("inFlight or waiting", "position %d must be from 0 to %d", pos, len(c.p.Clusters)-1)
		return placed
	}
	group, wrong := c.misplaced(pos)
	if wrong != "" {
		c.wrong("inFlight or waiting", "cluster %s %s", c.p.Clusters[pos].Name, wrong)
		return placed
	}
	in[group]++
	return append(placed, pos)
}

// misplaced returns the group of a cluster, and the reason why the cluster cannot be in flight or
// wait, or "".
func (c *runCheck) misplaced(pos int) (group int, wrong string) {
	if c.r.form.Stage >= len(c.p.Stages) {
		return 0, "has not ended, and all stages are done"
	}
	st, run := &c.p.Stages[c.r.form.Stage], &c.r.form.Stages[c.r.form.Stage]
	last := &st.Groups[len(st.Groups)-1]
	if pos < st.Groups[0].First || pos >= last.First+last.Len {
		return 0, "is not one of stage " + st.Name + ", which the run is in"
	}
	if groups := st.Groups; len(groups) > 1 {
		group = sort.Search(len(groups), func(i int) bool { return groups[i].First+groups[i].Len > pos })
	}
	switch {
	case len(run.Groups) == 0 || !c.started(group, pos):
		return group, "was not started"
	case runstate.UnsuccessfulAt(c.r.form.Unsuccessful, pos) != nil:
		return group, "has ended"
	case len(run.Groups[group].Deferred) > 0 && c.r.deferredAt(c.p, pos) != nil:
		return group, "lets others go first"
	}
	return group, ""
}

// started reports whether the run has reached a cluster of the current stage.
func (c *runCheck) started(group, pos int) bool {
	gr := &c.r.form.Stages[c.r.form.Stage].Groups[group]
	if len(gr.Cells) == 0 {
		return pos < c.p.Stages[c.r.form.Stage].Groups[group].First+gr.Next
	}
	cells := c.p.Members(c.r.form.Stage, group)
	i, _ := slices.BinarySearchFunc(cells, c.p.Clusters[pos].Cell, func(m stages.CellMembers, cell int) int { return cmp.Compare(m.Cell, cell) })
	return cells[i].From(pos) < gr.Cells[i]
}

// balance checks that each started cluster of a stage has ended, is in flight, or waits.
func (c *runCheck) balance(stage int, in []int) {
	for j := range c.r.form.Stages[stage].Groups {
		g := &c.r.form.Stages[stage].Groups[j]
		n := g.Completed + g.Failed + g.Skipped
		for _, p := range g.Deferred {
			n += p.Last - p.First + 1
		}
		if stage == c.r.form.Stage {
			n += in[j]
		}
		if n != g.Next {
			c.wrong(fmt.Sprintf("stages[%d].groups[%d]", stage, j), "%d clusters were started, and %d have ended, are in flight or wait", g.Next, n)
		}
	}
}

// limit converts a cap: 0 means no limit.
func limit(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}
