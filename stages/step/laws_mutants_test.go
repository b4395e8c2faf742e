package step

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/stages"
)

// mutant is Step without one of its guards. The guard is disabled by a changed plan, run or input,
// or by a changed result.
type mutant struct {
	name string
	law  string // the law that must catch it
	make func() machine
	// divided reports whether only runs with failure domains catch it.
	divided bool
}

// mutantSeeds is the number of random runs within which a mutant must be caught.
const mutantSeeds = 400

func TestLawsCatchMutants(t *testing.T) {
	for _, m := range sampled(slices.Concat(capMutants(), gateMutants(), groupMutants(), proofMutants(), inputMutants(), runMutants(), memoryMutants(), actionMutants(), countMutants(), domainMutants())) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(mutantSeeds) {
				found, err := play(&dice{data: lawBytes(seed), divided: m.divided}, m.make())
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(found, func(v violation) bool { return v.law == m.law }) {
					return
				}
			}
			t.Errorf("law %s does not catch it", m.law)
		})
	}
}

// sampled returns every fifth mutant if the race detector is on. The mutants have no concurrency,
// and make test tries all of them without it.
func sampled(all []mutant) (out []mutant) {
	for i, m := range all {
		if !underRace || i%5 == 0 {
			out = append(out, m)
		}
	}
	return out
}

// onPlan is Step with a plan without some of its limits or gates; change removes them.
func onPlan(name, law string, change func(*stages.Plan)) mutant {
	return mutant{name: name, law: law, make: func() machine {
		return func(p *stages.Plan, r Run, in stages.Input) Ready {
			c := *p
			c.Stages = slices.Clone(p.Stages)
			for i := range c.Stages {
				c.Stages[i].Groups = slices.Clone(c.Stages[i].Groups)
			}
			change(&c)
			return step(&c, r, in)
		}
	}}
}

// onInput is Step with a changed input.
func onInput(name, law string, change func(*stages.Plan, Run, *stages.Input)) mutant {
	return mutant{name: name, law: law, make: func() machine {
		return func(p *stages.Plan, r Run, in stages.Input) Ready {
			in.Observations, in.Commands = slices.Clone(in.Observations), slices.Clone(in.Commands)
			change(p, r, &in)
			return step(p, r, in)
		}
	}}
}

// onOutput is Step with a changed result.
func onOutput(name, law string, change func(*stages.Plan, Run, stages.Input, *Ready)) mutant {
	return mutant{name: name, law: law, make: func() machine {
		return func(p *stages.Plan, r Run, in stages.Input) Ready {
			out := step(p, r, in)
			out.Run.form.Stages = slices.Clone(out.Run.form.Stages)
			for i := range out.Run.form.Stages {
				out.Run.form.Stages[i].Groups = slices.Clone(out.Run.form.Stages[i].Groups)
				out.Run.form.Stages[i].Gates = slices.Clone(out.Run.form.Stages[i].Gates)
			}
			change(p, r, in, &out)
			return out
		}
	}}
}

func inputMutants() []mutant {
	without := func(v stages.Verb) func(*stages.Plan, Run, *stages.Input) {
		return func(_ *stages.Plan, _ Run, in *stages.Input) {
			in.Commands = slices.DeleteFunc(in.Commands, func(c stages.Command) bool { return c.Verb == v })
		}
	}
	return []mutant{
		onInput("soaks through unwatched time", "3", func(_ *stages.Plan, _ Run, in *stages.Input) { in.Unwatched = false }),
		onInput("does not stop", "4", without(stages.Stop)),
		onInput("resumes by itself", "4", func(_ *stages.Plan, r Run, in *stages.Input) {
			if r.State == stages.Stopped {
				in.Commands = append(in.Commands, stages.Command{ID: "mutant", Verb: stages.Start})
			}
		}),
		onInput("does not wait for its turn", "2", func(_ *stages.Plan, _ Run, in *stages.Input) { in.Blocked = "" }),
		onInput("takes an approval of another attempt", "gates", func(p *stages.Plan, r Run, in *stages.Input) { bind(p, r, in, false) }),
		onInput("takes an approval of another run", "gates", func(p *stages.Plan, r Run, in *stages.Input) { bind(p, r, in, true) }),
	}
}

// bind binds every decision to the open request.
func bind(p *stages.Plan, r Run, in *stages.Input, run bool) {
	for i := range in.Commands {
		d := in.Commands[i].Decision
		for _, req := range Requests(p, &r) {
			if d == nil || req.Stage != d.Binding.Stage || req.When != d.Binding.When {
				continue
			}
			c := *d
			if run {
				c.Binding.RunUID = req.RunUID
			} else {
				c.Binding.Attempt = req.Binding.Attempt
			}
			in.Commands[i].Decision = &c
		}
	}
}

func actionMutants() []mutant {
	return []mutant{
		onOutput("returns no time to wake", "6", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) { out.Wake = scriptEpoch.Add(-1) }),
		onOutput("sleeps for ever", "6", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			out.Wake = stages.Instant(0).Time()
		}),
		onOutput("returns an action once", "6", func(_ *stages.Plan, r Run, _ stages.Input, out *Ready) {
			out.Actions = slices.DeleteFunc(out.Actions, func(a stages.Action) bool {
				return a.Type != stages.Ask && r.form.At(a.Pos) != nil
			})
		}),
		onOutput("requests no approval", "6", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			out.Actions = slices.DeleteFunc(out.Actions, func(a stages.Action) bool { return a.Type == stages.Ask })
		}),
		onOutput("applies what is completed again", "5", func(p *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for pos, state := range out.Run.States(p) {
				if state == stages.Completed && out.Run.State == stages.Running {
					out.Actions = append(out.Actions, stages.Action{Type: stages.Apply, Pos: pos, Cluster: p.Clusters[pos].Name, Attempt: 1})
				}
			}
		}),
		onOutput("applies after a stop", "4", func(p *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for pos, state := range out.Run.States(p) {
				if state == stages.NotStarted && out.Run.State == stages.Stopping {
					out.Actions = append(out.Actions, stages.Action{Type: stages.Apply, Pos: pos, Cluster: p.Clusters[pos].Name, Attempt: 1})
				}
			}
		}),
	}
}

func countMutants() []mutant {
	return []mutant{
		onOutput("does not report that it changed", "1", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) { out.Changed = false }),
		onOutput("counts clusters as skipped that were before", "counts", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for i := range out.Events {
				if out.Events[i].Count > 0 && out.Events[i].Type == stages.ClusterSkipped {
					out.Events[i].Count++
				}
			}
		}),
		onOutput("says of each try that it starts", "counts", func(p *stages.Plan, r Run, _ stages.Input, out *Ready) {
			for i := range out.Run.form.InFlight {
				f := &out.Run.form.InFlight[i]
				if f.Tries > 0 && (&draft{r: r}).retrying(f.Pos) >= 0 {
					out.Events = append(out.Events, stages.Event{Type: stages.ClusterStarted, Run: r.Name, Stage: p.Stages[r.form.Stage].Name, Cluster: p.Clusters[f.Pos].Name, Attempt: f.Attempt})
				}
			}
		}),
		onOutput("counts a completed cluster twice", "counts", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for _, e := range out.Events {
				if e.Type == stages.ClusterCompleted && out.Run.form.Stage < len(out.Run.form.Stages) {
					out.Run.form.Stages[out.Run.form.Stage].Groups[0].Completed++
				}
			}
		}),
		onOutput("loses a slot", "counts", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			if n := len(out.Run.form.InFlight); n > 1 {
				out.Run.form.InFlight = out.Run.form.InFlight[:n-1]
			}
		}),
		onOutput("loses a cluster that waits", "counts", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) { out.Run.form.Waiting = nil }),
		onOutput("completes without an event", "counts", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			out.Events = slices.DeleteFunc(out.Events, func(e stages.Event) bool { return e.Type == stages.ClusterCompleted })
		}),
		onOutput("closes a gate by itself", "gates", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			for i := range out.Run.form.Stages {
				for j := range out.Run.form.Stages[i].Gates {
					out.Run.form.Stages[i].Gates[j].State = stages.Completed
				}
			}
		}),
	}
}
