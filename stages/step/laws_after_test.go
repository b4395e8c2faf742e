package step

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// after compares the result of a step with the model.
func (c *checker) after(was *Run, ready *Ready) {
	r := &ready.Run
	if r.State != c.state {
		c.fail("4", "the run is %s, and its events say %s", r.State, c.state)
	}
	if r.Now != c.now {
		c.fail("time", "the run is at %s, and it is %s", since(r.Now.Time()), since(c.now.Time()))
	}
	if c.asked(stages.Stop) && !c.asked(stages.Start) && was.State == stages.Running && r.State == stages.Running {
		c.fail("4", "the run was to stop and goes on")
	}
	c.silently(r)
	c.budgets()
	c.inFlight(r)
	c.actions(ready)
	c.groups(r)
	c.gatesAre(r)
	c.moves()
	c.waits(ready)
	c.outline(r)
}

// silently records changes without an event: a cluster that still cannot be reached is Pending
// again, or is retried.
func (c *checker) silently(r *Run) {
	for pos := range c.members {
		m := &c.members[pos]
		if m.silent && m.state == stages.Running {
			c.pending(pos, m.attempt, m.message)
		}
		m.silent = false
	}
	for i := range r.form.InFlight {
		f := &r.form.InFlight[i]
		m := &c.members[f.Pos]
		if f.Attempt != m.attempt || m.state != stages.Pending || m.tries == 0 {
			continue
		}
		stage, _ := c.p.StageOf(f.Pos)
		if c.state != stages.Running || c.now < m.until && !m.window || c.over(stage) {
			c.fail("4", "cluster %d was tried again while the run is %s, or too early", f.Pos, c.state)
		}
		if !c.window(f.Pos).Open {
			c.fail("7", "cluster %d was tried again outside its window", f.Pos)
		}
		*m = member{state: stages.Running, attempt: f.Attempt, started: c.startedAt(f.Pos), tries: m.tries, message: m.message, unreached: m.unreached}
	}
}

// pending records that a cluster yields its slot: because it could not be reached, or for a retry
// after a stop.
func (c *checker) pending(pos, attempt int, message string) {
	m := &c.members[pos]
	next := member{state: stages.Pending, attempt: attempt, started: m.started, sent: m.mayHaveChanged(), spent: c.now - m.started}
	if attempt == m.attempt {
		if m.mayHaveChanged() {
			c.fail("counts", "cluster %d gave its slot up after an apply was sent", pos)
		}
		if m.tries > 0 && c.unreachedInTime(pos) && c.state == stages.Running {
			c.fail("6", "cluster %d is Pending again after its deadline", pos)
		}
		if m.tries > 0 && m.message == message && !m.silent {
			c.fail("counts", "cluster %d is Pending as before, and an event says so", pos)
		}
		next.tries, next.message, next.unreached = m.tries+1, message, m.unreached
		if m.tries == 0 {
			next.unreached = c.now
		}
		next.until = c.now.Add(c.wait(next.tries))
		at, _ := c.p.StageOf(pos)
		if limit := c.p.Strategy.UnreachableDeadline.Duration; limit > 0 && !c.p.Stages[at].Remove && c.now < next.unreached.Add(limit) {
			next.until = min(next.until, next.unreached.Add(limit))
		}
	}
	*m = next
}

// unreachedInTime reports whether a cluster was not reached within UnreachableDeadline.
func (c *checker) unreachedInTime(pos int) bool {
	m, limit := &c.members[pos], c.p.Strategy.UnreachableDeadline.Duration
	at, _ := c.p.StageOf(pos)
	return limit > 0 && m.tries > 0 && !c.p.Stages[at].Remove && c.now >= m.unreached.Add(limit)
}

// wait returns the wait after that many tries to reach a cluster.
func (c *checker) wait(tries int) time.Duration {
	d, most := c.p.Strategy.Backoff.Duration, c.p.Strategy.MaxBackoff.Duration
	if d == 0 {
		d = time.Second
	}
	if most == 0 {
		most = max(d, time.Minute)
	}
	return min(most, d<<min(tries-1, 20))
}

// inFlight compares the slots with the clusters in flight.
func (c *checker) inFlight(r *Run) {
	at := map[int]bool{}
	for i := range r.form.InFlight {
		f := &r.form.InFlight[i]
		if f.Attempt == 0 {
			continue
		}
		if at[f.Pos] || c.members[f.Pos].state != stages.Running {
			c.fail("counts", "cluster %d has a slot, and is %s", f.Pos, c.members[f.Pos].state)
			continue
		}
		at[f.Pos] = true
		c.slot(f)
	}
	for pos := range c.members {
		if c.members[pos].state == stages.Running && !at[pos] {
			c.fail("counts", "cluster %d is in flight without a slot", pos)
		}
	}
	waiting := map[int]bool{}
	for _, y := range r.form.Waiting {
		waiting[y.Pos] = true
	}
	for pos := range c.members {
		if m := &c.members[pos]; waiting[pos] != (m.state == stages.Pending && !m.fresh) {
			c.fail("counts", "cluster %d is %s; waiting: %t", pos, c.members[pos].state, waiting[pos])
		}
	}
}

// slot follows a cluster in flight into its next attempt.
func (c *checker) slot(f *runstate.InFlight) {
	m := &c.members[f.Pos]
	stage, group := c.p.StageOf(f.Pos)
	if f.Phase != stages.BackingOff && m.backing && f.Attempt == m.attempt+1 {
		if c.state != stages.Running {
			c.fail("4", "cluster %d was tried again while the run is %s", f.Pos, c.state)
		}
		if c.now < m.until {
			c.fail("time", "cluster %d was tried again too early", f.Pos)
		}
		*m = member{state: stages.Running, attempt: f.Attempt, started: m.started, sent: m.sent, assumed: m.assumed}
	}
	if f.Attempt != m.attempt || m.backing != (f.Phase == stages.BackingOff) {
		c.fail("counts", "cluster %d is at attempt %d and its slot at %d", f.Pos, m.attempt, f.Attempt)
	}
	if c.state == stages.Running && stage != c.current() || c.room(stage, group) < 0 {
		c.fail("2", "cluster %d is in flight over the cap or out of turn", f.Pos)
	}
}

// actions compares the actions with the clusters in flight.
func (c *checker) actions(ready *Ready) {
	acts, asks := map[[2]int]bool{}, 0
	for i := range ready.Actions {
		a := &ready.Actions[i]
		if a.Type == stages.Ask {
			asks++
			continue
		}
		key := [2]int{a.Pos, a.Attempt}
		acts[key] = true
		switch m := &c.members[a.Pos]; {
		case c.state != stages.Running && !c.acts[key]:
			c.fail("4", "%s of %s while the run is %s", a.Type, a.Cluster, c.state)
		case m.state == stages.Completed || m.state == stages.Skipped:
			c.fail("5", "%s of %s, which is %s", a.Type, a.Cluster, m.state)
		case m.state != stages.Running || m.attempt != a.Attempt || m.backing:
			c.fail("2", "%s of %s, attempt %d, which is %s", a.Type, a.Cluster, a.Attempt, m.state)
		}
		c.action(a)
	}
	active := c.state == stages.Running || c.state == stages.Stopping
	for pos := range c.members {
		if m := &c.members[pos]; active && m.state == stages.Running && !m.backing && !acts[[2]int{pos, m.attempt}] {
			c.fail("6", "cluster %d is in flight and nothing is to be done", pos)
		}
	}
	open := 0
	for k, g := range c.gates {
		if k.typ == stages.Approval && k.stage == c.current() && g.open && c.state == stages.Running && !c.spared(k) {
			open++
		}
	}
	if asks != open {
		c.fail("6", "%d requests are open and %d are to be asked", open, asks)
	}
	c.acts = acts
}

func (c *checker) action(a *stages.Action) {
	want := stages.Apply
	switch {
	case c.p.Clusters[a.Pos].Revision < 0:
		want = stages.Remove
	case c.members[a.Pos].applied:
		want = stages.Observe
	}
	if a.Sent != c.members[a.Pos].sent {
		c.fail("counts", "%s of %s says that it was sent: %t", a.Type, a.Cluster, a.Sent)
	}
	if a.Type != want || a.Revision != c.wanted(a.Pos) || a.UID != c.p.Clusters[a.Pos].UID {
		c.fail("3", "%s of %s to %q; it is to be %s to %q", a.Type, a.Cluster, a.Revision, want, c.wanted(a.Pos))
	}
}

// groups checks that counts add up and budgets hold.
func (c *checker) groups(r *Run) {
	for i := range c.p.Stages {
		for j, g := range r.form.Stages[i].Groups {
			pg := c.p.Stages[i].Groups[j]
			completed, failed := c.count(pg, stages.Completed), c.count(pg, stages.Failed)
			flying, waiting := c.count(pg, stages.Running), c.aside(i, pg, &g)+c.count(pg, stages.Pending)
			if g.Completed != completed || g.Failed != failed || g.Next != g.Completed+g.Failed+g.Skipped+flying+waiting {
				c.fail("counts", "stage %d group %d counts %+v; %d completed, %d failed, %d are in flight and %d wait", i, j, g, completed, failed, flying, waiting)
			}
		}
		if c.state == stages.Running && c.over(i) {
			c.fail("5", "stage %d is over its budget and the run goes on", i)
		}
	}
	for pos, state := range r.States(c.p) {
		if state != c.shown(pos) {
			c.fail("counts", "cluster %d is %s and the run says %s", pos, c.members[pos].state, state)
		}
	}
}

// gatesAre compares the gates in the run with the model.
func (c *checker) gatesAre(r *Run) {
	for i := range r.form.Stages {
		for _, g := range r.form.Stages[i].Gates {
			c.gateIs(gateKey{i, -1, g.When, g.Type}, &g)
		}
		for j := range r.form.Stages[i].Groups {
			for _, g := range r.form.Stages[i].Groups[j].Gates {
				c.gateIs(gateKey{i, j, g.When, g.Type}, &g)
			}
			if c.state == stages.Running || c.state == stages.Stopping || c.state == stages.Stopped || c.state == stages.Failed {
				c.endGroup(i, j)
			}
		}
	}
}

func (c *checker) gateIs(k gateKey, g *runstate.Gate) {
	m := c.gates[k]
	switch {
	case m.passed && g.State != stages.Completed:
		c.fail("4", "the gate %v was passed and is %s", k, g.State)
	case !m.passed && g.State == stages.Completed:
		c.fail("gates", "the gate %v was not passed and is Completed", k)
	case m.open && g.State == stages.Pending && (g.Until != m.until || g.Type == stages.Approval && g.Attempt != m.attempt):
		c.fail("time", "the gate %v is until %s, not %s", k, since(g.Until.Time()), since(m.until.Time()))
	}
}

// moves checks that a run moves if it can.
func (c *checker) moves() {
	stage := c.current()
	if c.state != stages.Running || stage == len(c.stages) {
		return
	}
	for i, g := range c.p.Stages[stage].Groups {
		if c.stages[stage].started && len(c.between(stage, i, approval.Before)) == 0 && c.room(stage, i) > 0 && c.spare() > 0 {
			c.idle(g)
		}
	}
	for pos := range c.members {
		m := &c.members[pos]
		if m.state == stages.Running && m.backing && c.now >= m.until {
			c.fail("6", "cluster %d was to be tried again", pos)
		}
		at, _ := c.p.StageOf(pos)
		flying := m.state == stages.Running || m.state == stages.Pending && c.p.Stages[at].Remove && !m.fresh
		if d := c.deadline(at); d > 0 && flying && c.now >= m.started.Add(d) {
			c.fail("6", "cluster %d is past its deadline", pos)
		}
	}
	for k, g := range c.gates {
		turn := k.group >= 0 || (k.when == approval.Before) == !c.stages[stage].started
		if k.stage == stage && !c.spared(k) && turn && k.typ != stages.Approval && g.due(c.now) {
			c.fail("time", "the %s wait of stage %d is over, and the run does not go on", k.when, stage)
		}
	}
}

// spared reports whether a command skipped the gate.
func (c *checker) spared(k gateKey) bool {
	name := c.p.Stages[k.stage].Name
	if k.group < 0 {
		return c.skipped[name] || c.waived[name] && k.when == approval.After && k.typ == stages.TimedWait
	}
	g := c.p.Stages[k.stage].Groups[k.group]
	return c.skipped[name] || c.skipped[name+"/"+g.Name] || c.count(g, stages.Skipped) == g.Len
}

// waits checks law 6.
func (c *checker) waits(ready *Ready) {
	r := &ready.Run
	awaited := Waiting(c.p, r)
	if r.IsEnded() {
		if len(ready.Actions) > 0 || len(awaited) > 0 || !ready.Wake.IsZero() {
			c.fail("4", "the run is %s and not at rest", r.State)
		}
		return
	}
	if len(awaited) == 0 {
		c.fail("6", "the run is %s and waits for nothing", r.State)
	}
	timed := len(awaited) > 0
	for _, a := range awaited {
		timed = timed && a.Kind == stages.AwaitTime
		if a.Kind == stages.AwaitTime && !a.Until.IsZero() && stages.At(a.Until) > c.now && r.State == stages.Running && (ready.Wake.IsZero() || ready.Wake.After(a.Until)) {
			c.fail("6", "the run waits for %s and sleeps through it", since(a.Until))
		}
	}
	if timed && ready.Wake.IsZero() {
		c.fail("6", "the run waits for time alone and does not wake")
	}
	if !ready.Wake.IsZero() && stages.At(ready.Wake) <= c.now {
		c.fail("6", "the run wakes in the past")
	}
	c.alarms(ready)
	c.explains(r)
}

// alarms checks that a run wakes for everything that time alone changes.
func (c *checker) alarms(ready *Ready) {
	if c.state != stages.Running {
		return
	}
	due := func(what string, t stages.Instant) {
		if t > c.now && (ready.Wake.IsZero() || stages.At(ready.Wake) > t) {
			c.fail("6", "%s is due at %s, and the run sleeps through it", what, since(t.Time()))
		}
	}
	for pos := range c.members {
		m := &c.members[pos]
		stage, _ := c.p.StageOf(pos)
		d := c.deadline(stage)
		if d > 0 && (m.state == stages.Running || m.state == stages.Pending && c.p.Stages[stage].Remove && !m.fresh) {
			due("a deadline", m.started.Add(d))
		}
		if m.state == stages.Running && m.proven {
			due("the end of a soak", m.since.Add(c.p.Strategy.MinHealthy.Duration))
		}
		if m.state == stages.Running && m.backing {
			due("an attempt", m.until)
		}
	}
	for k, g := range c.gates {
		if k.stage == c.current() && g.open && !c.spared(k) {
			due("a gate", g.until)
		}
	}
	c.windowAlarms(due)
}

// explains checks that Explain names a condition for every cluster that has not ended.
func (c *checker) explains(r *Run) {
	for pos := range c.p.Clusters {
		e, err := Explain(c.p, r, c.p.Clusters[pos].Name)
		if err != nil || e.Reason == "" {
			c.fail("6", "cluster %d is not explained: %v", pos, err)
		}
		if s := c.members[pos].state; (s == stages.NotStarted || s == stages.Pending || s == stages.Running) && len(e.Waiting) == 0 {
			c.fail("6", "cluster %d is %s and it is not said what it waits for", pos, s)
		}
	}
}
