package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Question describes in a few lines the subject of a request: the run, the stage, the snapshot,
// the digest of the plan, and the clusters from [Affected].
func Question(p *stages.Plan, r *approval.Request) []string {
	out := []string{"Approve " + r.Name + "?"}
	if p.StageIndex(r.Stage) < 0 {
		return out
	}
	where := "stage " + r.Stage
	if r.Group != "" {
		where = "group " + r.Group + " of " + where
	}
	out = append(out, fmt.Sprintf("  run %s, plan %.12s, %s %s, %s of %s", r.Run, r.Plan, strings.ToLower(string(r.When)), where, snapshotName(r.Snapshot), r.Placement))
	for _, line := range Affected(p, r) {
		out = append(out, "  "+line)
	}
	return out
}

// Affected describes in a few lines the clusters of a request: the clusters that its stage or
// group has updated or will update, and the clusters after its approval.
func Affected(p *stages.Plan, r *approval.Request) []string {
	i := p.StageIndex(r.Stage)
	if i < 0 {
		return nil
	}
	st := &p.Stages[i]
	what := "updated"
	if st.Remove {
		what = "cleaned"
	}
	if r.When == approval.Before {
		what = "to be " + what
	}
	about := func(first, last int) string { return fmt.Sprintf("clusters %s: %s", what, named(p, first, last)) }
	if r.Group != "" {
		at := slices.IndexFunc(st.Groups, func(g stages.PlannedGroup) bool { return g.Name == r.Group })
		if at < 0 {
			return nil
		}
		out := []string{about(st.Groups[at].First, st.Groups[at].First+st.Groups[at].Len-1)}
		for _, g := range st.Groups {
			if r.When == approval.After && slices.Contains(g.After, at) {
				out = append(out, fmt.Sprintf("group %s comes then, of %d clusters: %s", g.Name, g.Len, named(p, g.First, g.First+g.Len-1)))
			}
		}
		return out
	}
	out := []string{about(st.Groups[0].First, st.End()-1)}
	switch {
	case r.When == approval.Before:
	case i+1 == len(p.Stages):
		out = append(out, "nothing is left then: the run completes")
	default:
		next := &p.Stages[i+1]
		out = append(out, fmt.Sprintf("stage %s comes then, of %d clusters: %s", next.Name, next.Size(), named(p, next.Groups[0].First, next.End()-1)))
	}
	return out
}

// named lists clusters from a position to another, the first few by name.
func named(p *stages.Plan, first, last int) string {
	const most = 5
	var names []string
	for pos := first; pos <= last && len(names) < most; pos++ {
		names = append(names, p.Clusters[pos].Name)
	}
	switch left := last - first + 1 - len(names); {
	case len(names) == 0:
		return "none"
	case left > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), left)
	default:
		return strings.Join(names, ", ")
	}
}
