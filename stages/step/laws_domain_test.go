package step

import (
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/stages"
)

// place rolls the location of a cluster: a region or none, and a zone.
func (d *dice) place(labels map[string]string) map[string]string {
	if !d.divided {
		return labels
	}
	if r := d.n(4); r < 3 {
		labels["region"] = strconv.Itoa(r)
	}
	labels["zone"] = strconv.Itoa(d.n(2))
	return labels
}

// divide rolls the failure domains of a stage.
func (d *dice) divide(st *stages.Stage) {
	for _, key := range []string{"region", "zone"}[:d.n(3)] {
		st.Domains = append(st.Domains, stages.Domain{Key: key, MaxConcurrency: d.limit(1)})
	}
}

// retries returns the clusters that a step tries to reach again. No event reports such a retry,
// and the retried cluster occupies a slot of its domains. Groups take turns, so another group may
// retry a cluster before a cluster starts.
func (c *checker) retries(r *Run) (out []int) {
	for i := range r.form.InFlight {
		f := &r.form.InFlight[i]
		if m := &c.members[f.Pos]; f.Attempt != 0 && f.Attempt == m.attempt && m.state == stages.Pending && m.tries > 0 {
			out = append(out, f.Pos)
		}
	}
	return out
}

// fullDomain names a failure domain of the cluster at pos that has no room for
// it, or "".
func (c *checker) fullDomain(pos int) string {
	stage, group := c.p.StageOf(pos)
	first, last := c.p.Stages[stage].Groups[0].First, c.p.Stages[stage].End()
	inFlight := func(other int) bool {
		if m := &c.members[other]; m.state == stages.Running && !m.silent {
			return true
		}
		_, of := c.p.StageOf(other)
		return of != group && slices.Contains(c.untold, other)
	}
	for i, d := range c.p.Domains(pos) {
		n := 0
		for other := first; other < last; other++ {
			if inFlight(other) && c.p.Domains(other)[i] == d {
				n++
			}
		}
		if n >= d.MaxConcurrency {
			return d.String()
		}
	}
	return ""
}

// rollSlots rolls the number of clusters that the cap allows in flight.
func (s *sim) rollSlots() {
	if s.p.Strategy.Cap != "" && s.d.n(3) == 0 {
		s.slots = s.d.n(5)
	}
}

// flying counts the clusters in flight.
func (c *checker) flying() (n int) {
	for i := range c.members {
		if m := &c.members[i]; m.state == stages.Running && !m.silent {
			n++
		}
	}
	return n
}

// spare returns how many more clusters may start under the cap that runs share.
func (c *checker) spare() int {
	if c.p.Strategy.Cap == "" {
		return len(c.members)
	}
	return c.in.Slots - c.flying()
}

// wants checks that a run wants as many slots as it would use: with that many slots it has that
// many clusters in flight, and more slots change nothing.
func (c *checker) wants(ready *Ready, in stages.Input, do machine) {
	if c.p.Strategy.Cap == "" {
		if ready.Wants != 0 || ready.Run.form.Capped {
			c.fail("2", "the run wants %d of no cap", ready.Wants)
		}
		return
	}
	if n := c.flying(); ready.Wants < n || ready.Run.form.Capped != (ready.Wants > n) {
		c.fail("2", "the run wants %d, capped %t, and has %d in flight", ready.Wants, ready.Run.form.Capped, n)
	}
	for _, slots := range []int{ready.Wants, len(c.members)} {
		more := do(c.p, ready.Run, stages.Input{Now: in.Now, Blocked: in.Blocked, Calendar: in.Calendar, Slots: slots})
		if n := more.Run.form.Flying(); n != ready.Wants {
			c.fail("2", "the run wants %d, and with %d slots it has %d in flight", ready.Wants, slots, n)
		}
	}
}

func domainMutants() []mutant {
	return dividedMutants([]mutant{
		onPlan("starts one more than a domain's cap", "2", eachStage(func(st *stages.PlannedStage) {
			st.Domains = slices.Clone(st.Domains)
			for i := range st.Domains {
				st.Domains[i].MaxConcurrency++
			}
		})),
		onPlan("knows only the first label", "2", eachStage(func(st *stages.PlannedStage) {
			st.Domains = slices.Clone(st.Domains)
			for i := range st.Domains {
				if st.Domains[i].Key != st.Domains[0].Key {
					st.Domains[i].MaxConcurrency = len(st.Domains) * 100
				}
			}
		})),
		onPlan("never fills a domain", "6", eachStage(func(st *stages.PlannedStage) {
			st.Domains = slices.Clone(st.Domains)
			for i := range st.Domains {
				st.Domains[i].MaxConcurrency = max(1, st.Domains[i].MaxConcurrency-1)
			}
		})),
		onPlan("forgets the domains", "2", func(p *stages.Plan) {
			eachStage(func(st *stages.PlannedStage) { st.Cells, st.Domains = nil, nil })(p)
			p.Clusters = slices.Clone(p.Clusters)
			for i := range p.Clusters {
				p.Clusters[i].Cell = 0
			}
			if err := p.Seal(); err != nil {
				panic(err)
			}
		}),
		onPlan("keeps no slot for unproven clusters", "2", eachGroup(func(g *stages.PlannedGroup) { g.Unproven = 0 })),
		onPlan("keeps a slot for a proven cluster", "6", eachGroup(func(g *stages.PlannedGroup) {
			if g.Unproven > 0 {
				g.Unproven = min(g.Len, g.Unproven+1)
			}
		})),
		onInput("has one slot too many", "2", func(_ *stages.Plan, _ Run, in *stages.Input) { in.Slots++ }),
		onInput("has one slot too few", "6", func(_ *stages.Plan, _ Run, in *stages.Input) { in.Slots-- }),
		onOutput("wants one too many", "2", func(p *stages.Plan, _ Run, _ stages.Input, out *Ready) {
			if p.Strategy.Cap != "" {
				out.Wants++
			}
		}),
		onOutput("does not say that it is capped", "2", func(_ *stages.Plan, _ Run, _ stages.Input, out *Ready) { out.Run.form.Capped = false }),
	})
}

// dividedMutants must be caught in runs with failure domains.
func dividedMutants(all []mutant) []mutant {
	for i := range all {
		all[i].divided = true
	}
	return all
}
