package step

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// violation is a broken law: its number in the package documentation, or gates, time, counts or
// commands for a consequence of several laws.
type violation struct{ law, text string }

// checker holds a machine to the laws. It has its own model of the run, built only from the plan,
// the inputs and the outputs. It compares the run with that model, and otherwise does not rely on
// the run.
type checker struct {
	p       *stages.Plan
	now     stages.Instant
	state   stages.State
	members []member
	drained []bool // a command skips it
	stages  []stageModel
	gates   map[gateKey]gateModel
	acts    map[[2]int]bool // position and attempt of the last committed actions
	seen    map[string]bool

	skipped map[string]bool  // stages, and groups as <stage>/<group>, that a command skips
	waived  map[string]bool  // stages whose wait a command skips
	bypass  stages.Instant   // the time until which windows are bypassed
	in      stages.Input     // of this step
	fresh   []stages.Command // of this step, without repetitions
	untold  []int            // retried by this step without an event
	found   *[]violation
}

// member is the checker's model of a cluster.
type member struct {
	state   stages.State
	attempt int
	started stages.Instant
	// backing: an attempt failed, and the next is due at until.
	backing bool
	until   stages.Instant
	// sent reports whether an attempt has reported that it changed the cluster, and assumed whether
	// one may have done so while nobody watched. applied reports
	// whether the current attempt was carried out. proven reports whether the last report was a
	// proof, and since is the time since which there was no report to the contrary. left reports
	// whether the cluster can be out of flight, and done whether it can complete without a soak.
	sent, assumed, applied, proven, left, done bool
	since                                      stages.Instant
	// window reports whether the cluster is Pending because it is outside its window, and fresh
	// whether it has never been in flight then. gone reports whether it left, and pointless whether
	// a report said that there is nothing to do.
	window, fresh, gone, pointless bool
	// tries is the number of consecutive times that the cluster was Pending because it could not be
	// reached; message is the reason. spent is the time in flight before it was Pending. silent
	// reports whether it becomes Pending again without an event.
	tries   int
	message string
	// unreached is the time of the first of the tries, or of the resumption of the run since.
	unreached stages.Instant
	// unchanged reports whether the cluster failed because it was not reached.
	unchanged bool
	spent     stages.Instant
	silent    bool
}

func (m *member) mayHaveChanged() bool { return m.sent || m.assumed }

type stageModel struct {
	started, ended bool
	// reached is when the stage before it ended, and last when the last cluster of this stage
	// ended.
	reached, last stages.Instant
	groups        []groupModel
}

// groupModel is the checker's model of a group with gates.
type groupModel struct {
	// reached is when its stage started, last when its last cluster ended, and ended when the gates
	// after it had passed too.
	reached, last, ended stages.Instant
}

// gateKey identifies a gate of a stage or, if group is not -1, of a group.
type gateKey struct {
	stage, group int
	when         approval.When
	typ          stages.TaskType
}

type gateModel struct {
	open, passed, rejected bool
	// lapsed reports whether it may have been skipped and then reopened.
	lapsed    bool
	until     stages.Instant
	attempt   int
	approvers map[string]bool
}

func newChecker(p *stages.Plan, r *Run) *checker {
	c := &checker{
		p: p, now: r.Now, state: stages.NotStarted, members: make([]member, len(p.Clusters)), drained: make([]bool, len(p.Clusters)), stages: make([]stageModel, len(p.Stages)),
		gates: map[gateKey]gateModel{}, acts: map[[2]int]bool{}, seen: map[string]bool{},
		skipped: map[string]bool{}, waived: map[string]bool{},
	}
	for i := range c.members {
		c.members[i].state = stages.NotStarted
	}
	for i := range c.stages {
		c.stages[i].groups = make([]groupModel, len(p.Stages[i].Groups))
	}
	return c
}

func (c *checker) clone(found *[]violation) *checker {
	n := *c
	n.drained = slices.Clone(c.drained)
	n.members, n.stages = slices.Clone(c.members), slices.Clone(c.stages)
	n.gates, n.acts, n.seen = maps.Clone(c.gates), maps.Clone(c.acts), maps.Clone(c.seen)
	n.skipped, n.waived = maps.Clone(c.skipped), maps.Clone(c.waived)
	for i := range n.stages {
		n.stages[i].groups = slices.Clone(n.stages[i].groups)
	}
	n.found = found
	return &n
}

func (c *checker) fail(law, format string, args ...any) {
	*c.found = append(*c.found, violation{law, fmt.Sprintf(format, args...)})
}

// step lets the machine take a step. It returns the result, the checker for the next step if the
// result is saved, and the violations.
func (c *checker) step(r Run, in stages.Input, do machine) (Ready, *checker, []violation) {
	var found []violation
	n := c.clone(&found)
	ready := n.function(r, in, do)
	before := c.terminal()
	n.take(in, &ready)
	n.untold = n.retries(&ready.Run)
	for i := range ready.Events {
		e := &ready.Events[i]
		if before && e.Type != stages.CommandRefused {
			n.fail("4", "%s after the run was %s", e.Type, c.state)
		}
		n.event(e)
	}
	n.left(&ready.Run)
	n.after(&r, &ready)
	n.again(&ready, in, do)
	n.wants(&ready, in, do)
	return ready, n, found
}

func (c *checker) terminal() bool {
	switch c.state {
	case stages.Completed, stages.Aborted, stages.Superseded:
		return true
	case stages.Failed:
		return c.p.Strategy.Profile != stages.ClusterUpdate
	default:
		return false
	}
}

// function checks law 1.
func (c *checker) function(r Run, in stages.Input, do machine) Ready {
	before := dump(r)
	ready := do(c.p, r, in)
	if ready.Err != nil {
		c.fail("1", "%v", ready.Err)
	}
	if back := reloaded(ready.Run); !reflect.DeepEqual(ready.Run, back) {
		c.fail("1", "a run that was stored is another one: %s", cmp.Diff(ready.Run, back))
	}
	if !reflect.DeepEqual(ready, do(c.p, r, in)) {
		c.fail("1", "the same input gave another output")
	}
	if dump(r) != before {
		c.fail("1", "the argument was changed")
	}
	same := ready.Run
	same.Now = r.Now
	if !ready.Changed && (len(ready.Events) > 0 || dump(same) != before) {
		c.fail("1", "the run changed and Changed does not tell")
	}
	return ready
}

// dump prints a value.
func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// take records an input.
func (c *checker) take(in stages.Input, ready *Ready) {
	c.in, c.fresh = in, nil
	c.now = max(c.now, stages.At(in.Now))
	watched := c.state == stages.Running || c.state == stages.Stopping ||
		slices.ContainsFunc(ready.Events, func(e stages.Event) bool { return e.Type == stages.RunResumed && c.state == stages.Stopped })
	for _, cmd := range in.Commands {
		if c.seen[cmd.ID] {
			continue
		}
		c.seen[cmd.ID] = true
		c.fresh = append(c.fresh, cmd)
		c.drain(&cmd)
		if i := c.p.StageIndex(cmd.Name); cmd.Scope == stages.SkipStage && i >= 0 && ready.Run.form.Stages[i].SkipGates {
			c.skipped[cmd.Name] = true
		}
		c.waived[cmd.Name] = c.waived[cmd.Name] || cmd.Scope == stages.SkipAfterWait
		c.skipsGroup(&cmd, ready)
	}
	for i := range c.members {
		if m := &c.members[i]; in.Unwatched {
			m.assumed = m.assumed || m.state == stages.Running && !m.backing && !m.applied && !m.sent
			m.proven = false
		}
	}
	for i := range in.Observations {
		if pos, ok := c.p.Position(in.Observations[i].Cluster); ok && watched {
			c.observe(pos, &in.Observations[i])
		}
	}
}

// skipsGroup records a command about a group of the current stage if it was carried out: a skip, or
// a retry of its clusters.
func (c *checker) skipsGroup(cmd *stages.Command, ready *Ready) {
	for i := range ready.Run.form.Stages {
		for j, g := range ready.Run.form.Stages[i].Groups {
			name := c.p.Stages[i].Name + "/" + c.p.Stages[i].Groups[j].Name
			if cmd.Verb == stages.Retry && !g.SkipGates || cmd.Scope == stages.SkipGroup && cmd.Name == name {
				c.skipped[name] = g.SkipGates
			}
		}
	}
}

// observe records a report if it is about a cluster in flight.
func (c *checker) observe(pos int, o *stages.Observation) {
	m := &c.members[pos]
	if m.state != stages.Running || m.attempt != o.Attempt || m.backing || m.left || m.done {
		return
	}
	before := m.sent
	m.sent = m.sent || o.Sent || o.Applied && !o.Unchanged
	if !o.Unreachable || m.mayHaveChanged() {
		m.tries = 0
	}
	switch {
	case o.Unreachable:
		stage, _ := c.p.StageOf(pos)
		d := c.deadline(stage)
		m.left, m.proven = !m.mayHaveChanged() && (d == 0 || c.now < m.started.Add(d)), false
		m.silent = !m.mayHaveChanged() && m.tries > 0 && m.message == o.Message
		return
	case o.Skipped:
		m.pointless, m.left, m.proven = !m.sent, !m.sent, false
		return
	case o.Failed:
		m.left, m.proven, m.since = true, false, 0
		return
	case !m.applied && !o.Applied:
		return
	}
	m.applied = true
	c.weigh(pos, o, o.Unchanged && !before && o.Attempt == 1)
}

// weigh records the proof in a report.
func (c *checker) weigh(pos int, o *stages.Observation, unchanged bool) {
	m := &c.members[pos]
	if o.Revision != c.wanted(pos) || !o.Current || !o.Healthy {
		m.proven, m.since = false, 0
		return
	}
	if m.since == 0 {
		m.since = c.now
	}
	m.proven = true
	stage, _ := c.p.StageOf(pos)
	m.done = unchanged || c.p.Strategy.MinHealthy.Duration == 0 || c.p.Stages[stage].Remove
}

func (c *checker) wanted(pos int) string {
	if i := c.p.Clusters[pos].Revision; i >= 0 {
		return c.p.Revisions[i]
	}
	return ""
}

// again steps with the same commands, and just before the time to wake: nothing
// may change.
func (c *checker) again(ready *Ready, in stages.Input, do machine) {
	if len(in.Commands) > 0 || len(in.Gone) > 0 {
		if r := do(c.p, ready.Run, stages.Input{Now: in.Now, Commands: in.Commands, Gone: in.Gone, Blocked: in.Blocked, Calendar: in.Calendar, Slots: in.Slots}); r.Changed {
			c.fail("commands", "delivered again they change something: %v", r.Events)
		}
	}
	if !ready.Wake.IsZero() {
		early := ready.Wake.Add(-time.Millisecond)
		if r := do(c.p, ready.Run, stages.Input{Now: early, Blocked: in.Blocked, Calendar: in.Calendar, Slots: in.Slots}); r.Changed {
			c.fail("6", "something changed at %s, before it was time to wake: %v", since(early), r.Events)
		}
	}
}

// room returns how many more clusters a stage and its group may have in flight.
func (c *checker) room(stage, group int) int {
	st := &c.p.Stages[stage]
	all := 0
	for _, g := range st.Groups {
		all += c.flyingOf(g)
	}
	room := min(c.groupRoom(st.Groups[group]), limit(st.MaxConcurrency)-all)
	if st.Strict {
		room = min(room, st.MaxFailures-c.failed(stage)-all)
	}
	return room
}

// flyingOf counts the clusters of a group that are in flight.
func (c *checker) flyingOf(g stages.PlannedGroup) (n int) {
	for pos := g.First; pos < g.First+g.Len; pos++ {
		if c.members[pos].state == stages.Running && !c.members[pos].silent {
			n++
		}
	}
	return n
}

// groupRoom returns how many more clusters a group may have in flight, whatever its stage allows.
func (c *checker) groupRoom(g stages.PlannedGroup) int {
	n := c.flyingOf(g)
	room := limit(g.MaxConcurrency) - n
	if g.Strict {
		room = min(room, g.MaxFailures-c.count(g, stages.Failed)-n)
	}
	return room
}

// kept reports whether the group of a cluster keeps all of its slots for unproven clusters, and the
// cluster is not one of them.
func (c *checker) kept(pos int) bool {
	stage, group := c.p.StageOf(pos)
	g := c.p.Stages[stage].Groups[group]
	if g.Unproven == 0 || pos < g.First+g.Unproven {
		return false
	}
	unproven := g
	unproven.Len = g.Unproven
	return c.groupRoom(g) <= c.count(unproven, stages.NotStarted)+c.count(unproven, stages.Pending)
}

// failed counts the clusters of a stage that have failed.
func (c *checker) failed(stage int) (n int) {
	for _, g := range c.p.Stages[stage].Groups {
		n += c.count(g, stages.Failed)
	}
	return n
}

// over reports whether more clusters of the stage have failed than the budget allows.
func (c *checker) over(stage int) bool {
	st := &c.p.Stages[stage]
	total := 0
	for _, g := range st.Groups {
		n := c.count(g, stages.Failed)
		total += n
		if g.MaxFailures >= 0 && n > g.MaxFailures {
			return true
		}
	}
	return st.MaxFailures >= 0 && total > st.MaxFailures
}

// count counts the clusters of a group in a state.
func (c *checker) count(g stages.PlannedGroup, state stages.State) (n int) {
	for pos := g.First; pos < g.First+g.Len; pos++ {
		if c.members[pos].state == state {
			n++
		}
	}
	return n
}
