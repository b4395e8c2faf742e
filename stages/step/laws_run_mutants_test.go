package step

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

func proofMutants() []mutant {
	eachReport := func(do func(*stages.Plan, *Run, *stages.Observation)) func(*stages.Plan, Run, *stages.Input) {
		return func(p *stages.Plan, r Run, in *stages.Input) {
			for i := range in.Observations {
				do(p, &r, &in.Observations[i])
			}
		}
	}
	return []mutant{
		onPlan("does not soak", "3", func(p *stages.Plan) { p.Strategy.MinHealthy.Duration = 0 }),
		onPlan("has no deadline", "6", func(p *stages.Plan) { p.Strategy.ProgressDeadline.Duration = 0 }),
		onPlan("applies the wrong revision", "3", func(p *stages.Plan) {
			p.Clusters = slices.Clone(p.Clusters)
			for i := range p.Clusters {
				p.Clusters[i].Revision = min(0, p.Clusters[i].Revision)
			}
		}),
		onInput("completes on a stale revision", "3", eachReport(func(p *stages.Plan, _ *Run, o *stages.Observation) {
			if pos, ok := p.Position(o.Cluster); ok && p.Clusters[pos].Revision >= 0 {
				o.Revision = p.Revisions[p.Clusters[pos].Revision]
			}
		})),
		onInput("completes on a report older than the apply", "3", eachReport(func(_ *stages.Plan, _ *Run, o *stages.Observation) { o.Current = true })),
		onInput("completes what is not healthy", "3", eachReport(func(_ *stages.Plan, _ *Run, o *stages.Observation) { o.Healthy = true })),
		onInput("completes before the apply", "3", eachReport(func(_ *stages.Plan, _ *Run, o *stages.Observation) { o.Applied = true })),
		onInput("takes a report of another attempt", "3", eachReport(func(p *stages.Plan, r *Run, o *stages.Observation) {
			pos, _ := p.Position(o.Cluster)
			if f := r.form.At(pos); f != nil {
				o.Attempt = f.Attempt
			}
		})),
		onInput("takes what it has sent for unchanged", "3", eachReport(func(_ *stages.Plan, _ *Run, o *stages.Observation) {
			o.Unchanged, o.Sent = o.Healthy, o.Sent && !o.Healthy
		})),
		onInput("gives the slot of a cluster up that it lost", "counts", eachReport(func(_ *stages.Plan, _ *Run, o *stages.Observation) { o.Sent = o.Applied })),
	}
}

// runMutants change the input run.
func runMutants() []mutant {
	onRun := func(name, law string, change func(*stages.Plan, *Run)) mutant {
		return mutant{name: name, law: law, make: func() machine {
			return func(p *stages.Plan, r Run, in stages.Input) Ready {
				r = reloaded(r)
				change(p, &r)
				return step(p, r, in)
			}
		}}
	}
	return []mutant{
		onRun("forgets the clusters that were skipped", "5", func(_ *stages.Plan, r *Run) { r.form.Unsuccessful = nil }),
		onRun("forgets the failures", "5", func(_ *stages.Plan, r *Run) {
			if r.form.Stage < len(r.form.Stages) {
				for i := range r.form.Stages[r.form.Stage].Groups {
					r.form.Stages[r.form.Stage].Groups[i].Failed = 0
				}
			}
		}),
		onRun("forgets that clusters may have been changed", "counts", func(_ *stages.Plan, r *Run) {
			for i := range r.form.InFlight {
				r.form.InFlight[i].Sent = false
			}
		}),
		onRun("forgets it of clusters that were parked", "counts", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Waiting {
				r.form.Waiting[i].Sent = false
			}
		}),
		onRun("forgets how long clusters were in flight", "6", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Waiting {
				r.form.Waiting[i].Spent = 0
			}
		}),
		onRun("tries to reach clusters too early", "4", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Waiting {
				r.form.Waiting[i].NotYet = min(1, r.form.Waiting[i].NotYet)
			}
		}),
		onRun("forgets the commands it has seen", "commands", func(_ *stages.Plan, r *Run) { r.form.Seen = nil }),
		onRun("starts a stage over", "5", func(_ *stages.Plan, r *Run) {
			if r.form.Stage < len(r.form.Stages) {
				for i := range r.form.Stages[r.form.Stage].Groups {
					r.form.Stages[r.form.Stage].Groups[i].Next = 0
				}
			}
		}),
		onRun("goes back with the clock", "time", func(_ *stages.Plan, r *Run) { r.Now = 0 }),
		onRun("opens a gate again that was passed", "4", func(_ *stages.Plan, r *Run) {
			if r.form.Stage < len(r.form.Stages) {
				st := &r.form.Stages[r.form.Stage]
				st.Gates = slices.DeleteFunc(st.Gates, func(g runstate.Gate) bool { return g.State == stages.Completed })
			}
		}),
		{name: "begins a wait again after a stop", law: "time", make: func() machine {
			return func(p *stages.Plan, r Run, in stages.Input) Ready {
				r = reloaded(r)
				asked := slices.ContainsFunc(in.Commands, func(c stages.Command) bool { return c.Verb == stages.Start })
				if r.State == stages.Stopped && asked && r.form.Stage < len(r.form.Stages) {
					st := &r.form.Stages[r.form.Stage]
					st.Gates, st.Done = slices.DeleteFunc(st.Gates, func(g runstate.Gate) bool { return g.When == approval.After }), 0
				}
				return step(p, r, in)
			}
		}},
		onRun("comes back from the dead", "4", func(_ *stages.Plan, r *Run) {
			if r.IsEnded() {
				r.State = stages.Running
			}
		}),
	}
}

// memoryMutants keep state outside of the run.
func memoryMutants() []mutant {
	return []mutant{
		{name: "keeps the run in memory", law: "1", make: func() machine {
			var last *Run
			return func(p *stages.Plan, r Run, in stages.Input) Ready {
				if last != nil {
					r = *last
				}
				out := step(p, r, in)
				last = &out.Run
				return out
			}
		}},
		{name: "changes its argument", law: "1", make: func() machine {
			return func(p *stages.Plan, r Run, in stages.Input) Ready {
				out := step(p, r, in)
				for i := range r.form.InFlight {
					r.form.InFlight[i].Sent = true
				}
				return out
			}
		}},
	}
}
