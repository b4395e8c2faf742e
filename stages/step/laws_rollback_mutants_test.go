package step

import (
	"maps"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// backMutant is RollBack that is broken in one way.
type backMutant struct {
	name string
	law  string // the law that must catch it
	make func() inversion
}

func TestRollBackLawsCatchMutants(t *testing.T) {
	for _, m := range slices.Concat(backInputMutants(), backOutputMutants(), backOrderMutants()) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(mutantSeeds) {
				for _, kind := range backKinds() {
					found := playBack(t, lawBytes(seed), kind, m.make())
					if slices.ContainsFunc(found, func(v violation) bool { return v.law == m.law }) {
						return
					}
				}
			}
			t.Errorf("law %s does not catch it", m.law)
		})
	}
}

// onHistory is RollBack with a changed history of clusters.
func onHistory(name, law string, change func(*stages.Plan, *stages.PlannedCluster, *stages.Previous)) backMutant {
	return backMutant{name, law, func() inversion {
		return func(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
			told := maps.Clone(previous)
			for i := range p.Clusters {
				had := told[p.Clusters[i].Name]
				change(p, &p.Clusters[i], &had)
				told[p.Clusters[i].Name] = had
			}
			return RollBack(p, r, told)
		}
	}}
}

// onRun is RollBack of another run and another plan.
func onRun(name, law string, change func(*stages.Plan, *Run)) backMutant {
	return backMutant{name, law, func() inversion {
		return func(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
			q, run := *p, *r
			b := *p.Strategy.Rollback
			q.Strategy.Rollback = &b
			run.form.Unsuccessful = slices.Clone(r.form.Unsuccessful)
			change(&q, &run)
			return inverseOf(&q, &run, previous)
		}
	}}
}

// onInverse is RollBack with a changed plan and the matching digest.
func onInverse(name, law string, change func(p, out *stages.Plan)) backMutant {
	return backMutant{name, law, func() inversion {
		return func(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
			out, err := RollBack(p, r, previous)
			if err != nil {
				return nil, err
			}
			change(p, out)
			return out, out.Seal()
		}
	}}
}

func backInputMutants() []backMutant {
	return []backMutant{
		onHistory("goes to what the run brought", "goes", func(p *stages.Plan, c *stages.PlannedCluster, had *stages.Previous) {
			if c.Revision >= 0 && had.Revision != "" {
				had.Revision = p.Revisions[c.Revision]
			}
		}),
		onHistory("cleans all", "goes", func(_ *stages.Plan, _ *stages.PlannedCluster, had *stages.Previous) { had.Revision = "" }),
		onHistory("goes past what is irreversible", "goes", func(_ *stages.Plan, _ *stages.PlannedCluster, had *stages.Previous) { had.Keep = "" }),
		onHistory("touches what is back again", "back", func(_ *stages.Plan, _ *stages.PlannedCluster, had *stages.Previous) { had.Back = false }),
		onHistory("forgets a cluster", "touched", func(_ *stages.Plan, c *stages.PlannedCluster, had *stages.Previous) {
			had.Back = had.Back || c.Name == "m1"
		}),
		onHistory("keeps without a reason", "touched", func(_ *stages.Plan, _ *stages.PlannedCluster, had *stages.Previous) {
			if had.Keep != "" {
				had.Back = true
			}
		}),
		onHistory("tells an older index", "goes", func(_ *stages.Plan, _ *stages.PlannedCluster, had *stages.Previous) { had.Index = 0 }),
		onRun("cleans what is to be left", "goes", func(p *stages.Plan, _ *Run) { p.Strategy.Rollback.New = stages.RemoveNew }),
		onRun("requests no approval", "gates", func(p *stages.Plan, _ *Run) { p.Strategy.Rollback.Approval = nil }),
		onRun("requests an approval that the policy does not want", "gates", func(p *stages.Plan, _ *Run) { p.Strategy.Rollback.Approval = &approval.Policy{} }),
		onRun("forgets what is in flight", "touched", func(_ *stages.Plan, r *Run) { r.form.InFlight = nil }),
		onRun("forgets what waits to be tried again", "touched", func(_ *stages.Plan, r *Run) {
			r.form.Waiting = slices.Clone(r.form.Waiting)
			for i := range r.form.Waiting {
				r.form.Waiting[i].Sent = false
			}
		}),
		onRun("forgets what was skipped in flight", "touched", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Unsuccessful {
				r.form.Unsuccessful[i].Sent = false
			}
		}),
		onRun("takes back what was skipped before it began", "untouched", func(_ *stages.Plan, r *Run) {
			for i := range r.form.Unsuccessful {
				r.form.Unsuccessful[i].Sent = true
			}
		}),
		onRun("takes all for done", "untouched", func(p *stages.Plan, r *Run) {
			r.form.Stage, r.form.InFlight, r.form.Waiting, r.form.Unsuccessful = len(p.Stages), nil, nil, nil
		}),
		onRun("takes back another run", "valid", func(_ *stages.Plan, r *Run) { r.UID = "uid-other" }),
	}
}

func backOutputMutants() []backMutant {
	calls := 0
	return []backMutant{
		onInverse("goes all at once", "caps", func(_, out *stages.Plan) {
			for i := range out.Stages {
				out.Stages[i].MaxConcurrency = 0
			}
		}),
		onInverse("goes all at once in groups", "caps", func(_, out *stages.Plan) {
			for i := range out.Stages {
				for j := range out.Stages[i].Groups {
					out.Stages[i].Groups[j].MaxConcurrency++
				}
			}
		}),
		onInverse("has no budget", "numbers", func(_, out *stages.Plan) {
			for i := range out.Stages {
				out.Stages[i].MaxFailures, out.Stages[i].Strict = -1, false
			}
		}),
		onInverse("has all the time", "numbers", func(_, out *stages.Plan) {
			for i := range out.Stages {
				out.Stages[i].Timeout.Duration = 0
			}
		}),
		onInverse("runs always", "numbers", func(_, out *stages.Plan) {
			for i := range out.Stages {
				out.Stages[i].Always = true
			}
		}),
		onInverse("asks before each stage", "gates", func(_, out *stages.Plan) {
			for i := range out.Stages {
				out.Stages[i].Gates = out.Stages[0].Gates
			}
		}),
		onInverse("names no cluster that stays", "touched", func(_, out *stages.Plan) { out.Rollback.Kept = nil }),
		onInverse("names what stays without a reason", "touched", func(_, out *stages.Plan) {
			for i := range out.Rollback.Kept {
				out.Rollback.Kept[i].Reason = ""
			}
		}),
		onInverse("names what stays and takes them back", "touched", func(_, out *stages.Plan) {
			if len(out.Clusters) > 0 {
				out.Rollback.Kept = []stages.KeptClusters{{Reason: "for now", Count: 1, Clusters: []string{out.Clusters[0].Name}}}
			}
		}),
		onInverse("can be taken back", "valid", func(p, out *stages.Plan) { out.Strategy.Rollback = p.Strategy.Rollback }),
		onInverse("is another one each time", "pure", func(_, out *stages.Plan) {
			calls++
			out.Rollback.Run = "run" + string(rune('a'+calls%26))
		}),
		{"writes into what it is given", "pure", func() inversion {
			return func(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
				out, err := RollBack(p, r, previous)
				for name := range previous {
					delete(previous, name)
				}
				return out, err
			}
		}},
		{"panics", "panic", func() inversion {
			return func(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
				out, err := RollBack(p, r, previous)
				out.Clusters[len(out.Clusters)-1].UID += ""
				return out, err
			}
		}},
	}
}

func backOrderMutants() []backMutant {
	return []backMutant{
		onInverse("begins with the first stage", "order", func(_, out *stages.Plan) {
			slices.Reverse(out.Stages)
			relay(out, func(group []stages.PlannedCluster) {})
		}),
		onInverse("begins with the first cluster", "order", func(_, out *stages.Plan) {
			relay(out, func(group []stages.PlannedCluster) { slices.Reverse(group) })
		}),
		onInverse("cleans before others go back", "order", func(_, out *stages.Plan) {
			slices.SortStableFunc(out.Stages, func(a, b stages.PlannedStage) int {
				switch {
				case a.Remove == b.Remove:
					return 0
				case a.Remove:
					return -1
				default:
					return 1
				}
			})
			relay(out, func(group []stages.PlannedCluster) {})
		}),
		onInverse("waits for nothing", "dependencies", func(_, out *stages.Plan) {
			for i := range out.Stages {
				for j := range out.Stages[i].Groups {
					out.Stages[i].Groups[j].After = nil
				}
			}
		}),
		onInverse("waits as before", "dependencies", func(_, out *stages.Plan) {
			for i := range out.Stages {
				turn(out.Stages[i].Groups)
			}
		}),
	}
}

// turn reverses the dependencies between groups.
func turn(groups []stages.PlannedGroup) {
	after := make([][]int, len(groups))
	for i := range groups {
		for _, j := range groups[i].After {
			after[j] = append(after[j], i)
		}
	}
	for i := range groups {
		groups[i].After = after[i]
	}
}

// relay orders the clusters of a plan by its stages and, within each group, by sort.
func relay(p *stages.Plan, sort func([]stages.PlannedCluster)) {
	var all []stages.PlannedCluster
	for i := range p.Stages {
		for j := range p.Stages[i].Groups {
			g := &p.Stages[i].Groups[j]
			first := len(all)
			all = append(all, p.Clusters[g.First:g.First+g.Len]...)
			g.First = first
			sort(all[first:])
		}
	}
	p.Clusters = all
}
