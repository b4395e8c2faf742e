package azure

import (
	"cmp"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Record is the data for the status of an update run.
type Record struct {
	// Run and Plan belong together, as in a fleet.Status. They are not changed.
	Run  *step.Run
	Plan *stages.Plan
	// Events are all events of the run. They contain the times and messages of members; without
	// events, the status has none.
	Events []stages.Event
	// Target is the resolved target of the run.
	Target upgrade.Target
	// StrategyID names the update strategy of the run; empty for none.
	StrategyID string
	// ResourceIDs are the resource ids of members by name. They are needed only if the clusters'
	// UIDs are not the resource ids, as [FleetMember.Cluster] sets them.
	ResourceIDs map[string]string
}

// NewUpdateRun returns a run in Azure's form. The states are those from [step.Run.Outline]; a run
// that was aborted or superseded is Failed. The strategy is left out if Azure has no form for it,
// for example [OneByOne].
func NewUpdateRun(rec Record) UpdateRun {
	s := newStatus(rec)
	u := UpdateRun{Name: rec.Run.Name, Status: s.status()}
	if form, err := Form(rec.Plan.Strategy); err == nil {
		u.Strategy = &form
	}
	u.Update, _ = UpdateForm(rec.Target) // an invalid target is never rolled out
	u.UpdateStrategyID = optional(rec.StrategyID)
	return u
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moment returns a time for JSON, nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// status makes the status of a run.
type status struct {
	Record
	outline stages.Outline
	// states are the members' states, by position; lives has their times and messages.
	states []stages.State
	lives  map[string]life
	// several has events about several members of a group at once, by stage and group.
	several map[[2]string]life
}

// life has the times and the message of a member from its events.
type life struct {
	started, ended time.Time
	message        string
}

func newStatus(rec Record) *status {
	s := &status{Record: rec, outline: rec.Run.Outline(rec.Plan), lives: map[string]life{}, several: map[[2]string]life{}}
	for _, state := range rec.Run.States(rec.Plan) {
		s.states = append(s.states, state)
	}
	for i := range rec.Events {
		s.add(&rec.Events[i])
	}
	return s
}

// add adds an event.
func (s *status) add(e *stages.Event) {
	if e.Cluster == "" {
		if e.Type == stages.ClusterSkipped || e.Type == stages.ClusterPending {
			s.several[[2]string{e.Stage, e.Group}] = life{ended: e.Time, message: e.Message}
		}
		return
	}
	l := s.lives[e.Cluster]
	switch e.Type {
	case stages.ClusterStarted:
		l = life{started: e.Time}
	case stages.ClusterCompleted:
		l.ended, l.message = e.Time, ""
	case stages.ClusterFailed, stages.ClusterSkipped:
		l.ended, l.message = e.Time, e.Message
	case stages.ClusterPending, stages.ClusterUnhealthy, stages.ClusterRetrying:
		l.ended, l.message = time.Time{}, e.Message
	default:
		return
	}
	s.lives[e.Cluster] = l
}

func (s *status) status() Status {
	r := s.Run
	out := Status{Stages: []StageStatus{}, Status: newUpdateStatus(s.outline.Run, r.Started.Time(), r.Ended.Time(), r.Reason)}
	for i := range s.outline.Stages {
		st := s.stage(i)
		out.FailureCount += st.FailureCount
		out.Stages = append(out.Stages, st)
	}
	if n := s.Target.NodeImages; n.Selection == upgrade.Consistent {
		out.NodeImages = &SelectedImages{Versions: versions(n.Versions)}
	}
	return out
}

// newUpdateStatus returns a state with its times and, if it is a failure, the reason.
func newUpdateStatus(state stages.State, started, ended time.Time, reason string) UpdateStatus {
	u := UpdateStatus{State: string(state), StartTime: moment(started)}
	code := ""
	switch state {
	case stages.Aborted, stages.Superseded:
		u.State, code = string(stages.Failed), CodeEnded
	case stages.Failed:
		code = CodeFailed
	default:
	}
	if code != "" {
		u.Error = &Error{Code: code, Message: cmp.Or(reason, string(state))}
	}
	if isOver(stages.State(u.State)) {
		u.CompletedTime = moment(ended)
	}
	return u
}

// isOver reports whether a state is final.
func isOver(s stages.State) bool {
	switch s {
	case stages.Completed, stages.Failed, stages.Skipped, stages.Stopped:
		return true
	default:
		return false
	}
}

func (s *status) stage(i int) StageStatus {
	o, p, r := &s.outline.Stages[i], &s.Plan.Stages[i], &s.Run.Form(runstate.Key{}).Stages[i]
	reason, ended := "", o.Ended
	if i == s.Run.Form(runstate.Key{}).Stage {
		reason, ended = s.Run.Reason, latest(ended, s.Run.Ended.Time())
	}
	out := StageStatus{
		Name: o.Name, MaxAllowedFailures: p.MaxFailures, MaxConcurrency: p.MaxConcurrency, Groups: []GroupStatus{},
		Status: newUpdateStatus(o.State, o.Started, ended, reason),
		Wait:   waitStatus(p.Gates, o.Gates, r.Gates),
	}
	tasks := s.tasks(o.Name, "")
	gates := gates{reached: r.Gates, outlines: o.Gates, run: s.Run.Name, stage: o.Name}
	out.BeforeGates, out.AfterGates = gates.side(approval.Before, tasks), gates.side(approval.After, tasks)
	for j := range o.Groups {
		g := s.group(i, j)
		out.FailureCount += g.FailureCount
		out.Groups = append(out.Groups, g)
	}
	return out
}

func (s *status) group(i, j int) GroupStatus {
	o, p := &s.outline.Stages[i].Groups[j], &s.Plan.Stages[i].Groups[j]
	out := GroupStatus{
		Name: cmp.Or(o.Name, s.outline.Stages[i].Name), FailureCount: o.Failed,
		MaxAllowedFailures: p.MaxFailures, MaxConcurrency: p.MaxConcurrency, Members: []MemberStatus{},
	}
	var started, ended time.Time
	for pos := p.First; pos < p.First+p.Len; pos++ {
		l := s.life(pos, o.Name, s.outline.Stages[i].Name)
		started, ended = first(started, l.started), latest(ended, l.ended)
		out.Members = append(out.Members, s.member(pos, l))
	}
	reason := "too many members have failed"
	if s.Run.State == stages.Aborted || s.Run.State == stages.Superseded {
		reason = s.Run.Reason
	}
	out.Status = newUpdateStatus(o.State, started, ended, reason)
	var reached []runstate.Gate
	if groups := s.Run.Form(runstate.Key{}).Stages[i].Groups; len(groups) > 0 {
		reached = groups[j].Gates
	}
	tasks := s.tasks(s.outline.Stages[i].Name, o.Name)
	gates := gates{reached: reached, outlines: o.Gates, run: s.Run.Name, stage: s.outline.Stages[i].Name, group: o.Name}
	out.BeforeGates, out.AfterGates = gates.side(approval.Before, tasks), gates.side(approval.After, tasks)
	return out
}

// life returns the times and the message of a member: from its own events or, without any, from
// events about several members of its group.
func (s *status) life(pos int, group, stage string) life {
	l, known := s.lives[s.Plan.Clusters[pos].Name]
	state := s.states[pos]
	if known || state != stages.Skipped && state != stages.Pending {
		return l
	}
	l = s.several[[2]string{stage, group}]
	if state == stages.Pending {
		l.ended = time.Time{}
	}
	return l
}

// first returns the earlier of two times, either of which may be zero.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (s *status) member(pos int, l life) MemberStatus {
	c := s.Plan.Clusters[pos]
	m := MemberStatus{Name: c.Name, ClusterResourceID: cmp.Or(s.ResourceIDs[c.Name], c.UID), Message: optional(l.message)}
	m.Status = newUpdateStatus(s.states[pos], l.started, l.ended, l.message)
	if s.states[pos] == stages.Pending && l.message != "" {
		m.Status.Error = &Error{Code: CodePending, Message: l.message}
	}
	if s.states[pos] == stages.NotStarted {
		m.Status.StartTime, m.Message = nil, nil
	}
	return m
}

// tasks returns the tasks of a stage or a group from the strategy, with their display names.
func (s *status) tasks(stage, group string) map[approval.When][]stages.Task {
	list := s.Plan.Strategy.Stages
	i := slices.IndexFunc(list, func(st stages.Stage) bool { return st.Name == stage })
	if i < 0 {
		return nil
	}
	if group == "" {
		return map[approval.When][]stages.Task{approval.Before: list[i].Before, approval.After: list[i].After}
	}
	j := slices.IndexFunc(list[i].Groups, func(g stages.Group) bool { return g.Name == group })
	if j < 0 {
		return nil
	}
	return map[approval.When][]stages.Task{approval.Before: list[i].Groups[j].Before, approval.After: list[i].Groups[j].After}
}

// gates are the gates of a stage or a group.
type gates struct {
	reached           []runstate.Gate
	outlines          []stages.GateOutline
	run, stage, group string
}

// side returns the gates on one side, without a wait.
func (g *gates) side(when approval.When, tasks map[approval.When][]stages.Task) []GateStatus {
	out := []GateStatus{}
	for i := range g.outlines {
		o := &g.outlines[i]
		if o.When != when || o.Type == stages.TimedWait {
			continue
		}
		reached := reachedGate(g.reached, o)
		s := GateStatus{Type: string(o.Type), Status: gateStatus(o, reached)}
		if reached != nil {
			s.GateID = optional(g.id(o))
		}
		for _, t := range tasks[when] {
			if t.Type == o.Type {
				s.DisplayName = optional(t.DisplayName)
			}
		}
		out = append(out, s)
	}
	return out
}

// id returns the id of a gate that was reached.
func (g *gates) id(o *stages.GateOutline) string {
	switch {
	case o.Type == stages.Approval && g.group != "":
		return approval.GroupRequestName(g.run, g.stage, g.group, o.When)
	case o.Type == stages.Approval:
		return approval.RequestName(g.run, g.stage, o.When)
	case g.group != "":
		return g.stage + "/" + g.group
	}
	return g.stage
}

// reachedGate returns the gate of an outline, or nil if the run has not reached it.
func reachedGate(list []runstate.Gate, o *stages.GateOutline) *runstate.Gate {
	for i := range list {
		if list[i].When == o.When && list[i].Type == o.Type {
			return &list[i]
		}
	}
	return nil
}

func gateStatus(o *stages.GateOutline, reached *runstate.Gate) UpdateStatus {
	var opened time.Time
	if reached != nil {
		opened = reached.Opened.Time()
	}
	return newUpdateStatus(o.State, opened, o.Ended, "the request was rejected")
}

// waitStatus returns the wait after a stage, or nil if there is none.
func waitStatus(planned []stages.PlannedGate, outlines []stages.GateOutline, reached []runstate.Gate) *WaitStatus {
	i := slices.IndexFunc(planned, func(g stages.PlannedGate) bool { return g.When == approval.After && g.Type == stages.TimedWait })
	if i < 0 || i >= len(outlines) {
		return nil
	}
	return &WaitStatus{
		Status:   gateStatus(&outlines[i], reachedGate(reached, &outlines[i])),
		Duration: int(planned[i].Wait.Duration / time.Second),
	}
}
