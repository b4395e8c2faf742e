package step

import (
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func (c *checker) clusterEvent(e *stages.Event) {
	switch {
	case e.Cluster == "" && e.Type == stages.ClusterPending:
		c.shutRange(e)
		return
	case e.Cluster == "":
		c.skippedRange(e)
		return
	}
	pos, _ := c.p.Position(e.Cluster)
	m := &c.members[pos]
	if e.Type == stages.ClusterPending && (m.state == stages.NotStarted || m.state == stages.Pending) {
		c.shut(pos, e)
		return
	}
	if e.Type != stages.ClusterStarted && e.Type != stages.ClusterSkipped && m.state != stages.Running {
		c.fail("counts", "%s of %s, which is %s", e.Type, e.Cluster, m.state)
	}
	switch e.Type {
	case stages.ClusterStarted:
		c.started(pos, e)
	case stages.ClusterPending:
		c.pending(pos, e.Attempt, e.Message)
		if stages.At(e.Until) != m.until {
			c.fail("time", "%s is Pending until %s, not %s", e.Cluster, since(e.Until), since(m.until.Time()))
		}
	case stages.ClusterRetrying:
		*m = member{state: stages.Running, attempt: m.attempt, started: m.started, sent: m.sent, assumed: m.assumed, backing: true, until: stages.At(e.Until)}
	case stages.ClusterCompleted, stages.ClusterRemoved:
		c.completed(pos, e)
	case stages.ClusterFailed, stages.ClusterSkipped:
		c.ended(pos, e)
	}
}

func (c *checker) skippedRange(e *stages.Event) {
	st, n := &c.p.Stages[c.p.StageIndex(e.Stage)], 0
	for _, g := range st.Groups {
		for pos := g.First; g.Name == e.Group && pos < g.First+g.Len; pos++ {
			if m := &c.members[pos]; m.state == stages.NotStarted || m.fresh {
				m.state, m.fresh, m.window = stages.Skipped, false, false
				n++
			}
		}
	}
	if n != e.Count || n == 0 {
		c.fail("counts", "%d clusters are skipped, and the event says %d", n, e.Count)
	}
	stage := c.p.StageIndex(e.Stage)
	c.stages[stage].last = c.now
	for j, g := range st.Groups {
		if g.Name == e.Group {
			c.stages[stage].groups[j].last = c.now
		}
	}
}

// started checks that a cluster may start.
func (c *checker) started(pos int, e *stages.Event) {
	stage, group := c.p.StageOf(pos)
	m := &c.members[pos]
	switch {
	case c.state != stages.Running:
		c.fail("4", "%s started while the run is %s", e.Cluster, c.state)
	case stage != c.current() || !c.stages[stage].started:
		c.fail("2", "%s started before its stage", e.Cluster)
	case m.state != stages.NotStarted && m.state != stages.Pending:
		c.fail("5", "%s started again; it is %s", e.Cluster, m.state)
	case c.over(stage):
		c.fail("5", "%s started over the budget", e.Cluster)
	case c.room(stage, group) < 1:
		c.fail("2", "%s started over the cap", e.Cluster)
	case c.kept(pos):
		c.fail("2", "%s started in the slot of an unproven cluster", e.Cluster)
	case c.spare() < 1:
		c.fail("2", "%s started over the cap that runs share", e.Cluster)
	case c.fullDomain(pos) != "":
		c.fail("2", "%s started over the cap of %s", e.Cluster, c.fullDomain(pos))
	case e.Attempt != max(1, m.attempt) || m.tries > 0:
		c.fail("counts", "%s started as attempt %d after %d tries", e.Cluster, e.Attempt, m.tries)
	case len(c.between(stage, group, approval.Before)) > 0:
		c.fail("gates", "%s started before the gates of its group", e.Cluster)
	case c.skipped[e.Stage] || e.Group != "" && c.skipped[e.Stage+"/"+e.Group]:
		c.fail("5", "%s started in a stage that was skipped", e.Cluster)
	}
	c.inTurn(pos)
	*m = member{state: stages.Running, attempt: e.Attempt, started: c.startedAt(pos), sent: m.sent}
}

// startedAt returns the start of the deadline of a cluster that starts now.
func (c *checker) startedAt(pos int) stages.Instant {
	m := &c.members[pos]
	stage, _ := c.p.StageOf(pos)
	if c.p.Stages[stage].Remove && m.state == stages.Pending && !m.fresh {
		return m.started
	}
	return c.now - m.spent
}

// completed checks the proof.
func (c *checker) completed(pos int, e *stages.Event) {
	m := &c.members[pos]
	soaked := m.proven && c.now >= m.since.Add(c.p.Strategy.MinHealthy.Duration)
	if !m.applied || !m.done && !soaked {
		c.fail("3", "%s completed without proof", e.Cluster)
	}
	if e.Attempt != m.attempt {
		c.fail("3", "%s completed attempt %d and is at attempt %d", e.Cluster, e.Attempt, m.attempt)
	}
	c.end(pos, stages.Completed)
}

func (c *checker) ended(pos int, e *stages.Event) {
	state := stages.Skipped
	if e.Type == stages.ClusterFailed {
		state = stages.Failed
	}
	m := &c.members[pos]
	if m.state == stages.Completed || m.state == stages.Skipped {
		c.fail("5", "%s of %s, which is %s", e.Type, e.Cluster, m.state)
	}
	if m.state == stages.Running && state == stages.Skipped && !c.skips(pos) {
		c.fail("5", "%s is skipped in flight, and there is no reason to", e.Cluster)
	}
	if m.state == stages.Pending && m.tries == 0 && !m.fresh {
		m.attempt-- // Attempt counted the next attempt
	}
	m.gone = m.gone || state == stages.Skipped && strings.HasPrefix(e.Message, "Removed:")
	m.sent = m.sent || m.assumed || m.state == stages.Failed && !m.unchanged
	m.unchanged = state == stages.Failed && strings.HasPrefix(e.Message, "not reached within") && !m.sent
	m.fresh, m.window, m.pointless = false, false, false
	c.end(pos, state)
}

func (c *checker) end(pos int, state stages.State) {
	stage, group := c.p.StageOf(pos)
	if c.members[pos].state != stages.Failed {
		c.stages[stage].last = c.now
		c.stages[stage].groups[group].last = c.now
	}
	c.members[pos].state = state
}

func (g gateModel) due(now stages.Instant) bool { return g.open && g.until != 0 && now >= g.until }

func (c *checker) deadline(stage int) time.Duration {
	switch {
	case !c.p.Stages[stage].Remove:
		return c.p.Strategy.ProgressDeadline.Duration
	case c.p.Strategy.Removal.Deadline.Duration > 0:
		return c.p.Strategy.Removal.Deadline.Duration
	default:
		return 5 * time.Minute
	}
}
