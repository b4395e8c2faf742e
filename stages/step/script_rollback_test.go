package step

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/stages"
)

// rollBack plans the rollback of this run. cluster=index pairs are the previous snapshots of
// clusters, cluster="keep: why" keeps a cluster, and cluster=back marks a cluster that has its
// previous state again. The plan must survive encoding.
func (w *scriptEnv) rollBack(a scriptArgs) string {
	previous := map[string]stages.Previous{}
	for name, value := range a.named {
		if why, ok := strings.CutPrefix(value, "keep: "); ok {
			previous[name] = stages.Previous{Keep: why}
			continue
		}
		n, err := strconv.Atoi(value)
		previous[name] = stages.Previous{Index: n, Snapshot: "s" + value, Revision: "r" + value, Back: err != nil}
	}
	p, err := RollBack(w.cur.plan, &w.cur.r, previous)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	if len(p.Clusters) > 0 {
		header, pages := p.Encode()
		if p, err = stages.DecodePlan(header, pages); err != nil {
			return "error: " + err.Error() + "\n"
		}
		w.plan = p
	}
	return rollbackText(p)
}

func rollbackText(p *stages.Plan) string {
	out := fmt.Sprintf("takes back %s index=%d snapshot=%s\n%s", p.Rollback.Run, p.Index, p.Snapshot, planText(p))
	for _, k := range p.Rollback.Kept {
		out += fmt.Sprintf("keeps %d: %s: %s\n", k.Count, strings.Join(k.Clusters, " "), k.Reason)
	}
	return out
}
