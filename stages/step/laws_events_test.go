package step

import (
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// event records an event and checks that it may happen.
func (c *checker) event(e *stages.Event) {
	switch e.Type {
	case stages.RunStarted, stages.RunQueued, stages.RunStopping, stages.RunStopped, stages.RunResumed, stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
		c.runEvent(e)
	case stages.StageStarted, stages.StageSkipped, stages.StageCompleted:
		c.stageEvent(e)
	case stages.WaitStarted, stages.WaitEnded, stages.ApprovalRequested, stages.ApprovalGiven, stages.ApprovalAccepted, stages.ApprovalRejected, stages.ApprovalExpired:
		c.gateEvent(e)
	case stages.CommandAccepted, stages.CommandRefused:
	case stages.WindowsBypassed:
		c.bypassed(e)
	case stages.RunRetried:
		c.retried(e)
	default:
		c.clusterEvent(e)
	}
}

func (c *checker) runEvent(e *stages.Event) {
	was := c.state
	c.state = map[stages.EventType]stages.State{
		stages.RunStarted: stages.Running, stages.RunQueued: stages.Pending, stages.RunStopping: stages.Stopping, stages.RunStopped: stages.Stopped, stages.RunResumed: stages.Running,
		stages.RunCompleted: stages.Completed, stages.RunFailed: stages.Failed, stages.RunAborted: stages.Aborted, stages.RunSuperseded: stages.Superseded,
	}[e.Type]
	switch e.Type {
	case stages.RunStarted:
		if c.in.Blocked != "" {
			c.fail("2", "the run started while %s had the placement", c.in.Blocked)
		}
		c.reach(0)
	case stages.RunStopped:
		for i := range c.members {
			c.members[i].proven = false
		}
	case stages.RunResumed:
		c.resumed(was)
	case stages.RunCompleted:
		for i := range c.stages {
			if !c.stages[i].ended {
				c.fail("2", "the run completed before stage %s", c.p.Stages[i].Name)
			}
		}
	}
}

// resumed restarts the deadlines, and the failed clusters if the profile retries them.
func (c *checker) resumed(was stages.State) {
	if !c.asked(stages.Start) && !c.asked(stages.Retry) {
		c.fail("4", "the run was resumed and no command asked for that")
	}
	stage := c.current()
	for pos := range c.members {
		m := &c.members[pos]
		if m.state == stages.Running || m.state == stages.Pending {
			m.started, m.spent, m.unreached = c.now, 0, c.now
			c.acts[[2]int{pos, m.attempt}] = m.state == stages.Running
		}
		at, _ := c.p.StageOf(pos)
		if at == stage && m.state == stages.Failed && !m.gone && !c.asked(stages.Retry) && (was == stages.Failed || c.p.Strategy.Profile == stages.Workflow) {
			*m = member{state: stages.Pending, attempt: m.attempt + 1, started: c.now, sent: !m.unchanged}
			c.reopen(pos)
		}
	}
}

// reopen forgets the open gates after a stage and after one of its groups when clusters of the
// group are retried.
func (c *checker) reopen(pos int) {
	stage, group := c.p.StageOf(pos)
	c.stages[stage].groups[group].ended = 0
	for k, g := range c.gates {
		if k.stage == stage && (k.group < 0 || k.group == group) && k.when == approval.After && g.open {
			g.open, g.rejected = false, k.typ == stages.Approval
			c.gates[k] = g
		}
	}
}

func (c *checker) asked(v stages.Verb) bool {
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

func (c *checker) stageEvent(e *stages.Event) {
	i := c.p.StageIndex(e.Stage)
	st := &c.stages[i]
	if i != c.current() || c.state != stages.Running {
		c.fail("2", "%s of %s, while the run is %s in stage %d", e.Type, e.Stage, c.state, c.current())
	}
	switch e.Type {
	case stages.StageStarted:
		st.started = true
		c.passed(i, -1, approval.Before)
		for j := range st.groups {
			st.groups[j].reached = c.now
		}
		return
	case stages.StageCompleted:
		c.passed(i, -1, approval.After)
		for j := range st.groups {
			c.passed(i, j, approval.After)
		}
	case stages.StageSkipped:
		for _, g := range c.p.Stages[i].Groups {
			if c.count(g, stages.Completed)+c.count(g, stages.Failed) > 0 {
				c.fail("counts", "stage %s is skipped, and clusters of it were updated", e.Stage)
			}
		}
	}
	for _, g := range c.p.Stages[i].Groups {
		if c.count(g, stages.Completed)+c.count(g, stages.Failed)+c.count(g, stages.Skipped) != g.Len {
			c.fail("2", "stage %s ended before its clusters", e.Stage)
		}
	}
	st.ended = true
	c.reach(i + 1)
}

// passed checks that every gate on one side of a stage or a group was passed.
func (c *checker) passed(stage, group int, when approval.When) {
	for _, k := range c.between(stage, group, when) {
		c.fail("gates", "stage %s, group %d, went on past the %s %s", c.p.Stages[stage].Name, group, when, k.typ)
	}
}

// between returns the gates on one side that were neither passed nor skipped.
func (c *checker) between(stage, group int, when approval.When) (out []gateKey) {
	for _, pg := range c.planned(stage, group) {
		k := gateKey{stage, group, pg.When, pg.Type}
		if k.when == when && !c.gates[k].passed && !c.spared(k) {
			out = append(out, k)
		}
	}
	return out
}

func (c *checker) planned(stage, group int) []stages.PlannedGate {
	if group < 0 {
		return c.p.Stages[stage].Gates
	}
	return c.p.Stages[stage].Groups[group].Gates
}

// gateOf returns the key of the gate that an event is about, and its plan.
func (c *checker) gateOf(e *stages.Event) (gateKey, stages.PlannedGate) {
	stage := c.p.StageIndex(e.Stage)
	k := gateKey{stage, c.groupIndex(stage, e.Group), approval.After, stages.TimedWait}
	if k.group < 0 && !c.stages[stage].started || k.group >= 0 && !c.groupDone(stage, k.group) {
		k.when = approval.Before
	}
	if e.Message == stages.ScheduledStartMessage {
		k.typ = stages.ScheduledStart
	}
	if e.Type != stages.WaitStarted && e.Type != stages.WaitEnded {
		k.typ = stages.Approval
		k.when = approval.After
		if strings.HasPrefix(e.Request, e.Run+"-before-") {
			k.when = approval.Before
		}
	}
	for _, pg := range c.planned(stage, k.group) {
		if pg.When == k.when && pg.Type == k.typ {
			return k, pg
		}
	}
	c.fail("gates", "%s of a gate that stage %s, group %q, does not have", e.Type, e.Stage, e.Group)
	return k, stages.PlannedGate{}
}

// groupIndex returns the index of the group of that name, -1 for the whole
// stage.
func (c *checker) groupIndex(stage int, name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(c.p.Stages[stage].Groups, func(g stages.PlannedGroup) bool { return g.Name == name })
}

// groupDone reports whether all clusters of a group have ended.
func (c *checker) groupDone(stage, group int) bool {
	g := c.p.Stages[stage].Groups[group]
	return c.count(g, stages.Completed)+c.count(g, stages.Failed)+c.count(g, stages.Skipped) == g.Len
}

func (c *checker) gateEvent(e *stages.Event) {
	k, pg := c.gateOf(e)
	g := c.gates[k]
	if g.passed {
		c.fail("4", "%s at the %s %s of stage %s, which was passed", e.Type, k.when, k.typ, e.Stage)
	}
	if e.Type != stages.WaitStarted && e.Type != stages.ApprovalRequested && !g.open {
		c.fail("gates", "%s at a gate that is not open", e.Type)
	}
	switch e.Type {
	case stages.WaitStarted, stages.ApprovalRequested:
		g = c.opened(e, k, pg, g)
	case stages.WaitEnded:
		if c.now < g.until && !c.completes(e, k) {
			c.fail("time", "a wait ended at %s that was to last until %s", since(c.now.Time()), since(g.until.Time()))
		}
		g.open, g.passed = false, true
	case stages.ApprovalExpired:
		if g.until == 0 || c.now < g.until {
			c.fail("time", "a request expired too early")
		}
		g.open = false
	default:
		g = c.decided(e, k, pg, g)
	}
	c.gates[k] = g
}

// completes reports whether a command ended the scheduled start that an event
// is about.
func (c *checker) completes(e *stages.Event, k gateKey) bool {
	name := e.Stage
	if e.Group != "" {
		name += "/" + e.Group
	}
	return k.typ == stages.ScheduledStart && slices.ContainsFunc(c.fresh, func(cmd stages.Command) bool {
		return cmd.Verb == stages.CompleteGate && cmd.By.Name == e.By && cmd.Name == name
	})
}

// from returns the beginning of a gate that opens now: when the stage or the group was reached, or
// when its last cluster or group ended.
func (c *checker) from(k gateKey) stages.Instant {
	st := &c.stages[k.stage]
	switch {
	case k.group >= 0 && k.when == approval.Before:
		return st.groups[k.group].reached
	case k.group >= 0:
		return st.groups[k.group].last
	case k.when == approval.Before:
		return st.reached
	}
	last := st.last
	for j := range st.groups {
		c.endGroup(k.stage, j)
		last = max(last, st.groups[j].ended)
	}
	return last
}

// endGroup records the end of a group with gates, if it ends now.
func (c *checker) endGroup(stage, group int) {
	m := &c.stages[stage].groups[group]
	if m.ended == 0 && len(c.planned(stage, group)) > 0 && c.groupDone(stage, group) && len(c.between(stage, group, approval.After)) == 0 {
		m.ended = c.now
	}
}

// opened checks a gate that opens: a wait begins when the stage was reached or its last cluster
// ended.
func (c *checker) opened(e *stages.Event, k gateKey, pg stages.PlannedGate, g gateModel) gateModel {
	if g.open && !g.lapsed || c.state != stages.Running || c.current() != k.stage {
		c.fail("gates", "%s out of turn", e.Type)
	}
	from := c.from(k)
	d := pg.Wait.Duration
	if k.typ == stages.Approval {
		d = pg.Policy.Expires.Duration
		if g.attempt > 0 {
			from = c.now
		}
	}
	until := stages.Instant(0)
	switch {
	case k.typ == stages.ScheduledStart:
		until = stages.At(pg.Schedule.Next(from.Time()))
	case d > 0:
		until = from.Add(d)
	}
	if stages.At(e.Until) != until {
		c.fail("time", "%s until %s, and it is to last until %s", e.Type, since(e.Until), since(until.Time()))
	}
	return gateModel{open: true, until: until, attempt: g.attempt + 1, approvers: map[string]bool{}}
}

// decided checks a decision: a command must have made it, for this request.
func (c *checker) decided(e *stages.Event, k gateKey, pg stages.PlannedGate, g gateModel) gateModel {
	want := approval.Approve
	if e.Type == stages.ApprovalRejected {
		want = approval.Reject
	}
	bound := approval.Binding{RunUID: "uid-run", Stage: e.Stage, Group: e.Group, When: k.when, Attempt: g.attempt, Plan: c.p.Digest}
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
	case e.Type == stages.ApprovalRejected:
		g.open, g.rejected = false, true
	case e.Type == stages.ApprovalAccepted != (len(people) >= need):
		c.fail("gates", "%s with %d of %d approvals", e.Type, len(people), need)
	case e.Type == stages.ApprovalAccepted:
		g.open, g.passed = false, true
	}
	return g
}
