package step

import "github.com/slipway-dev/slipway/stages"

// outline checks the outline: the counts are the counts of the model, and a ClusterUpdate run that
// only waits is Pending.
func (c *checker) outline(r *Run) {
	out := r.Outline(c.p)
	for i, st := range out.Stages {
		for j, g := range st.Groups {
			c.groupOutline(c.p.Stages[i].Groups[j], &g)
		}
	}
	if c.p.Strategy.Profile != stages.ClusterUpdate {
		if out.Run != r.State {
			c.fail("counts", "the run is %s and shows as %s", r.State, out.Run)
		}
		return
	}
	flying, updated := 0, 0
	for pos := range c.members {
		stage, _ := c.p.StageOf(pos)
		switch c.members[pos].state {
		case stages.Running:
			flying++
		case stages.Completed, stages.Failed:
			if stage == c.current() || r.State == stages.Completed {
				updated++
			}
		}
	}
	switch {
	case out.Run == stages.Pending && flying > 0:
		c.fail("counts", "the run shows as Pending, and %d clusters are in flight", flying)
	case r.State == stages.Running && flying+updated == 0 && out.Run != stages.Pending:
		c.fail("counts", "nothing is in flight nor was, and the run shows as %s", out.Run)
	case r.State == stages.Completed && updated == 0 && out.Run != stages.Skipped:
		c.fail("counts", "nothing was updated, and the run shows as %s", out.Run)
	}
}

func (c *checker) groupOutline(pg stages.PlannedGroup, g *stages.GroupOutline) {
	want := stages.GroupOutline{
		Name: pg.Name, State: g.State, Gates: g.Gates, Clusters: pg.Len, InFlight: c.count(pg, stages.Running),
		Completed: c.count(pg, stages.Completed), Failed: c.count(pg, stages.Failed), Skipped: c.count(pg, stages.Skipped),
	}
	if dump(want) != dump(*g) {
		c.fail("counts", "group %s shows as %s, and is %s", pg.Name, dump(*g), dump(want))
	}
	if ended := want.Completed + want.Failed + want.Skipped; g.State == stages.Completed && ended < pg.Len {
		c.fail("counts", "group %s shows as Completed, and %d of its %d clusters have ended", pg.Name, ended, pg.Len)
	}
}
