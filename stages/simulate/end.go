package simulate

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Reason says why a simulation ended.
type Reason string

// Why a simulation ends.
const (
	// Ended: the run has ended, and no order is left.
	Ended Reason = "Ended"
	// Stuck: the run has not ended, and nothing can happen any more.
	Stuck Reason = "Stuck"
	// Cut: the run goes on after Environment.Until.
	Cut Reason = "Cut"
)

// End is what a simulation came to.
type End struct {
	// At is when it ended: the time of its last event, or Environment.Until.
	At     time.Duration `json:"at"`
	Reason Reason        `json:"reason"`
	// Waiting is what the run waits for, where it has not ended.
	Waiting []stages.Awaited `json:"waiting,omitempty"`
	// State is the run's, as [stages.Derive] says, and Message why it is that,
	// where that is not obvious.
	State   stages.State `json:"state"`
	Message string       `json:"message,omitempty"`
	// Peak is how many clusters were in flight at most.
	Peak int `json:"peak"`
	// Stages and Clusters are in the order of the plan.
	Stages   []StageEnd   `json:"stages"`
	Clusters []ClusterEnd `json:"clusters"`
	// Gates are those that were reached, by stage; in a stage those before and
	// those after it, then those of its groups.
	Gates []GateEnd `json:"gates,omitempty"`
	// Run is the run itself.
	Run stages.Run `json:"run"`
	// Back is the result of the rollback of the run; nil where none was requested.
	Back *Back `json:"back,omitempty"`
}

// StageEnd is what a stage came to.
type StageEnd struct {
	Name  string       `json:"name"`
	State stages.State `json:"state"`
	// Started is when its first cluster could start, Ended when it was done; -1
	// where that did not happen.
	Started time.Duration `json:"started"`
	Ended   time.Duration `json:"ended"`
	// Peak is how many of its clusters were in flight at most, Limit how many
	// might have been; 0 means no limit of its own.
	Peak  int `json:"peak"`
	Limit int `json:"limit,omitempty"`
	// Groups is empty for a stage without groups.
	Groups []GroupEnd `json:"groups,omitempty"`
}

// GroupEnd is what a group came to, as in [StageEnd].
type GroupEnd struct {
	Name  string       `json:"name"`
	State stages.State `json:"state"`
	Peak  int          `json:"peak"`
	Limit int          `json:"limit,omitempty"`
}

// ClusterEnd is what a cluster of the plan came to.
type ClusterEnd struct {
	Name  string       `json:"name"`
	Stage string       `json:"stage"`
	Group string       `json:"group,omitempty"`
	State stages.State `json:"state"`
}

// GateEnd is what a gate came to.
type GateEnd struct {
	// Group is empty for a gate of the whole stage.
	Stage string          `json:"stage"`
	Group string          `json:"group,omitempty"`
	When  approval.When   `json:"when"`
	Type  stages.TaskType `json:"type"`
	State stages.State    `json:"state"`
	// Opened is when it began to hold the run, Held for how long it did, until it
	// passed or until the end.
	Opened time.Duration `json:"opened"`
	Held   time.Duration `json:"held"`
	// By is the identity that decided it; empty for none.
	By string `json:"by,omitempty"`
	// Decided reports whether no other gate of the same side held the run longer: the
	// run went on when this one passed.
	Decided bool `json:"decided,omitempty"`
}

func (s *simulation) end(why Reason) End {
	e := End{At: s.last, Reason: why, Message: s.run.Reason, Run: s.run, Peak: s.peaks.run, Back: s.back}
	if why == Cut {
		e.At = s.now
	}
	if !s.run.IsEnded() {
		e.Waiting = step.Waiting(s.p, &s.run)
	}
	s.outline(&e)
	for pos, state := range stages.States(s.p, &s.run) {
		stage, group := s.p.StageOf(pos)
		st := &s.p.Stages[stage]
		e.Clusters = append(e.Clusters, ClusterEnd{s.p.Clusters[pos].Name, st.Name, st.Groups[group].Name, state})
	}
	for i := range s.run.Stages {
		e.Gates = append(e.Gates, s.gatesOf(i, e.At)...)
	}
	return e
}

// outline fills in the states of the run, its stages and its groups.
func (s *simulation) outline(e *End) {
	seen := stages.Derive(s.p, &s.run)
	e.State = seen.Run
	for i := range seen.Stages {
		of, st, run := &seen.Stages[i], &s.p.Stages[i], &s.run.Stages[i]
		out := StageEnd{
			Name: of.Name, State: of.State, Peak: s.peaks.stages[i], Limit: st.MaxConcurrency,
			Started: s.since(run.Started), Ended: s.since(run.Ended),
		}
		for g := 0; g < len(of.Groups) && of.Groups[g].Name != ""; g++ {
			out.Groups = append(out.Groups, GroupEnd{
				Name: of.Groups[g].Name, State: of.Groups[g].State, Peak: s.peaks.groups[i][g], Limit: st.Groups[g].MaxConcurrency,
			})
		}
		e.Stages = append(e.Stages, out)
	}
}

// since returns an instant as an offset, and -1 for none.
func (s *simulation) since(i stages.Instant) time.Duration {
	if i == 0 {
		return -1
	}
	return i.Time().Sub(s.w.Start)
}

// gatesOf returns what the gates of a stage and its groups came to.
func (s *simulation) gatesOf(stage int, end time.Duration) []GateEnd {
	st, run := &s.p.Stages[stage], &s.run.Stages[stage]
	out := s.gatesEnd(st.Name, "", run.Gates, end)
	for g := range run.Groups {
		out = append(out, s.gatesEnd(st.Name, st.Groups[g].Name, run.Groups[g].Gates, end)...)
	}
	return out
}

func (s *simulation) gatesEnd(stage, group string, gates []stages.Gate, end time.Duration) []GateEnd {
	var out []GateEnd
	longest := map[approval.When]time.Duration{}
	for _, g := range gates {
		e := GateEnd{Stage: stage, Group: group, When: g.When, Type: g.Type, State: g.State, Opened: s.since(g.Opened), By: g.By}
		e.Held = end - e.Opened
		if g.Ended != 0 {
			e.Held = s.since(g.Ended) - e.Opened
		}
		if n := len(g.Decisions); n > 0 {
			e.By = g.Decisions[n-1].By.Name
		}
		longest[g.When] = max(longest[g.When], e.Held)
		out = append(out, e)
	}
	for i := range out {
		out[i].Decided = out[i].Held > 0 && out[i].Held == longest[out[i].When]
	}
	return out
}

// peaks are how many clusters were in flight at most.
type peaks struct {
	run    int
	stages []int
	groups [][]int
	// now is for counting.
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
func (k *peaks) count(p *stages.Plan, r *stages.Run) {
	if r.Stage >= len(k.stages) {
		return
	}
	groups := k.groups[r.Stage]
	k.now = append(k.now[:0], make([]int, len(groups))...)
	all := 0
	for i := range r.InFlight {
		if f := &r.InFlight[i]; f.Attempt != 0 {
			_, g := p.StageOf(f.Pos)
			k.now[g]++
			all++
		}
	}
	for g, n := range k.now {
		groups[g] = max(groups[g], n)
	}
	k.stages[r.Stage] = max(k.stages[r.Stage], all)
	k.run = max(k.run, all)
}
