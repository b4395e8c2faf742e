package step

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// diceCalendar has a window for every position: none, one that never opens, or one that opens
// periodically.
type diceCalendar struct {
	period, open, offset []time.Duration // the period is 0 without a window
}

// Window returns the window of a cluster.
func (c *diceCalendar) Window(pos int, at time.Time) stages.Window {
	period, open := c.period[pos], c.open[pos]
	switch {
	case period == 0:
		return stages.Window{}
	case open == 0:
		return stages.Window{Limited: true, Reason: "frozen"}
	}
	phase := (at.Sub(scriptEpoch) + c.offset[pos] + 1e6*period) % period
	if phase < open {
		return stages.Window{Limited: true, Open: true, Until: at.Add(open - phase)}
	}
	return stages.Window{Limited: true, Until: at.Add(period - phase)}
}

// openSometimes returns the calendar without the windows that are never open.
func (c *diceCalendar) openSometimes() *diceCalendar {
	if c == nil {
		return nil
	}
	out := &diceCalendar{period: c.period, open: slices.Clone(c.open), offset: c.offset}
	for i := range out.open {
		out.open[i] = max(out.open[i], time.Second)
	}
	return out
}

func (d *dice) calendar(clusters int) *diceCalendar {
	c := &diceCalendar{}
	for range clusters {
		var period, open, offset time.Duration
		if d.n(3) > 0 {
			period, open = 10*time.Minute, d.duration(0, time.Minute, time.Minute, 5*time.Minute)
			offset = time.Duration(d.n(10)) * time.Minute
		}
		c.period, c.open, c.offset = append(c.period, period), append(c.open, open), append(c.offset, offset)
	}
	return c
}

// strict rolls which budgets of a stage are strict.
func (d *dice) strict(st *stages.Stage) {
	budget := func(v **intstr.IntOrString) {
		if *v == nil || (*v).Type == intstr.Int {
			n := intstr.FromInt32(int32(1 + d.n(3)))
			*v = &n
		}
	}
	if st.StrictFailures = d.one(3); st.StrictFailures {
		budget(&st.MaxFailures)
	}
	for i := range st.Groups {
		if g := &st.Groups[i]; d.one(3) {
			g.StrictFailures = true
			budget(&g.MaxFailures)
		}
	}
}

// timed adds windows and retries to an input.
func (s *sim) timed(in *stages.Input) {
	if s.d.one(12) || s.cal == nil && s.d.one(4) {
		s.cal, s.newCal = s.d.calendar(len(s.p.Clusters)), true
		if s.d.one(6) {
			s.cal = nil
		}
	}
	for i := range s.acts {
		if a := &s.acts[i]; a.Type != stages.Ask && s.d.one(8) {
			word := []string{"pointless", "sent-pointless"}[s.d.n(2)]
			in.Observations = append(in.Observations, (&scriptRun{plan: s.p, r: s.run}).observation(a.Cluster, word))
		}
	}
	starts := slices.ContainsFunc(in.Commands, func(c stages.Command) bool { return c.Verb == stages.Start })
	if s.d.one(3) && !starts {
		in.Commands = append(in.Commands, s.named(stages.Command{Verb: stages.Retry, Only: []stages.Only{"", stages.OnlyFailed, stages.OnlySkipped, "Gone"}[s.d.n(4)]}))
	}
	if s.d.one(8) {
		until := s.clock.Add(s.d.duration(time.Minute, time.Hour, -time.Minute, 8*24*time.Hour))
		in.Commands = append(in.Commands, s.named(stages.Command{Verb: stages.BypassWindows, Until: until, Message: []string{"fix", "fix", ""}[s.d.n(3)]}))
	}
}

// named gives a command an ID and an author.
func (s *sim) named(c stages.Command) stages.Command {
	s.ids++
	c.ID, c.By, c.At = fmt.Sprintf("c%d", s.ids), approval.Identity{Name: "ann"}, s.clock
	return c
}

func timedMutants() []mutant {
	onRun := func(name, law string, change func(*stages.Plan, *Run)) mutant {
		return mutant{name: name, law: law, make: func() machine {
			return func(p *stages.Plan, r Run, in stages.Input) Ready {
				r = reloaded(r)
				change(p, &r)
				return step(p, r, in)
			}
		}}
	}
	passed := func(do func(*runstate.GroupRun)) func(*stages.Plan, *Run) {
		return func(_ *stages.Plan, r *Run) {
			for i := range r.form.Stages {
				for j := range r.form.Stages[i].Groups {
					do(&r.form.Stages[i].Groups[j])
				}
			}
		}
	}
	return []mutant{
		onInput("knows no windows", "7", func(_ *stages.Plan, _ Run, in *stages.Input) { in.Calendar = nil }),
		onInput("keeps the calendar that it knows", "6", func(_ *stages.Plan, _ Run, in *stages.Input) { in.NewCalendar = false }),
		onRun("bypasses windows for longer than asked", "7", func(_ *stages.Plan, r *Run) {
			if r.form.Bypass != nil {
				r.form.Bypass = &runstate.Bypass{Until: r.form.Bypass.Until + 3600000}
			}
		}),
		onRun("forgets that windows are bypassed", "6", func(_ *stages.Plan, r *Run) { r.form.Bypass = nil }),
		onRun("forgets who let others go first", "counts", passed(func(g *runstate.GroupRun) { g.Deferred = nil })),
		onRun("forgets who is outside its window", "counts", passed(func(g *runstate.GroupRun) {
			for i := range g.Deferred {
				g.Deferred[i].Closed = false
			}
		})),
		onRun("reads windows too late", "6", passed(func(g *runstate.GroupRun) {
			for i := range g.Deferred {
				g.Deferred[i].NotYet += 1000
			}
		})),
		onPlan("does not know the order of profile ClusterUpdate", "7", func(p *stages.Plan) {
			if p.Strategy.Profile == stages.ClusterUpdate {
				p.Strategy.Profile, p.Strategy.Attempts = stages.Staged, max(1, p.Strategy.Attempts)
			}
		}),
		onPlan("takes a strict budget for another", "5", eachStage(func(st *stages.PlannedStage) {
			st.Strict = false
			for i := range st.Groups {
				st.Groups[i].Strict = false
			}
		})),
		onRun("counts attempts from the start again", "counts", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Unsuccessful {
				r.form.Unsuccessful[i].Attempts = min(r.form.Unsuccessful[i].Attempts, 1)
			}
		}),
		onRun("forgets what was sent to clusters that were skipped", "counts", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Unsuccessful {
				r.form.Unsuccessful[i].Sent = false
			}
		}),
		onInput("skips what was changed", "5", func(_ *stages.Plan, r Run, in *stages.Input) {
			for i := range in.Observations {
				o := &in.Observations[i]
				o.Skipped = o.Skipped && !o.Sent
				if o.Skipped {
					continue
				}
				o.Skipped = o.Sent && !o.Applied && !o.Failed && !o.Unreachable
				o.Sent = o.Sent && !o.Skipped
			}
		}),
		onInput("retries without a command", "4", func(_ *stages.Plan, _ Run, in *stages.Input) {
			for i := range in.Commands {
				if in.Commands[i].Verb == stages.Skip {
					in.Commands[i] = stages.Command{ID: in.Commands[i].ID, Verb: stages.Retry}
				}
			}
		}),
	}
}

func TestLawsCatchTimedMutants(t *testing.T) {
	for _, m := range sampled(timedMutants()) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			// These seeds quickly catch mutants that take the others long.
			seeds := []uint64{15, 28, 35, 71, 123}
			for seed := range uint64(mutantSeeds) {
				seeds = append(seeds, seed)
			}
			for _, seed := range seeds {
				found, err := play(&dice{data: lawBytes(seed), timed: true}, m.make())
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
