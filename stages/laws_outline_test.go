package stages

// outline checks what people see: the counts are those of the model, and a
// cluster update run that does nothing but wait is Pending.
func (c *checker) outline(r *Run) {
	out := Derive(c.p, r)
	for i, st := range out.Stages {
		for j, g := range st.Groups {
			c.groupOutline(c.p.Stages[i].Groups[j], &g)
		}
	}
	if c.p.Strategy.Profile != ClusterUpdate {
		if out.Run != r.State {
			c.fail("counts", "the run is %s and shows as %s", r.State, out.Run)
		}
		return
	}
	flying, updated := 0, 0
	for pos := range c.members {
		stage, _ := c.p.StageOf(pos)
		switch c.members[pos].state {
		case Running:
			flying++
		case Completed, Failed:
			if stage == c.current() || r.State == Completed {
				updated++
			}
		}
	}
	switch {
	case out.Run == Pending && flying > 0:
		c.fail("counts", "the run shows as Pending, and %d clusters are in flight", flying)
	case r.State == Running && flying+updated == 0 && out.Run != Pending:
		c.fail("counts", "nothing is in flight nor was, and the run shows as %s", out.Run)
	case r.State == Completed && updated == 0 && out.Run != Skipped:
		c.fail("counts", "nothing was updated, and the run shows as %s", out.Run)
	}
}

func (c *checker) groupOutline(pg PlannedGroup, g *GroupOutline) {
	want := GroupOutline{
		Name: pg.Name, State: g.State, Gates: g.Gates, Clusters: pg.Len, InFlight: c.count(pg, Running),
		Completed: c.count(pg, Completed), Failed: c.count(pg, Failed), Skipped: c.count(pg, Skipped),
	}
	if dump(want) != dump(*g) {
		c.fail("counts", "group %s shows as %s, and is %s", pg.Name, dump(*g), dump(want))
	}
	if ended := want.Completed + want.Failed + want.Skipped; g.State == Completed && ended < pg.Len {
		c.fail("counts", "group %s shows as Completed, and %d of its %d clusters have ended", pg.Name, ended, pg.Len)
	}
}
