package watch

import (
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Question says in a few lines what a request asks to approve: the run, the stage, the snapshot, the digest of the
// plan, and the clusters that the stage has updated or is going to.
func Question(p *stages.Plan, r *approval.Request) []string {
	where := "stage " + r.Stage
	i := p.StageIndex(r.Stage)
	if i < 0 {
		return []string{"Approve " + r.Name + "?"}
	}
	first, last, next := p.Stages[i].Groups[0].First, p.Stages[i].End()-1, "nothing is left then: the run completes"
	if i+1 < len(p.Stages) {
		after := &p.Stages[i+1]
		next = fmt.Sprintf("stage %s comes then, of %d clusters: %s", after.Name, after.Size(), named(p, after.Groups[0].First, after.End()-1))
	}
	if r.Group != "" {
		where, next = "group "+r.Group+" of "+where, ""
		for _, g := range p.Stages[i].Groups {
			if g.Name == r.Group {
				first, last = g.First, g.First+g.Len-1
			}
		}
	}
	what := "updated"
	if p.Stages[i].Remove {
		what = "cleaned"
	}
	if r.When == approval.Before {
		what, next = "to be "+what, ""
	}
	out := []string{
		fmt.Sprintf("Approve %s?", r.Name),
		fmt.Sprintf("  run %s, %s %s, snapshot %d of %s, plan %.12s", r.Run, strings.ToLower(string(r.When)), where, r.Snapshot, r.Placement, r.Plan),
		fmt.Sprintf("  clusters %s: %s", what, named(p, first, last)),
	}
	if next != "" {
		out = append(out, "  "+next)
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
