package step

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func proofMutants() []mutant {
	eachReport := func(do func(*stages.Plan, *stages.Run, *stages.Observation)) func(*stages.Plan, stages.Run, *stages.Input) {
		return func(p *stages.Plan, r stages.Run, in *stages.Input) {
			for i := range in.Observations {
				do(p, &r, &in.Observations[i])
			}
		}
	}
	return []mutant{
		onPlan("does not soak", "3", func(p *stages.Plan) { p.Strategy.MinHealthy = 0 }),
		onPlan("has no deadline", "6", func(p *stages.Plan) { p.Strategy.ProgressDeadline = 0 }),
		onPlan("applies the wrong revision", "3", func(p *stages.Plan) {
			p.Clusters = slices.Clone(p.Clusters)
			for i := range p.Clusters {
				p.Clusters[i].Revision = min(0, p.Clusters[i].Revision)
			}
		}),
		onInput("completes on a stale revision", "3", eachReport(func(p *stages.Plan, _ *stages.Run, o *stages.Observation) {
			if pos, ok := p.Position(o.Cluster); ok && p.Clusters[pos].Revision >= 0 {
				o.Revision = p.Revisions[p.Clusters[pos].Revision]
			}
		})),
		onInput("completes on a report older than the apply", "3", eachReport(func(_ *stages.Plan, _ *stages.Run, o *stages.Observation) { o.Current = true })),
		onInput("completes what is not healthy", "3", eachReport(func(_ *stages.Plan, _ *stages.Run, o *stages.Observation) { o.Healthy = true })),
		onInput("completes before the apply", "3", eachReport(func(_ *stages.Plan, _ *stages.Run, o *stages.Observation) { o.Applied = true })),
		onInput("takes a report of another attempt", "3", eachReport(func(p *stages.Plan, r *stages.Run, o *stages.Observation) {
			pos, _ := p.Position(o.Cluster)
			if f := (&draft{r: *r}).inFlightAt(pos); f != nil {
				o.Attempt = f.Attempt
			}
		})),
		onInput("takes what it has sent for unchanged", "3", eachReport(func(_ *stages.Plan, _ *stages.Run, o *stages.Observation) {
			o.Unchanged, o.Sent = o.Healthy, o.Sent && !o.Healthy
		})),
		onInput("gives the slot of a cluster up that it lost", "counts", eachReport(func(_ *stages.Plan, _ *stages.Run, o *stages.Observation) { o.Sent = o.Applied })),
	}
}

// runMutants change the run that is stepped.
func runMutants() []mutant {
	onRun := func(name, law string, change func(*stages.Plan, *stages.Run)) mutant {
		return mutant{name: name, law: law, make: func() machine {
			return func(p *stages.Plan, r stages.Run, in stages.Input) stages.Ready {
				r = reloaded(r)
				change(p, &r)
				return step(p, r, in)
			}
		}}
	}
	return []mutant{
		onRun("forgets the clusters that were skipped", "5", func(_ *stages.Plan, r *stages.Run) { r.Unsuccessful = nil }),
		onRun("forgets the failures", "5", func(_ *stages.Plan, r *stages.Run) {
			if r.Stage < len(r.Stages) {
				for i := range r.Stages[r.Stage].Groups {
					r.Stages[r.Stage].Groups[i].Failed = 0
				}
			}
		}),
		onRun("forgets that clusters may have been changed", "counts", func(_ *stages.Plan, r *stages.Run) {
			for i := range r.InFlight {
				r.InFlight[i].Sent = false
			}
		}),
		onRun("forgets it of clusters that were parked", "counts", func(_ *stages.Plan, r *stages.Run) {
			for i := range r.Waiting {
				r.Waiting[i].Sent = false
			}
		}),
		onRun("forgets how long clusters were in flight", "6", func(_ *stages.Plan, r *stages.Run) {
			for i := range r.Waiting {
				r.Waiting[i].Spent = 0
			}
		}),
		onRun("tries to reach clusters too early", "4", func(_ *stages.Plan, r *stages.Run) {
			for i := range r.Waiting {
				r.Waiting[i].NotYet = min(1, r.Waiting[i].NotYet)
			}
		}),
		onRun("forgets the commands it has seen", "commands", func(_ *stages.Plan, r *stages.Run) { r.Seen = nil }),
		onRun("starts a stage over", "5", func(_ *stages.Plan, r *stages.Run) {
			if r.Stage < len(r.Stages) {
				for i := range r.Stages[r.Stage].Groups {
					r.Stages[r.Stage].Groups[i].Next = 0
				}
			}
		}),
		onRun("goes back with the clock", "time", func(_ *stages.Plan, r *stages.Run) { r.Now = 0 }),
		onRun("opens a gate again that was passed", "4", func(_ *stages.Plan, r *stages.Run) {
			if r.Stage < len(r.Stages) {
				st := &r.Stages[r.Stage]
				st.Gates = slices.DeleteFunc(st.Gates, func(g stages.Gate) bool { return g.State == stages.Completed })
			}
		}),
		{name: "begins a wait again after a stop", law: "time", make: func() machine {
			return func(p *stages.Plan, r stages.Run, in stages.Input) stages.Ready {
				r = reloaded(r)
				asked := slices.ContainsFunc(in.Commands, func(c stages.Command) bool { return c.Verb == stages.Start })
				if r.State == stages.Stopped && asked && r.Stage < len(r.Stages) {
					st := &r.Stages[r.Stage]
					st.Gates, st.Done = slices.DeleteFunc(st.Gates, func(g stages.Gate) bool { return g.When == approval.After }), 0
				}
				return step(p, r, in)
			}
		}},
		onRun("comes back from the dead", "4", func(_ *stages.Plan, r *stages.Run) {
			if r.IsEnded() {
				r.State = stages.Running
			}
		}),
	}
}

// memoryMutants forget that the run is all there is.
func memoryMutants() []mutant {
	return []mutant{
		{name: "keeps the run in memory", law: "1", make: func() machine {
			var last *stages.Run
			return func(p *stages.Plan, r stages.Run, in stages.Input) stages.Ready {
				if last != nil {
					r = *last
				}
				out := step(p, r, in)
				last = &out.Run
				return out
			}
		}},
		{name: "changes its argument", law: "1", make: func() machine {
			return func(p *stages.Plan, r stages.Run, in stages.Input) stages.Ready {
				out := step(p, r, in)
				for i := range r.InFlight {
					r.InFlight[i].Sent = true
				}
				return out
			}
		}},
	}
}
