package oam

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// walk computes the status of the steps of a workflow.
type walk struct {
	Record
	outline stages.Outline
	before  map[string]StepStatus
}

func newWalk(rec Record) *walk {
	w := &walk{Record: rec, outline: rec.Run.Outline(rec.Plan), before: map[string]StepStatus{}}
	for _, s := range rec.Release.Before {
		w.before[s.Name] = s
	}
	return w
}

func (w *walk) status() *WorkflowStatus {
	r := w.Run
	out := &WorkflowStatus{
		AppRevision: r.Name, Mode: w.mode(), Phase: w.workflowPhase(), Message: r.Reason,
		Suspend: w.suspended(), Terminated: w.terminated(), Finished: r.IsEnded(), StartTime: moment(r.Started), EndTime: moment(r.Ended),
	}
	if r.Form(runstate.Key{}).RollbackRequest != nil {
		out.Message += "; it is rolled back"
	}
	if r.Started == 0 {
		return out
	}
	for i := range w.Release.Workflow.Steps {
		s := &w.Release.Workflow.Steps[i]
		state, reached := w.top(s)
		if !reached {
			continue
		}
		out.Steps = append(out.Steps, state)
	}
	return out
}

func (w *walk) mode() string {
	m := w.Release.Workflow.Mode
	return string(cmp.Or(m.Steps, StepByStep)) + "-" + string(cmp.Or(m.SubSteps, DAG))
}

func moment(i stages.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}

// top returns the status of a step of the workflow; false if it has none yet.
func (w *walk) top(s *Step) (StepState, bool) {
	own, reached := w.step(s)
	state := StepState{StepStatus: own}
	for i := range s.Steps {
		if sub, ok := w.step(&s.Steps[i]); ok {
			state.SubSteps = append(state.SubSteps, sub)
		}
	}
	if s.Type == GroupStep && w.Release.Workflow.Mode.Steps == DAG && len(state.SubSteps) > 0 {
		state.StepStatus, reached = w.sum(s, state.SubSteps), true
	}
	return state, reached
}

// sum derives a group's status from its steps.
func (w *walk) sum(s *Step, subs []StepStatus) StepStatus {
	out := w.new(s, Succeeded, "", "")
	out.FirstExecuteTime, out.LastExecuteTime = subs[0].FirstExecuteTime, subs[0].LastExecuteTime
	if len(subs) < len(s.Steps) {
		out.Phase = PhaseRunning
	}
	for _, phase := range []string{PhasePending, PhaseRunning, Suspending, PhaseFailed} {
		if i := slices.IndexFunc(subs, func(sub StepStatus) bool { return sub.Phase == phase }); i >= 0 {
			out.Phase, out.Reason, out.Message = phase, subs[i].Reason, subs[i].Message
			if phase == PhasePending {
				out.Phase = PhaseRunning
			}
		}
	}
	if !slices.ContainsFunc(subs, func(sub StepStatus) bool { return sub.Phase != PhaseSkipped }) {
		out.Phase, out.Reason = PhaseSkipped, ReasonSkip
	}
	return out
}

// id identifies a step of a run.
func (w *walk) id(name string) string {
	sum := sha256.Sum256([]byte(w.Run.UID + "/" + name))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:10]
}

func (w *walk) new(s *Step, phase, reason, message string) StepStatus {
	return StepStatus{ID: w.id(s.Name), Name: s.Name, Type: string(s.Type), Phase: phase, Reason: reason, Message: message}
}

// unit is the stage or the group of a step in the plan.
type unit struct {
	stage, group int // group is -1 for a stage
	state        stages.State
	gates        []runstate.Gate
	planned      *stages.Flow
	clusters     int
	clock        runstate.Clock
	skipGates    bool
	first, last  stages.Instant
}

// unit finds the stage or the group of a step; false if there is none.
func (w *walk) unit(name string) (unit, bool) {
	for i := range w.Plan.Stages {
		st, run := &w.Plan.Stages[i], &w.Run.Form(runstate.Key{}).Stages[i]
		if st.Remove {
			continue
		}
		if st.Name == name {
			u := unit{stage: i, group: -1, state: w.outline.Stages[i].State, gates: run.Gates, planned: &st.Flow, clock: run.Clock, skipGates: run.SkipGates, first: run.Reached, last: run.Ended}
			for j := range st.Groups {
				u.clusters += st.Groups[j].Len
			}
			return u, true
		}
		for j := range st.Groups {
			if st.Groups[j].Name == name {
				return w.groupUnit(i, j), true
			}
		}
	}
	return unit{}, false
}

func (w *walk) groupUnit(i, j int) unit {
	st, run := &w.Plan.Stages[i], &w.Run.Form(runstate.Key{}).Stages[i]
	g := &st.Groups[j]
	out := &w.outline.Stages[i].Groups[j]
	u := unit{stage: i, group: j, state: out.State, planned: &g.Flow, clusters: g.Len, skipGates: run.SkipGates}
	if u.state == stages.Skipped && g.Len > 0 && out.Completed == g.Len {
		u.state = stages.Completed // only the rest of the stage is skipped
	}
	if len(run.Groups) > 0 {
		gr := &run.Groups[j]
		u.gates, u.clock, u.last = gr.Gates, gr.Clock, gr.Ended
		u.skipGates = u.skipGates || gr.SkipGates
		u.first = cmp.Or(gr.Reached, run.Started)
		switch began := gr.Next > 0 || len(gr.Gates) > 0; {
		case gr.Failed > 0 && w.terminated():
			u.state = stages.Failed
		case u.state == stages.Aborted && !began:
			u.state = stages.NotStarted
		}
	}
	return u
}

// step returns the status of a step; false if the run has not reached it.
func (w *walk) step(s *Step) (StepStatus, bool) {
	u, ok := w.unit(s.Name)
	if !ok {
		if done, ok := w.before[s.Name]; ok {
			return done, true
		}
		return w.new(s, PhaseSkipped, ReasonSkip, ""), w.passed(s)
	}
	phase, reason, message := w.phase(s, &u)
	if phase == "" {
		return StepStatus{}, false
	}
	out := w.new(s, phase, reason, message)
	if u.first != 0 {
		out.FirstExecuteTime, out.LastExecuteTime = moment(u.first), moment(cmp.Or(u.last, w.Run.Now))
	}
	return out, true
}

// passed reports whether the run is beyond a step that is not in its plan: all steps before it
// have ended.
func (w *walk) passed(s *Step) bool {
	if w.Run.IsEnded() {
		return true
	}
	for i := range w.Release.Workflow.Steps {
		before := &w.Release.Workflow.Steps[i]
		if before.Name == s.Name || isStep(before.Steps, s.Name) {
			return true
		}
		if u, ok := w.unit(before.Name); ok && u.last == 0 {
			return false
		}
	}
	return true
}

// phase returns the phase of a unit in KubeVela's terms; "" before the run has reached it.
func (w *walk) phase(s *Step, u *unit) (phase, reason, message string) {
	switch {
	case u.isBroken():
		return w.failed(u)
	case u.state == stages.Skipped && !u.skipGates && u.clusters == 0 && !u.planned.Pause:
		return Succeeded, "", "" // nothing was selected or required
	case u.state == stages.Skipped:
		return PhaseSkipped, ReasonSkip, ""
	case u.state == stages.Completed:
		return Succeeded, "", ""
	case w.Run.IsEnded():
		return PhaseSkipped, ReasonSkip, ""
	case u.state == stages.NotStarted && u.group < 0, w.Run.Form(runstate.Key{}).Stages[u.stage].Reached == 0:
		return "", "", ""
	case w.gate(u) != nil:
		return Suspending, ReasonSuspend, s.waits()
	case w.halted():
		return Suspending, ReasonSuspend, ""
	case u.state == stages.NotStarted:
		return PhasePending, "", ""
	case u.group >= 0 && w.Run.Form(runstate.Key{}).Stages[u.stage].Groups[u.group].Reached == 0 && len(w.Plan.Stages[u.stage].Groups[u.group].After) > 0:
		return PhasePending, "", ""
	default:
		return w.running(u)
	}
}

// waits returns the message of a step that suspends the workflow, or "" for other steps.
func (s *Step) waits() string {
	switch {
	case s.Type == DeployStep && s.Deploy.Manual:
		return `Waiting approval to the deploy step "` + s.Name + `"`
	case s.Type == SuspendStep:
		return s.Suspend.Message
	default:
		return ""
	}
}

// halted reports whether the workflow was suspended on command.
func (w *walk) halted() bool {
	return w.Run.State == stages.Stopped || w.Run.State == stages.Stopping && w.Run.Ending == stages.Stopped
}

func (u *unit) isBroken() bool {
	return u.state == stages.Failed || u.state == stages.Aborted || u.clock.TimedOut
}

// failed returns the reason of a failed step.
func (w *walk) failed(u *unit) (phase, reason, message string) {
	message = w.Run.Reason
	if c := w.Run.Form(runstate.Key{}).Closing; c != nil {
		message = c.Reason
	}
	rejected := slices.ContainsFunc(u.gates, func(g runstate.Gate) bool { return g.State == stages.Failed })
	switch {
	case u.clock.TimedOut:
		return PhaseFailed, ReasonTimeout, message
	case u.state == stages.Aborted, w.Run.State == stages.Superseded, rejected, w.isAborted():
		return PhaseFailed, ReasonTerminate, message
	default:
		return PhaseFailed, ReasonFailedAfter, message
	}
}

func (w *walk) isAborted() bool {
	c := w.Run.Form(runstate.Key{}).Closing
	return w.Run.State == stages.Aborted && c == nil || c != nil && c.State == stages.Aborted
}

// running returns the phase of a running step. While a failed cluster waits for its next attempt,
// the phase is failed.
func (w *walk) running(u *unit) (phase, reason, message string) {
	phase = PhaseRunning
	for i := range w.Run.Form(runstate.Key{}).InFlight {
		f := &w.Run.Form(runstate.Key{}).InFlight[i]
		if f.Attempt == 0 {
			continue
		}
		if stage, group := w.Plan.StageOf(f.Pos); stage != u.stage || u.group >= 0 && group != u.group {
			continue
		}
		if f.Phase == stages.BackingOff {
			return PhaseFailed, ReasonExecute, f.Message
		}
		if f.Phase == stages.Settling || f.Message != "" {
			reason, message = ReasonWait, f.Message
		}
	}
	return phase, reason, message
}

// gate returns the gate that suspends a unit, nil if there is none.
func (w *walk) gate(u *unit) *runstate.Gate {
	for i := range u.gates {
		if g := &u.gates[i]; g.State == stages.Pending && g.When == approval.Before {
			return g
		}
	}
	return nil
}
