package timeline

import (
	"cmp"
	"slices"
	"time"
)

// finish derives the rest of the picture after all events.
func (r *recorder) finish(o Options) {
	t := r.t
	t.End = r.at
	if !r.ended {
		if t.Now.IsZero() || len(o.Expected) > 0 {
			t.End = t.End.Add(max(t.End.Sub(t.Start)/25, time.Second)) // the run continues
		}
		r.at = t.End
		r.closeAll(true)
	}
	if t.End.Before(t.Start) || t.Start.IsZero() {
		t.Start = t.End
	}
	for i := range t.Stages {
		inOrder(t.Stages[i].Gates)
		for j := range t.Stages[i].Groups {
			inOrder(t.Stages[i].Groups[j].Gates)
		}
	}
	r.count()
	limit := cmp.Or(min(max(o.Lanes, 0), maxLanes), DefaultLanes)
	clusters := 0
	for _, x := range r.runs {
		clusters += len(x.tracks)
	}
	for _, x := range r.runs {
		if clusters <= limit {
			r.lanes(x)
		} else {
			r.loads(x)
		}
	}
	r.merge(limit)
}

func inOrder(all []Segment) {
	slices.SortStableFunc(all, func(a, b Segment) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Message, b.Message))
	})
}

// count counts the ended clusters of the run itself.
func (r *recorder) count() {
	for _, t := range r.runs[0].tracks {
		if len(t.segments) == 0 || t.segments[len(t.segments)-1].Expected {
			continue
		}
		switch t.segments[len(t.segments)-1].Kind {
		case Completed:
			r.t.Completed++
		case Failed:
			r.t.Failed++
		case Skipped:
			r.t.Skipped++
		default:
		}
	}
}

// each calls do for each group of a plan.
func (r *recorder) each(x *planned, do func(g *Group, first int)) {
	for i := range x.plan.Stages {
		for j := range x.plan.Stages[i].Groups {
			do(&r.t.Stages[x.first+i].Groups[j], x.plan.Stages[i].Groups[j].First)
		}
	}
}

// lanes gives each cluster a lane.
func (r *recorder) lanes(x *planned) {
	r.each(x, func(g *Group, first int) {
		for pos := first; pos < first+g.Clusters; pos++ {
			g.Lanes = append(g.Lanes, Lane{Cluster: x.plan.Clusters[pos].Name, Segments: x.tracks[pos].segments})
		}
	})
}

// change is a change of the number of clusters in a phase at a moment.
type change struct {
	at   time.Time
	kind int
	by   int
}

// loads counts the clusters of each group.
func (r *recorder) loads(x *planned) {
	r.each(x, func(g *Group, first int) {
		var changes []change
		for _, t := range x.tracks[first : first+g.Clusters] {
			changes = changesOf(changes, t.segments)
		}
		g.Load = loadsOf(changes)
	})
}

// changesOf appends the changes in the segments of a cluster.
func changesOf(out []change, segments []Segment) []change {
	for i := range segments {
		s, kind := &segments[i], kindIndex(segments[i].Kind)
		out = append(out, change{s.From, kind, 1})
		switch {
		case s.From.Before(s.To):
			out = append(out, change{s.To, kind, -1})
		case i+1 < len(segments): // the cluster continued after its end
			out = append(out, change{segments[i+1].From, kind, -1})
		}
	}
	return out
}

// loadsOf returns the counts after each change.
func loadsOf(changes []change) []Load {
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	var out []Load
	var now Load
	for i, c := range changes {
		now.At = c.at
		now.counts[c.kind] += c.by
		if i+1 == len(changes) || changes[i+1].at.After(c.at) {
			out = append(out, now)
		}
	}
	return out
}

// merge merges the groups of each stage if there are more groups than lanes.
func (r *recorder) merge(limit int) {
	groups := 0
	for i := range r.t.Stages {
		groups += len(r.t.Stages[i].Groups)
	}
	if groups <= limit {
		return
	}
	for i := range r.t.Stages {
		st := &r.t.Stages[i]
		if len(st.Groups) < 2 {
			continue
		}
		all := Group{Merged: len(st.Groups)}
		var changes []change
		for j := range st.Groups {
			g := &st.Groups[j]
			all.Clusters += g.Clusters
			changes = differences(changes, g.Load)
			for _, lane := range g.Lanes {
				changes = changesOf(changes, lane.Segments)
			}
		}
		all.Load = loadsOf(changes)
		st.Groups = []Group{all}
	}
}

// differences appends the changes between counts.
func differences(out []change, all []Load) []change {
	var before Load
	for i := range all {
		for k := range all[i].counts {
			if by := all[i].counts[k] - before.counts[k]; by != 0 {
				out = append(out, change{all[i].At, k, by})
			}
		}
		before = all[i]
	}
	return out
}
