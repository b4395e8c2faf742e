package laws

import (
	"fmt"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// TouchProblem returns why a run must not have changed a cluster, for example because a gate
// before the cluster has not passed, or "" if the run may have changed it.
func TouchProblem(p *stages.Plan, r *step.Run, cluster string) string {
	pos, ok := p.Position(cluster)
	if !ok {
		return fmt.Sprintf("cluster %s was touched by run %s, whose plan does not have it", cluster, r.Name)
	}
	stage, _ := p.StageOf(pos)
	for i := range stage {
		if r.Form(runstate.Key{}).Stages[i].Ended == 0 {
			return fmt.Sprintf("cluster %s of stage %s was touched by run %s before stage %s had ended with its gates", cluster, p.Stages[stage].Name, r.Name, p.Stages[i].Name)
		}
	}
	if r.Form(runstate.Key{}).Stages[stage].Started == 0 {
		return fmt.Sprintf("cluster %s was touched by run %s before its stage %s had started", cluster, r.Name, p.Stages[stage].Name)
	}
	return ""
}

// MemberProblem returns the problem of the revision that a cluster records for a run, or "". The
// revision must be the planned one, and gates must have allowed the change.
func MemberProblem(p *stages.Plan, r *step.Run, cluster, revision string) string {
	if text := TouchProblem(p, r, cluster); text != "" {
		return text
	}
	pos, _ := p.Position(cluster)
	want := ""
	if i := p.Clusters[pos].Revision; i >= 0 {
		want = p.Revisions[i]
	}
	if revision != want {
		return fmt.Sprintf("cluster %s is at revision %.12q for run %s, whose plan names %.12q", cluster, revision, r.Name, want)
	}
	return ""
}
