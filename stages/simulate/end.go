package simulate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Reason is why a simulation ended.
type Reason string

// The reasons for the end of a simulation.
const (
	// Ended: the run has ended, and no order is left.
	Ended Reason = "Ended"
	// Stuck: the run has not ended, and nothing can happen any more.
	Stuck Reason = "Stuck"
	// Cut: the run continues after Environment.Until.
	Cut Reason = "Cut"
)

// End is the result of a simulation.
type End struct {
	// At is the end of the simulation: the time of its last event, or Environment.Until.
	At     metav1.Duration `json:"at"`
	Reason Reason          `json:"reason"`
	// Waiting are the reasons for waiting of a run that has not ended.
	Waiting []stages.Awaited `json:"waiting,omitempty"`
	// State is the run's state by [step.Run.Outline], and Message the reason if it is not obvious.
	State   stages.State `json:"state"`
	Message string       `json:"message,omitempty"`
	// Peak is the greatest number of clusters in flight.
	Peak int `json:"peak"`
	// Stages and Clusters are in the order of the plan.
	Stages   []StageEnd   `json:"stages"`
	Clusters []ClusterEnd `json:"clusters"`
	// Gates are the gates that were reached, by stage: first the gates before and after the stage,
	// then the gates of its groups.
	Gates []GateEnd `json:"gates,omitempty"`
	// Run is the state of the run.
	Run step.Run `json:"run"`
	// Back is the result of the rollback of the run; nil if none was requested.
	Back *Back `json:"back,omitempty"`
}

// StageEnd is the result of a stage.
type StageEnd struct {
	Name  string       `json:"name"`
	State stages.State `json:"state"`
	// Started is when its first cluster could start, Ended when it was done; nil if that did not
	// happen.
	Started *metav1.Duration `json:"started,omitempty"`
	Ended   *metav1.Duration `json:"ended,omitempty"`
	// Peak is the greatest number of its clusters in flight, Limit the allowed number; 0 means no
	// limit of its own.
	Peak  int `json:"peak"`
	Limit int `json:"limit,omitempty"`
	// Groups is empty for a stage without groups.
	Groups []GroupEnd `json:"groups,omitempty"`
}

// GroupEnd is the result of a group, as in [StageEnd].
type GroupEnd struct {
	Name  string       `json:"name"`
	State stages.State `json:"state"`
	Peak  int          `json:"peak"`
	Limit int          `json:"limit,omitempty"`
}

// ClusterEnd is the result of a cluster of the plan.
type ClusterEnd struct {
	Name  string       `json:"name"`
	Stage string       `json:"stage"`
	Group string       `json:"group,omitempty"`
	State stages.State `json:"state"`
}

// GateEnd is the result of a gate.
type GateEnd struct {
	// Group is empty for a gate of the whole stage.
	Stage string          `json:"stage"`
	Group string          `json:"group,omitempty"`
	When  approval.When   `json:"when"`
	Type  stages.TaskType `json:"type"`
	State stages.State    `json:"state"`
	// Opened is when the gate began to delay the run. Held is how long it delayed the run, until it
	// passed or until the end of the simulation.
	Opened metav1.Duration `json:"opened"`
	Held   metav1.Duration `json:"held"`
	// By is the identity that decided it; empty for none.
	By string `json:"by,omitempty"`
	// Decided reports whether no other gate of the same side delayed the run longer, so that the run
	// continued when this gate passed.
	Decided bool `json:"decided,omitempty"`
}

func (s *simulation) end(why Reason) End {
	e := End{At: metav1.Duration{Duration: s.last}, Reason: why, Message: s.run.Reason, Run: s.run, Peak: s.peaks.run, Back: s.rollback.result}
	if why == Cut {
		e.At.Duration = s.now
	}
	if !s.run.IsEnded() {
		e.Waiting = step.Waiting(s.p, &s.run)
	}
	s.outline(&e)
	for pos, state := range s.run.States(s.p) {
		stage, group := s.p.StageOf(pos)
		st := &s.p.Stages[stage]
		e.Clusters = append(e.Clusters, ClusterEnd{s.p.Clusters[pos].Name, st.Name, st.Groups[group].Name, state})
	}
	for i := range s.run.Form(runstate.Key{}).Stages {
		e.Gates = append(e.Gates, s.gatesOf(i, e.At.Duration)...)
	}
	return e
}

// outline fills in the states of the run, its stages and its groups.
func (s *simulation) outline(e *End) {
	seen := s.run.Outline(s.p)
	e.State = seen.Run
	for i := range seen.Stages {
		of, st, run := &seen.Stages[i], &s.p.Stages[i], &s.run.Form(runstate.Key{}).Stages[i]
		out := StageEnd{
			Name: of.Name, State: of.State, Peak: s.peaks.stages[i], Limit: st.MaxConcurrency,
			Started: s.sinceOrNil(run.Started), Ended: s.sinceOrNil(run.Ended),
		}
		for g := 0; g < len(of.Groups) && of.Groups[g].Name != ""; g++ {
			out.Groups = append(out.Groups, GroupEnd{
				Name: of.Groups[g].Name, State: of.Groups[g].State, Peak: s.peaks.groups[i][g], Limit: st.Groups[g].MaxConcurrency,
			})
		}
		e.Stages = append(e.Stages, out)
	}
}

// gatesOf returns the results of the gates of a stage and its groups.
func (s *simulation) gatesOf(stage int, end time.Duration) []GateEnd {
	st, run := &s.p.Stages[stage], &s.run.Form(runstate.Key{}).Stages[stage]
	out := s.gatesEnd(st.Name, "", run.Gates, end)
	for g := range run.Groups {
		out = append(out, s.gatesEnd(st.Name, st.Groups[g].Name, run.Groups[g].Gates, end)...)
	}
	return out
}

func (s *simulation) gatesEnd(stage, group string, gates []runstate.Gate, end time.Duration) []GateEnd {
	var out []GateEnd
	longest := map[approval.When]time.Duration{}
	for _, g := range gates {
		e := GateEnd{Stage: stage, Group: group, When: g.When, Type: g.Type, State: g.State, Opened: s.since(g.Opened), By: g.By}
		e.Held.Duration = end - e.Opened.Duration
		if g.Ended != 0 {
			e.Held.Duration = s.since(g.Ended).Duration - e.Opened.Duration
		}
		if n := len(g.Decisions); n > 0 {
			e.By = g.Decisions[n-1].By.Name
		}
		longest[g.When] = max(longest[g.When], e.Held.Duration)
		out = append(out, e)
	}
	for i := range out {
		out[i].Decided = out[i].Held.Duration > 0 && out[i].Held.Duration == longest[out[i].When]
	}
	return out
}

// peaks are the greatest numbers of clusters in flight.
type peaks struct {
	run    int
	stages []int
	groups [][]int
	// now is a buffer for counting.
	now []int
}

func newPeaks(p *stages.Plan) peaks {
	k := peaks{stages: make([]int, len(p.Stages)), groups: make([][]int, len(p.Stages))}
	for i := range p.Stages {
		k.groups[i] = make([]int, len(p.Stages[i].Groups))
	}
	return k
}

// count counts the clusters in flight. All of them are in the run's stage.
func (k *peaks) count(p *stages.Plan, r *step.Run) {
	if r.Form(runstate.Key{}).Stage >= len(k.stages) {
		return
	}
	groups := k.groups[r.Form(runstate.Key{}).Stage]
	k.now = append(k.now[:0], make([]int, len(groups))...)
	all := 0
	for i := range r.Form(runstate.Key{}).InFlight {
		if f := &r.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 {
			_, g := p.StageOf(f.Pos)
			k.now[g]++
			all++
		}
	}
	for g, n := range k.now {
		groups[g] = max(groups[g], n)
	}
	k.stages[r.Form(runstate.Key{}).Stage] = max(k.stages[r.Form(runstate.Key{}).Stage], all)
	k.run = max(k.run, all)
}
