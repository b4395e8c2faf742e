package step

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// window returns the window of a cluster at the time of the step.
func (c *checker) window(pos int) stages.Window {
	if c.in.Calendar == nil || c.now < c.bypass {
		return stages.Window{Open: true}
	}
	w := c.in.Calendar.Window(pos, c.now.Time())
	w.Open = w.Open || !w.Limited
	return w
}

// bypassed records that windows are bypassed. A command must have requested exactly that, with a
// reason and not for too long.
func (c *checker) bypassed(e *stages.Event) {
	found := false
	for _, cmd := range c.fresh {
		until := max(stages.At(cmd.Until), c.now)
		found = found || cmd.Verb == stages.BypassWindows && cmd.Message != "" && e.Message == cmd.Message && e.By == cmd.By.Name &&
			stages.At(e.Until) == until && until <= c.now.Add(7*24*time.Hour)
	}
	if !found {
		c.fail("7", "windows are bypassed until %s, and no command asked for that", since(e.Until))
	}
	c.bypass = stages.At(e.Until)
}

// shut records that a cluster that is not in flight is Pending for its window.
func (c *checker) shut(pos int, e *stages.Event) {
	m := &c.members[pos]
	w := c.window(pos)
	if stage, _ := c.p.StageOf(pos); w.Open || c.state != stages.Running || stage != c.current() || !c.stages[stage].started {
		c.fail("7", "%s is Pending, and its window is open or it is not its turn", e.Cluster)
	}
	if m.fresh || m.window && m.message == e.Message {
		c.fail("counts", "%s is Pending as before, and an event says so", e.Cluster)
	}
	if !e.Until.Equal(w.Until) {
		c.fail("time", "%s is outside its window until %s, not %s", e.Cluster, since(w.Until), since(e.Until))
	}
	m.fresh = m.state == stages.NotStarted
	m.state, m.window, m.until, m.message = stages.Pending, true, stages.At(e.Until), e.Message
}

// shutRange records that many clusters of a group are Pending at once: the first ones outside their
// windows.
func (c *checker) shutRange(e *stages.Event) {
	first, n := stages.Instant(0), 0
	for _, g := range c.p.Stages[c.p.StageIndex(e.Stage)].Groups {
		for pos := g.First; g.Name == e.Group && pos < g.First+g.Len && n < e.Count; pos++ {
			m, w := &c.members[pos], c.window(pos)
			if m.state != stages.NotStarted || w.Open {
				continue
			}
			n++
			m.state, m.fresh, m.window, m.until = stages.Pending, true, true, stages.At(w.Until)
			if at := stages.At(w.Until); at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	if n != e.Count || n <= maxSingleEvents || stages.At(e.Until) != first {
		c.fail("counts", "%d clusters are outside their windows until %s, and the event says %d until %s", n, since(first.Time()), e.Count, since(e.Until))
	}
}

// inTurn checks that the window of a cluster that starts is open, and that it is the cluster's
// turn.
func (c *checker) inTurn(pos int) {
	own := c.window(pos)
	if !own.Open {
		c.fail("7", "cluster %d started outside its window", pos)
	}
	if m := &c.members[pos]; m.state == stages.Pending && !m.fresh {
		return
	}
	stage, group := c.p.StageOf(pos)
	g := c.p.Stages[stage].Groups[group]
	for other := g.First; other < g.First+g.Len; other++ {
		m, w := &c.members[other], c.window(other)
		if other == pos || !w.Open || m.state != stages.NotStarted && !m.fresh || c.fullDomain(other) != "" || c.kept(other) {
			continue
		}
		before := other < pos
		if c.p.Strategy.Profile == stages.ClusterUpdate && w.Limited != own.Limited {
			before = w.Limited
		}
		if before {
			c.fail("7", "cluster %d started, and it is the turn of %d", pos, other)
		}
	}
}

// aside checks the clusters of a group that let others go first. It returns how many of them are
// not Pending for their windows.
func (c *checker) aside(stage int, pg stages.PlannedGroup, g *runstate.GroupRun) (n int) {
	in := map[int]bool{}
	for _, r := range g.Deferred {
		for pos := r.First; pos <= r.Last; pos++ {
			in[pos] = true
			m := &c.members[pos]
			if m.fresh && !r.Closed && c.window(pos).Open && c.p.Strategy.Profile == stages.ClusterUpdate {
				*m = member{state: stages.NotStarted} // it no longer has a window
			}
			if (m.state != stages.NotStarted || r.Closed) && (!m.fresh || !r.Closed) {
				c.fail("counts", "cluster %d let others go first, and is %s", pos, m.state)
			}
		}
	}
	for pos := pg.First; pos < pg.First+pg.Len; pos++ {
		if m := &c.members[pos]; m.fresh {
			n--
			if !in[pos] {
				c.fail("counts", "cluster %d of stage %d is outside its window, and is not deferred", pos, stage)
			}
		}
	}
	return n + len(in)
}

// shown returns the state of a cluster for people.
func (c *checker) shown(pos int) stages.State {
	m := &c.members[pos]
	if m.fresh && (c.atRest() || c.now < c.bypass) {
		return stages.NotStarted
	}
	return m.state
}

func (c *checker) atRest() bool {
	return c.state == stages.Aborted || c.state == stages.Superseded || c.state == stages.Failed || c.state == stages.Completed
}

// idle checks that no cluster of a group that has room could start.
func (c *checker) idle(g stages.PlannedGroup) {
	if g.Len == 0 {
		return
	}
	for pos := g.First; pos < g.First+g.Len; pos++ {
		if c.kept(pos) {
			continue
		}
		m, w := &c.members[pos], c.window(pos)
		again := m.state == stages.Pending && !m.fresh && m.tries == 0
		switch {
		case m.state == stages.NotStarted || m.fresh || again:
			if w.Open && c.fullDomain(pos) == "" {
				c.fail("6", "there is room for cluster %d, and it does not start", pos)
			}
			if m.state == stages.NotStarted && !w.Open && c.fullDomain(pos) == "" {
				c.fail("7", "cluster %d is outside its window, and it is not said", pos)
			}
		}
	}
}

// budgets checks the strict budgets.
func (c *checker) budgets() {
	for i := range c.p.Stages {
		st := &c.p.Stages[i]
		failed, flying, left := 0, 0, 0
		for _, g := range st.Groups {
			f, n := c.count(g, stages.Failed), c.count(g, stages.Running)
			l := c.count(g, stages.NotStarted) + c.count(g, stages.Pending)
			c.strict(i, g.Strict, g.MaxFailures, f, n, l)
			failed, flying, left = failed+f, flying+n, left+l
		}
		c.strict(i, st.Strict, st.MaxFailures, failed, flying, left)
	}
}

func (c *checker) strict(stage int, strict bool, budget, failed, flying, left int) {
	switch {
	case !strict:
	case failed+flying > budget:
		c.fail("5", "%d clusters of stage %d have failed and %d are in flight: more than %d may fail", failed, stage, flying, budget)
	case failed == budget && flying == 0 && left > 0 && c.state == stages.Running && stage == c.current() && c.stages[stage].started:
		c.fail("6", "the budget of stage %d is used up, and the run does not end", stage)
	}
}

// windowAlarms checks that a run wakes for the windows of clusters that have room.
func (c *checker) windowAlarms(due func(string, stages.Instant)) {
	stage := c.current()
	if stage == len(c.stages) || !c.stages[stage].started {
		return
	}
	for i, g := range c.p.Stages[stage].Groups {
		held := len(c.between(stage, i, approval.Before)) > 0
		for pos := g.First; !held && c.room(stage, i) > 0 && c.spare() > 0 && pos < g.First+g.Len; pos++ {
			m := &c.members[pos]
			if c.fullDomain(pos) != "" || c.kept(pos) {
				continue
			}
			if w := c.window(pos); m.state == stages.NotStarted || m.fresh || m.state == stages.Pending && m.window {
				due("a window", stages.At(w.Until))
			}
		}
	}
}

// retried records that clusters of the current stage are retried.
func (c *checker) retried(e *stages.Event) {
	if !c.asked(stages.Retry) {
		c.fail("4", "clusters are tried again and no command asked for that")
	}
	stage, n := c.current(), 0
	for pos := range c.members {
		m := &c.members[pos]
		at, _ := c.p.StageOf(pos)
		wanted := m.state == stages.Failed && !m.gone && e.Message != stages.OnlySkipped.Words() || m.state == stages.Skipped && !m.gone && e.Message != stages.OnlyFailed.Words()
		if at != stage || !wanted {
			continue
		}
		n++
		next := member{state: stages.Pending, attempt: m.attempt + 1, started: c.now, sent: m.sent || m.state == stages.Failed && !m.unchanged}
		if m.state == stages.Skipped && m.attempt == 0 {
			next = member{state: stages.NotStarted}
		}
		*m = next
		c.reopen(pos)
		c.unskip(pos)
	}
	if n != e.Count || n == 0 {
		c.fail("counts", "%d clusters are tried again, and the event says %d", n, e.Count)
	}
}

// unskip reverses the skip of a cluster's group: it waits at its gates again, and missing approvals
// are requested again.
func (c *checker) unskip(pos int) {
	stage, group := c.p.StageOf(pos)
	st := &c.p.Stages[stage]
	delete(c.skipped, st.Name+"/"+st.Groups[group].Name)
	for k, g := range c.gates {
		if k.stage == stage && k.group == group && k.when == approval.Before && k.typ == stages.Approval && g.open {
			g.lapsed = true
			c.gates[k] = g
		}
	}
}

// drain records that a command skips clusters.
func (c *checker) drain(cmd *stages.Command) {
	for i := range c.p.Stages {
		st := &c.p.Stages[i]
		for _, g := range st.Groups {
			named := cmd.Scope == stages.SkipStage && cmd.Name == st.Name || cmd.Scope == stages.SkipGroup && (cmd.Name == g.Name || cmd.Name == st.Name+"/"+g.Name)
			for pos := g.First; pos < g.First+g.Len; pos++ {
				one := cmd.Scope == stages.SkipCluster && cmd.Name == c.p.Clusters[pos].Name
				c.drained[pos] = c.drained[pos] || named || one
			}
		}
	}
}

// skips reports whether a cluster in flight may be skipped: it has nothing to do, a command
// requested the skip, it left, or the run was superseded.
func (c *checker) skips(pos int) bool {
	stage, _ := c.p.StageOf(pos)
	return c.members[pos].pointless || c.drained[pos] || c.state == stages.Stopping || c.p.Stages[stage].Remove ||
		slices.Contains(c.in.Gone, c.p.Clusters[pos].Name)
}

// left records which ended clusters have left.
func (c *checker) left(r *Run) {
	for _, name := range c.in.Gone {
		pos, ok := c.p.Position(name)
		if !ok {
			continue
		}
		if x := runstate.UnsuccessfulAt(r.form.Unsuccessful, pos); x != nil && x.Gone {
			c.members[pos].gone = true
		}
	}
}
