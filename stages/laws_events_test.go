package stages

import (
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// event takes an event in and checks that it may happen.
func (c *checker) event(e *Event) {
	switch e.Type {
	case RunStarted, RunQueued, RunStopping, RunStopped, RunResumed, RunCompleted, RunFailed, RunAborted, RunSuperseded:
		c.runEvent(e)
	case StageStarted, StageSkipped, StageCompleted:
		c.stageEvent(e)
	case WaitStarted, WaitEnded, ApprovalRequested, ApprovalGiven, ApprovalAccepted, ApprovalRejected, ApprovalExpired:
		c.gateEvent(e)
	case CommandRefused:
	default:
		c.clusterEvent(e)
	}
}

func (c *checker) runEvent(e *Event) {
	was := c.state
	c.state = map[EventType]State{
		RunStarted: Running, RunQueued: Pending, RunStopping: Stopping, RunStopped: Stopped, RunResumed: Running,
		RunCompleted: Completed, RunFailed: Failed, RunAborted: Aborted, RunSuperseded: Superseded,
	}[e.Type]
	switch e.Type {
	case RunStarted:
		if c.in.Blocked != "" {
			c.fail("2", "the run started while %s had the placement", c.in.Blocked)
		}
		c.reach(0)
	case RunStopped:
		for i := range c.members {
			c.members[i].proven = false
		}
	case RunResumed:
		c.resumed(was)
	case RunCompleted:
		for i := range c.stages {
			if !c.stages[i].ended {
				c.fail("2", "the run completed before stage %s", c.p.Stages[i].Name)
			}
		}
	}
}

// resumed lets deadlines begin again, and failed clusters where the profile
// tries them again.
func (c *checker) resumed(was State) {
	if !c.asked(Start) {
		c.fail("4", "the run was resumed and nobody asked for that")
	}
	stage := c.current()
	for pos := range c.members {
		m := &c.members[pos]
		if m.state == Running || m.state == Pending {
			m.started, m.spent = c.now, 0
			c.acts[[2]int{pos, m.attempt}] = m.state == Running
		}
		at, _ := c.p.StageOf(pos)
		if at == stage && m.state == Failed && (was == Failed || c.p.Strategy.Profile == Workflow) {
			*m = member{state: Pending, attempt: m.attempt + 1, started: c.now, sent: true}
			c.reopen(stage)
		}
	}
}

// reopen forgets the open gates after a stage of which clusters are tried
// again.
func (c *checker) reopen(stage int) {
	for k, g := range c.gates {
		if k.stage == stage && k.when == approval.After && g.open {
			g.open, g.rejected = false, k.typ == Approval
			c.gates[k] = g
		}
	}
}

func (c *checker) asked(v Verb) bool {
	for _, cmd := range c.fresh {
		if cmd.Verb == v {
			return true
		}
	}
	return false
}

// current is the first stage that has not ended.
func (c *checker) current() int {
	for i := range c.stages {
		if !c.stages[i].ended {
			return i
		}
	}
	return len(c.stages)
}

func (c *checker) reach(stage int) {
	if stage < len(c.stages) {
		c.stages[stage].reached = c.now
	}
}

func (c *checker) stageEvent(e *Event) {
	i := c.p.stageIndex(e.Stage)
	st := &c.stages[i]
	if i != c.current() || c.state != Running {
		c.fail("2", "%s of %s, while the run is %s in stage %d", e.Type, e.Stage, c.state, c.current())
	}
	switch e.Type {
	case StageStarted:
		st.started = true
		c.passed(i, approval.Before)
		return
	case StageCompleted:
		c.passed(i, approval.After)
	case StageSkipped:
		for _, g := range c.p.Stages[i].Groups {
			if c.count(g, Completed)+c.count(g, Failed) > 0 {
				c.fail("counts", "stage %s is skipped, and clusters of it were updated", e.Stage)
			}
		}
	}
	for _, g := range c.p.Stages[i].Groups {
		if c.count(g, Completed)+c.count(g, Failed)+c.count(g, Skipped) != g.Len {
			c.fail("2", "stage %s ended before its clusters", e.Stage)
		}
	}
	st.ended = true
	c.reach(i + 1)
}

// passed checks that every gate on one side of a stage was passed.
func (c *checker) passed(stage int, when approval.When) {
	st := &c.p.Stages[stage]
	for i := range st.Gates {
		k := gateKey{stage, st.Gates[i].When, st.Gates[i].Type}
		if k.when == when && !c.gates[k].passed && !c.spared(k) {
			c.fail("gates", "stage %s went on past its %s %s", st.Name, when, k.typ)
		}
	}
}

// gateOf returns the key of the gate that an event is about, and what was
// planned for it.
func (c *checker) gateOf(e *Event) (gateKey, PlannedGate) {
	k := gateKey{c.p.stageIndex(e.Stage), approval.After, TimedWait}
	if !c.stages[k.stage].started {
		k.when = approval.Before
	}
	if e.Type != WaitStarted && e.Type != WaitEnded {
		k.typ = Approval
		k.when = approval.After
		if strings.HasPrefix(e.Request, e.Run+"-before-") {
			k.when = approval.Before
		}
	}
	for _, pg := range c.p.Stages[k.stage].Gates {
		if pg.When == k.when && pg.Type == k.typ {
			return k, pg
		}
	}
	c.fail("gates", "%s of a gate that stage %s does not have", e.Type, e.Stage)
	return k, PlannedGate{}
}

func (c *checker) gateEvent(e *Event) {
	k, pg := c.gateOf(e)
	g := c.gates[k]
	if g.passed {
		c.fail("4", "%s at the %s %s of stage %s, which was passed", e.Type, k.when, k.typ, e.Stage)
	}
	if e.Type != WaitStarted && e.Type != ApprovalRequested && !g.open {
		c.fail("gates", "%s at a gate that is not open", e.Type)
	}
	switch e.Type {
	case WaitStarted, ApprovalRequested:
		g = c.opened(e, k, pg, g)
	case WaitEnded:
		if c.now < g.until {
			c.fail("time", "a wait ended at %s that was to last until %s", since(c.now.Time()), since(g.until.Time()))
		}
		g.open, g.passed = false, true
	case ApprovalExpired:
		if g.until == 0 || c.now < g.until {
			c.fail("time", "a request expired too early")
		}
		g.open = false
	default:
		g = c.decided(e, k, pg, g)
	}
	c.gates[k] = g
}

// opened checks when a gate is opened: a wait begins when the stage was reached
// or its last cluster ended.
func (c *checker) opened(e *Event, k gateKey, pg PlannedGate, g gateModel) gateModel {
	if g.open || c.state != Running || c.current() != k.stage {
		c.fail("gates", "%s out of turn", e.Type)
	}
	from := c.stages[k.stage].reached
	if k.when == approval.After {
		from = c.stages[k.stage].last
	}
	d := pg.Wait
	if k.typ == Approval {
		d = pg.Policy.Expires
		if g.attempt > 0 {
			from = c.now
		}
	}
	until := Instant(0)
	if d > 0 {
		until = from.Add(d)
	}
	if At(e.Until) != until {
		c.fail("time", "%s until %s, and it is to last until %s", e.Type, since(e.Until), since(until.Time()))
	}
	return gateModel{open: true, until: until, attempt: g.attempt + 1, approvers: map[string]bool{}}
}

// decided checks a decision: there is a command for it, about this request.
func (c *checker) decided(e *Event, k gateKey, pg PlannedGate, g gateModel) gateModel {
	want := approval.Approve
	if e.Type == ApprovalRejected {
		want = approval.Reject
	}
	bound := approval.Binding{RunUID: "uid-run", Stage: e.Stage, When: k.when, Attempt: g.attempt, Plan: c.p.Digest}
	found := false
	for _, cmd := range c.fresh {
		d := cmd.Decision
		found = found || d != nil && d.Verdict == want && d.By.Name == e.By && d.Binding == bound
	}
	if !found || g.approvers[e.By] || pg.Policy.ForbidStarter && e.By == "ann" || g.until != 0 && c.now >= g.until {
		c.fail("gates", "%s by %s, who may not or did not", e.Type, e.By)
	}
	people := map[string]bool{e.By: true}
	for name := range g.approvers {
		people[name] = true
	}
	g.approvers = people
	need := 1
	for _, q := range pg.Policy.Quorums {
		need = q.Count
	}
	switch {
	case e.Type == ApprovalRejected:
		g.open, g.rejected = false, true
	case e.Type == ApprovalAccepted != (len(people) >= need):
		c.fail("gates", "%s with %d of %d approvals", e.Type, len(people), need)
	case e.Type == ApprovalAccepted:
		g.open, g.passed = false, true
	}
	return g
}

func (c *checker) clusterEvent(e *Event) {
	if e.Cluster == "" {
		c.skippedRange(e)
		return
	}
	pos, _ := c.p.Position(e.Cluster)
	m := &c.members[pos]
	if e.Type != ClusterStarted && e.Type != ClusterSkipped && m.state != Running {
		c.fail("counts", "%s of %s, which is %s", e.Type, e.Cluster, m.state)
	}
	switch e.Type {
	case ClusterStarted:
		c.started(pos, e)
	case ClusterPending:
		c.pending(pos, e.Attempt, e.Message)
		if At(e.Until) != m.until {
			c.fail("time", "%s is Pending until %s, not %s", e.Cluster, since(e.Until), since(m.until.Time()))
		}
	case ClusterRetrying:
		*m = member{state: Running, attempt: m.attempt, started: m.started, sent: m.sent, backing: true, until: At(e.Until)}
	case ClusterCompleted, ClusterRemoved:
		c.completed(pos, e)
	case ClusterFailed, ClusterSkipped:
		c.ended(pos, e)
	}
}

func (c *checker) skippedRange(e *Event) {
	st, n := &c.p.Stages[c.p.stageIndex(e.Stage)], 0
	for _, g := range st.Groups {
		for pos := g.First; g.Name == e.Group && pos < g.First+g.Len; pos++ {
			if c.members[pos].state == NotStarted {
				c.members[pos].state = Skipped
				n++
			}
		}
	}
	if n != e.Count || n == 0 {
		c.fail("counts", "%d clusters are skipped, and the event says %d", n, e.Count)
	}
	c.stages[c.p.stageIndex(e.Stage)].last = c.now
}

// started checks that a cluster may start.
func (c *checker) started(pos int, e *Event) {
	stage, group := c.p.StageOf(pos)
	m := &c.members[pos]
	switch {
	case c.state != Running:
		c.fail("4", "%s started while the run is %s", e.Cluster, c.state)
	case stage != c.current() || !c.stages[stage].started:
		c.fail("2", "%s started before its stage", e.Cluster)
	case m.state != NotStarted && m.state != Pending:
		c.fail("5", "%s started again; it is %s", e.Cluster, m.state)
	case c.over(stage):
		c.fail("5", "%s started over the budget", e.Cluster)
	case c.room(stage, group) < 1:
		c.fail("2", "%s started over the cap", e.Cluster)
	case e.Attempt != max(1, m.attempt) || m.tries > 0:
		c.fail("counts", "%s started as attempt %d after %d tries", e.Cluster, e.Attempt, m.tries)
	case c.skipped[e.Stage]:
		c.fail("5", "%s started in a stage that was skipped", e.Cluster)
	}
	*m = member{state: Running, attempt: e.Attempt, started: c.startedAt(pos), sent: m.sent}
}

// startedAt is what the deadline of a cluster that starts now counts from.
func (c *checker) startedAt(pos int) Instant {
	m := &c.members[pos]
	stage, _ := c.p.StageOf(pos)
	if c.p.Stages[stage].Remove && m.state == Pending {
		return m.started
	}
	return c.now - m.spent
}

// completed checks the proof.
func (c *checker) completed(pos int, e *Event) {
	m := &c.members[pos]
	soaked := m.proven && c.now >= m.since.Add(c.p.Strategy.MinHealthy)
	if !m.applied || !m.done && !soaked {
		c.fail("3", "%s completed without proof", e.Cluster)
	}
	if e.Attempt != m.attempt {
		c.fail("3", "%s completed attempt %d and is at attempt %d", e.Cluster, e.Attempt, m.attempt)
	}
	c.end(pos, Completed)
}

func (c *checker) ended(pos int, e *Event) {
	state := Skipped
	if e.Type == ClusterFailed {
		state = Failed
	}
	if m := &c.members[pos]; m.state == Completed || m.state == Skipped {
		c.fail("5", "%s of %s, which is %s", e.Type, e.Cluster, m.state)
	}
	c.end(pos, state)
}

func (c *checker) end(pos int, state State) {
	stage, _ := c.p.StageOf(pos)
	if c.members[pos].state != Failed {
		c.stages[stage].last = c.now
	}
	c.members[pos].state = state
}

func (g gateModel) due(now Instant) bool { return g.open && g.until != 0 && now >= g.until }

func (c *checker) deadline(stage int) time.Duration {
	switch {
	case !c.p.Stages[stage].Remove:
		return c.p.Strategy.ProgressDeadline
	case c.p.Strategy.Removal.Deadline > 0:
		return c.p.Strategy.Removal.Deadline
	default:
		return 5 * time.Minute
	}
}
