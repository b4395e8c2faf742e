package step

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func eachGroup(do func(*stages.PlannedGroup)) func(*stages.Plan) {
	return eachStage(func(st *stages.PlannedStage) {
		for i := range st.Groups {
			do(&st.Groups[i])
		}
	})
}

func eachStage(do func(*stages.PlannedStage)) func(*stages.Plan) {
	return func(p *stages.Plan) {
		for i := range p.Stages {
			do(&p.Stages[i])
		}
	}
}

func capMutants() []mutant {
	return []mutant{
		onPlan("starts one more than the stage's cap", "2", eachStage(func(st *stages.PlannedStage) {
			if len(st.Groups) > 1 && st.MaxConcurrency > 0 {
				st.MaxConcurrency++
			}
		})),
		onPlan("starts one more than the group's cap", "2", eachStage(func(st *stages.PlannedStage) {
			for i := range st.Groups {
				st.Groups[i].MaxConcurrency++
			}
		})),
		onPlan("never fills its last slot", "6", eachStage(func(st *stages.PlannedStage) {
			if st.MaxConcurrency > 1 {
				st.MaxConcurrency--
			}
		})),
		onPlan("has no budget for the stage", "5", eachStage(func(st *stages.PlannedStage) { st.MaxFailures = -1 })),
		onPlan("has no budget for groups", "5", eachStage(func(st *stages.PlannedStage) {
			for i := range st.Groups {
				st.Groups[i].MaxFailures = -1
			}
		})),
		onPlan("counts the budget one too high", "5", eachStage(func(st *stages.PlannedStage) {
			if st.MaxFailures >= 0 {
				st.MaxFailures++
			}
		})),
	}
}

func gateMutants() []mutant {
	return []mutant{
		onPlan("passes every gate", "gates", eachStage(func(st *stages.PlannedStage) { st.Gates = nil })),
		onPlan("waits half as long as asked", "time", eachStage(func(st *stages.PlannedStage) {
			st.Gates = slices.Clone(st.Gates)
			for i := range st.Gates {
				st.Gates[i].Wait.Duration /= 2
			}
		})),
		onPlan("takes one approval for two", "gates", eachStage(func(st *stages.PlannedStage) {
			st.Gates = slices.Clone(st.Gates)
			for i := range st.Gates {
				st.Gates[i].Policy.Quorums = nil
			}
		})),
		onPlan("lets the starter approve", "gates", eachStage(func(st *stages.PlannedStage) {
			st.Gates = slices.Clone(st.Gates)
			for i := range st.Gates {
				st.Gates[i].Policy.ForbidStarter = false
			}
		})),
	}
}

func groupMutants() []mutant {
	eachGate := func(do func(*stages.PlannedGate)) func(*stages.Plan) {
		return eachStage(func(st *stages.PlannedStage) {
			st.Gates = slices.Clone(st.Gates)
			for i := range st.Gates {
				do(&st.Gates[i])
			}
			for i := range st.Groups {
				st.Groups[i].Gates = slices.Clone(st.Groups[i].Gates)
				for j := range st.Groups[i].Gates {
					do(&st.Groups[i].Gates[j])
				}
			}
		})
	}
	// without removes the gates of groups that are on one side.
	without := func(when approval.When) func(*stages.Plan) {
		return eachStage(func(st *stages.PlannedStage) {
			for i := range st.Groups {
				gates := slices.Clone(st.Groups[i].Gates)
				st.Groups[i].Gates = slices.DeleteFunc(gates, func(g stages.PlannedGate) bool { return g.When == when })
			}
		})
	}
	return []mutant{
		onPlan("starts groups before their gates", "gates", without(approval.Before)),
		onPlan("ends groups without their gates", "gates", without(approval.After)),
		onPlan("holds groups that have no gates", "6", eachStage(func(st *stages.PlannedStage) {
			for i := range st.Groups {
				if g := &st.Groups[i]; g.Name != "" && len(g.Gates) == 0 {
					g.Gates = []stages.PlannedGate{{When: approval.Before, Type: stages.Approval}}
				}
			}
		})),
		onPlan("starts a minute later than is scheduled", "time", eachGate(func(g *stages.PlannedGate) {
			if g.Schedule != nil {
				g.Schedule = &stages.Schedule{Day: g.Schedule.Day, Time: "03:33"}
			}
		})),
		onInput("ends a scheduled start without a command", "6", func(p *stages.Plan, r Run, in *stages.Input) {
			s := &draft{p: p, r: r}
			for h := range gatesOf(s).each {
				name := p.Stages[r.form.Stage].Name
				if h.group != "" {
					name += "/" + h.group
				}
				if _, g := (commands{control: control{s}}).scheduled(name); g != nil {
					in.Commands = append(in.Commands, stages.Command{ID: "mutant", Verb: stages.CompleteGate, Name: name})
				}
			}
		}),
		onOutput("waits for a schedule again at every step", "time", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for i := range out.Run.form.Stages {
				for j := range out.Run.form.Stages[i].Gates {
					if g := &out.Run.form.Stages[i].Gates[j]; g.Type == stages.ScheduledStart && g.State == stages.Pending {
						g.Until = out.Run.Now.Add(24 * time.Hour)
					}
				}
			}
		}),
		onOutput("forgets that a gate of a group was passed", "4", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for i := range out.Run.form.Stages {
				for j := range out.Run.form.Stages[i].Groups {
					gates := slices.Clone(out.Run.form.Stages[i].Groups[j].Gates)
					for k := range gates {
						gates[k].State = stages.Pending
					}
					out.Run.form.Stages[i].Groups[j].Gates = gates
				}
			}
		}),
	}
}
