package step

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// holds checks the plan of a rollback.
func (b *backCase) holds(out *stages.Plan) {
	b.everyCluster(out)
	if len(out.Clusters) > 0 {
		b.inOrder(out)
		b.sameNumbers(out)
		b.gates(out)
	}
	back := out.Rollback
	if back.Run != b.r.Name || back.UID != b.r.UID || back.Plan != b.p.Digest || out.Placement != b.p.Placement {
		b.fail("valid", "it takes back %+v", back)
	}
}

// everyCluster checks that each cluster that the run may have changed is in the plan once, or is
// named with a reason, or has its previous state; and that no other cluster is in the plan.
func (b *backCase) everyCluster(out *stages.Plan) {
	times, kept := map[string]int{}, map[string]int{}
	for i := range out.Clusters {
		times[out.Clusters[i].Name]++
	}
	for _, k := range out.Rollback.Kept {
		if k.Reason == "" || k.Count != len(k.Clusters) || !slices.IsSorted(k.Clusters) {
			b.fail("touched", "%d clusters are kept for %q: %v", k.Count, k.Reason, k.Clusters)
		}
		for _, name := range k.Clusters {
			kept[name]++
		}
	}
	for pos, state := range b.r.States(b.p) {
		c := &b.p.Clusters[pos]
		had, n := b.previous[c.Name], times[c.Name]+kept[c.Name]
		touched := state == stages.Completed || state == stages.Failed && !b.unreached(pos) || b.sent(pos)
		same := state == stages.Completed && c.Revision >= 0 && b.p.Revisions[c.Revision] == had.Revision
		switch {
		case !touched && n > 0:
			b.fail("untouched", "%s is %s, and is in the plan", c.Name, state)
		case n > 0 && !b.started[c.Name] && state == stages.Completed:
			b.fail("untouched", "%s never started, and is in the plan", c.Name)
		case n > 1:
			b.fail("touched", "%s is there %d times", c.Name, n)
		case touched && n == 0 && !had.Back && !same:
			b.fail("touched", "%s is %s and had %+v, and is neither in the plan nor kept", c.Name, state, had)
		case had.Back && n > 0:
			b.fail("back", "%s has it again, and is in the plan", c.Name)
		case times[c.Name] > 0:
			b.goes(out, c, had)
		}
	}
}

// sent reports whether something may have been sent to a cluster that has not ended.
func (b *backCase) sent(pos int) bool {
	is := func(at int, sent bool) bool { return at == pos && sent }
	return slices.ContainsFunc(b.r.form.InFlight, func(f runstate.InFlight) bool { return f.Attempt != 0 && is(f.Pos, f.Sent || f.Assumed) }) ||
		slices.ContainsFunc(b.r.form.Waiting, func(y runstate.Retrying) bool { return is(y.Pos, y.Sent) }) ||
		slices.ContainsFunc(b.r.form.Unsuccessful, func(x runstate.Unsuccessful) bool { return x.First <= pos && pos <= x.Last && x.Sent })
}

// unreached reports whether a cluster failed because it was not reached.
func (b *backCase) unreached(pos int) bool {
	return slices.ContainsFunc(b.r.form.Unsuccessful, func(x runstate.Unsuccessful) bool { return x.First <= pos && pos <= x.Last && x.Unreached })
}

// goes checks the target of a cluster.
func (b *backCase) goes(out *stages.Plan, c *stages.PlannedCluster, had stages.Previous) {
	pos, _ := out.Position(c.Name)
	to := &out.Clusters[pos]
	switch {
	case had.Keep != "" || c.Revision < 0:
		b.fail("goes", "%s is to stay as it is: %+v", c.Name, had)
	case had.Revision == "" && (to.Revision >= 0 || b.p.Strategy.Rollback.New == stages.LeaveNew):
		b.fail("goes", "%s had nothing, and goes to %d where new clusters are to %s", c.Name, to.Revision, b.p.Strategy.Rollback.New)
	case had.Revision != "" && (to.Revision < 0 || out.Revisions[to.Revision] != had.Revision):
		b.fail("goes", "%s had %s, and goes to %d of %v", c.Name, had.Revision, to.Revision, out.Revisions)
	case had.Revision != "" && out.IndexAt(pos) < had.Index:
		b.fail("goes", "%s had index %d, and goes to %d", c.Name, had.Index, out.IndexAt(pos))
	case to.UID != c.UID:
		b.fail("goes", "%s is another cluster: %s", c.Name, to.UID)
	}
}

// inOrder checks that the latest stage comes first, that clusters to clean come after clusters to
// roll back, and that in each group the last cluster comes first.
func (b *backCase) inOrder(out *stages.Plan) {
	type place struct{ stage, group, pos, clean int }
	var last place
	for i := range out.Clusters {
		pos, _ := b.p.Position(out.Clusters[i].Name)
		now := place{pos: pos}
		now.stage, now.group = b.p.StageOf(pos)
		if at, _ := out.StageOf(i); out.Stages[at].Remove {
			now.clean = 1
		}
		name := out.Clusters[i].Name
		switch {
		case i == 0:
		case now.stage > last.stage:
			b.fail("order", "%s of a later stage goes back after one of an earlier one", name)
		case now.stage == last.stage && now.clean < last.clean:
			b.fail("order", "%s goes back after one of its stage was cleaned", name)
		case now.stage == last.stage && now.clean == last.clean && now.group == last.group && now.pos > last.pos:
			b.fail("order", "%s goes back after one that was updated before it", name)
		}
		last = now
	}
}

// origin returns the original stage and groups of a stage of the rollback plan.
func (b *backCase) origin(out *stages.Plan, stage int) (*stages.PlannedStage, []int) {
	var groups []int
	at := 0
	for _, g := range out.Stages[stage].Groups {
		pos, _ := b.p.Position(out.Clusters[g.First].Name)
		var group int
		at, group = b.p.StageOf(pos)
		groups = append(groups, group)
	}
	return &b.p.Stages[at], groups
}

// sameNumbers checks caps, budgets and timeouts, and that dependencies between groups are reversed.
func (b *backCase) sameNumbers(out *stages.Plan) {
	for i := range out.Stages {
		st := &out.Stages[i]
		from, groups := b.origin(out, i)
		if st.MaxConcurrency != from.MaxConcurrency {
			b.fail("caps", "stage %s has %d at a time, and had %d", st.Name, st.MaxConcurrency, from.MaxConcurrency)
		}
		if st.Pause || st.Always || !st.Remove && (st.Timeout.Duration != from.Timeout.Duration || st.MaxFailures != from.MaxFailures || st.Strict != from.Strict || st.Name != from.Name) {
			b.fail("numbers", "stage %+v is made of %+v", st, from)
		}
		for j := range st.Groups {
			g, was := &st.Groups[j], &from.Groups[groups[j]]
			if g.MaxConcurrency != was.MaxConcurrency {
				b.fail("caps", "group %s of stage %s has %d at a time, and had %d", g.Name, st.Name, g.MaxConcurrency, was.MaxConcurrency)
			}
			if g.Pause || g.Always || len(g.Gates) > 0 || !st.Remove && (g.Timeout.Duration != was.Timeout.Duration || g.MaxFailures != was.MaxFailures || g.Strict != was.Strict || g.Name != was.Name) {
				b.fail("numbers", "group %+v is made of %+v", g, was)
			}
			for k, other := range groups {
				waits := slices.Contains(g.After, k)
				if !st.Remove && waits != leadsTo(from, other, groups[j]) {
					b.fail("dependencies", "group %s waits for %s: %t", g.Name, st.Groups[k].Name, waits)
				}
			}
		}
	}
}

// leadsTo reports whether a group of a stage came after another group, directly or indirectly.
func leadsTo(st *stages.PlannedStage, group, first int) bool {
	seen := map[int]bool{}
	for next := st.Groups[group].After; len(next) > 0; {
		i := next[0]
		next = slices.Clone(next[1:])
		if i == first {
			return true
		}
		if !seen[i] {
			seen[i] = true
			next = append(next, st.Groups[i].After...)
		}
	}
	return false
}

// gates checks that people are asked exactly once, at the beginning, if the strategy requires
// approval.
func (b *backCase) gates(out *stages.Plan) {
	asked := 0
	for i := range out.Stages {
		asked += len(out.Stages[i].Gates)
	}
	first, want := out.Stages[0].Gates, 0
	if b.p.Strategy.Rollback.Approval != nil {
		want = 1
	}
	if asked != want || len(first) != want || want == 1 && (first[0].Type != stages.Approval || first[0].When != approval.Before) {
		b.fail("gates", "%d gates, %+v before the first stage", asked, first)
	}
}
