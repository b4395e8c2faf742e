package laws

import (
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// StateProblems returns the laws that a saved run breaks, by itself or as a successor of the
// state before, which may be nil.
func StateProblems(p *stages.Plan, before, now *step.Run) (out []string) {
	out = append(out, capProblems(p, now)...)
	out = append(out, gateProblems(p, now)...)
	out = append(out, waitProblems(p, now)...)
	if before != nil {
		out = append(out, progressProblems(p, before, now)...)
	}
	for i := range out {
		out[i] = "run " + now.Name + ": " + out[i]
	}
	return out
}

// capProblems counts the clusters in flight.
func capProblems(p *stages.Plan, r *step.Run) (out []string) {
	inStage, inGroup := map[int]int{}, map[[2]int]int{}
	for _, f := range r.Form(runstate.Key{}).InFlight {
		if f.Attempt == 0 {
			continue
		}
		stage, group := p.StageOf(f.Pos)
		inStage[stage]++
		inGroup[[2]int{stage, group}]++
		if stage != r.Form(runstate.Key{}).Stage {
			out = append(out, fmt.Sprintf("cluster %s is in flight while the run is in stage %d", p.Clusters[f.Pos].Name, r.Form(runstate.Key{}).Stage))
		}
	}
	for stage, n := range inStage {
		if most := p.Stages[stage].MaxConcurrency; most > 0 && n > most {
			out = append(out, fmt.Sprintf("%d clusters of stage %s are in flight, at most %d may be", n, p.Stages[stage].Name, most))
		}
	}
	for at, n := range inGroup {
		if most := p.Stages[at[0]].Groups[at[1]].MaxConcurrency; most > 0 && n > most {
			out = append(out, fmt.Sprintf("%d clusters of group %d of stage %s are in flight, at most %d may be", n, at[1], p.Stages[at[0]].Name, most))
		}
	}
	return out
}

// gateProblems checks the decisions at each gate against its policy.
func gateProblems(p *stages.Plan, r *step.Run) (out []string) {
	for i := range r.Form(runstate.Key{}).Stages {
		for _, g := range r.Form(runstate.Key{}).Stages[i].Gates {
			if g.Type == stages.Approval {
				out = append(out, decisionProblems(p, r, i, g)...)
			}
		}
		out = append(out, passProblems(p, r, i)...)
	}
	return out
}

// passProblems checks that a stage passed every gate before it continued.
func passProblems(p *stages.Plan, r *step.Run, stage int) (out []string) {
	st := &r.Form(runstate.Key{}).Stages[stage]
	if st.SkipGates || st.State == stages.Skipped {
		return nil
	}
	for _, planned := range p.Stages[stage].Gates {
		on := st.Started != 0
		if planned.When == approval.After {
			on = st.Ended != 0 && (!st.SkipWait || planned.Type != stages.TimedWait)
		}
		passed := slices.ContainsFunc(st.Gates, func(g runstate.Gate) bool {
			return g.When == planned.When && g.Type == planned.Type && (g.State == stages.Completed || g.State == stages.Skipped)
		})
		if on && !passed {
			out = append(out, fmt.Sprintf("stage %s went on past its %s %s", p.Stages[stage].Name, planned.Type, planned.When))
		}
	}
	return out
}

func decisionProblems(p *stages.Plan, r *step.Run, stage int, g runstate.Gate) (out []string) {
	name := p.Stages[stage].Name
	var deciders []string
	approvals := 0
	for _, d := range g.Decisions {
		b := approval.Binding{RunUID: r.UID, Stage: name, When: g.When, Attempt: g.Attempt, Plan: p.Digest}
		if d.Binding != b {
			out = append(out, fmt.Sprintf("the decision of %s at stage %s is bound to %+v, want %+v", d.By.Name, name, d.Binding, b))
		}
		if slices.Contains(deciders, d.By.Name) {
			out = append(out, fmt.Sprintf("%s decided twice at stage %s", d.By.Name, name))
		}
		deciders = append(deciders, d.By.Name)
		if d.Verdict == approval.Approve {
			approvals++
		}
	}
	policy := policyOf(p, stage, g.When)
	if policy.ForbidStarter && slices.Contains(deciders, r.Starter.Name) {
		out = append(out, fmt.Sprintf("the starter %s decided at stage %s", r.Starter.Name, name))
	}
	if need := most(policy); g.State == stages.Completed && approvals < need {
		out = append(out, fmt.Sprintf("stage %s was let pass by %d approvals, it takes %d", name, approvals, need))
	}
	return out
}

func policyOf(p *stages.Plan, stage int, when approval.When) approval.Policy {
	for _, g := range p.Stages[stage].Gates {
		if g.Type == stages.Approval && g.When == when {
			return g.Policy
		}
	}
	return approval.Policy{}
}

// most returns how many approvals a policy takes at least.
func most(p approval.Policy) int {
	n := 1
	for _, q := range p.Quorums {
		n = max(n, q.Count)
	}
	return n
}

// waitProblems checks that an active run and its clusters state the reasons of their waits.
func waitProblems(p *stages.Plan, r *step.Run) (out []string) {
	if r.IsEnded() {
		return nil
	}
	if len(step.Waiting(p, r)) == 0 {
		out = append(out, fmt.Sprintf("it is %s and waits for nothing", r.State))
	}
	for pos := range p.Clusters {
		name := p.Clusters[pos].Name
		e, err := step.Explain(p, r, name)
		switch {
		case err != nil:
			out = append(out, err.Error())
		case e.Reason == "":
			out = append(out, fmt.Sprintf("nothing explains why cluster %s is %s", name, e.State))
		case !endState(e.State) && len(e.Waiting) == 0:
			out = append(out, fmt.Sprintf("cluster %s is %s and waits for nothing: %s", name, e.State, e.Reason))
		}
	}
	return out
}

func endState(s stages.State) bool {
	return s == stages.Completed || s == stages.Failed || s == stages.Skipped
}

// progressProblems checks that a run undoes no progress: its time never goes back, an ended run
// stays ended, and a passed gate stays passed.
func progressProblems(p *stages.Plan, before, now *step.Run) (out []string) {
	if now.Now < before.Now {
		out = append(out, fmt.Sprintf("its time went back from %v to %v", before.Now.Time(), now.Now.Time()))
	}
	if before.Final(p) && now.State != before.State {
		out = append(out, fmt.Sprintf("it was %s and is %s", before.State, now.State))
	}
	for i := range min(len(before.Form(runstate.Key{}).Stages), len(now.Form(runstate.Key{}).Stages)) {
		for _, g := range before.Form(runstate.Key{}).Stages[i].Gates {
			if g.State == stages.Completed && !keeps(now.Form(runstate.Key{}).Stages[i].Gates, g) {
				out = append(out, fmt.Sprintf("the %s gate %s stage %s was passed and is no more", g.Type, g.When, p.Stages[i].Name))
			}
		}
	}
	return out
}

// keeps reports whether a gate which was passed is among the gates, with everything
// that was decided at it.
func keeps(gates []runstate.Gate, was runstate.Gate) bool {
	return slices.ContainsFunc(gates, func(g runstate.Gate) bool {
		return g.When == was.When && g.Type == was.Type && g.State == was.State && g.Ended == was.Ended && len(g.Decisions) == len(was.Decisions)
	})
}
