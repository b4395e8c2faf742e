package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
)

// doubts warns of what a plan may do and probably does not mean.
type doubts struct{ *planner }

// warnOfBudgets warns of budgets that never count, because no cluster can fail: it is tried again without end,
// nothing bounds the time that it takes, and nothing is measured. A strategy without budgets is one that waits for its clusters, and needs no
// warning.
func (b doubts) warnOfBudgets() {
	s := &b.plan.Strategy
	if s.AttemptLimit() > 0 || s.ProgressDeadline > 0 {
		return
	}
	var vain []string
	add := func(v *intstr.IntOrString, failures, clusters int, timeout bool, where string) {
		if v != nil && failures < clusters && !timeout { // more than there are is a warning already
			vain = append(vain, "maxFailures of "+where)
		}
	}
	timeouts := false
	for i := range s.Stages {
		st, planned := &s.Stages[i], &b.plan.Stages[i]
		if len(st.Checks)+len(st.ClusterChecks) > 0 { // what is measured fails
			timeouts = true
			continue
		}
		timeouts = timeouts || st.Timeout > 0
		inGroups := false
		for j := range st.Groups {
			g := &st.Groups[j]
			inGroups = inGroups || g.Timeout > 0
			add(g.MaxFailures, planned.Groups[j].MaxFailures, planned.Groups[j].Len, st.Timeout > 0 || g.Timeout > 0, whereOf(st.Name, g.Name))
		}
		timeouts = timeouts || inGroups
		add(st.MaxFailures, planned.MaxFailures, planned.Size(), st.Timeout > 0 || inGroups, whereOf(st.Name, ""))
	}
	if s.Rollback.Includes(stages.BudgetExceeded) && !timeouts {
		vain = append(vain, "rollback for cause "+string(stages.BudgetExceeded))
	}
	if len(vain) > 0 {
		b.warn("%s can never count: a cluster that cannot be updated is tried again without end and never fails; set progressDeadline or attempts", someOf(vain))
	}
}

// From how many clusters on it is a surprise that they are updated one after the other: where a percentage comes to that,
// and where no concurrency is set at all.
const (
	manyForPercent = 10
	manyUnset      = 50
)

// warnOfSerialStages warns of stages and groups that update many clusters one after the other without being asked to.
func (b doubts) warnOfSerialStages() {
	if b.target.Part {
		return
	}
	var unset []string
	for i := range b.plan.Strategy.Stages {
		st, planned := &b.plan.Strategy.Stages[i], &b.plan.Stages[i]
		where, size := whereOf(st.Name, ""), planned.Size()
		b.warnOfPercent(where, st.MaxConcurrency, planned.MaxConcurrency, size)
		b.warnOfStrict(where, st.StrictFailures, planned.MaxFailures, planned.MaxConcurrency, size)
		if len(st.Groups) == 0 && st.MaxConcurrency == nil && size >= manyUnset {
			unset = append(unset, fmt.Sprintf("%s (%s)", where, clusterCount(size)))
		}
		for j := range st.Groups {
			g, group := &st.Groups[j], &planned.Groups[j]
			where := whereOf(st.Name, g.Name)
			b.warnOfPercent(where, g.MaxConcurrency, group.MaxConcurrency, group.Len)
			b.warnOfStrict(where, g.StrictFailures, group.MaxFailures, group.MaxConcurrency, group.Len)
			if g.MaxConcurrency == nil && group.Len >= manyUnset {
				unset = append(unset, fmt.Sprintf("%s (%s)", where, clusterCount(group.Len)))
			}
		}
	}
	if len(unset) > 0 {
		b.warn("the clusters of %s are updated one after the other: maxConcurrency is not set, which is 1", someOf(unset))
	}
}

func (b doubts) warnOfPercent(where string, v *intstr.IntOrString, resolved, size int) {
	if v != nil && v.Type == intstr.String && resolved == 1 && size >= manyForPercent {
		b.warn("%s updates its %s one after the other: maxConcurrency %s of them is 1, rounded down", where, clusterCount(size), v.StrVal)
	}
}

func (b doubts) warnOfStrict(where string, strict bool, failures, concurrency, size int) {
	if strict && failures == 1 && concurrency != 1 && size > 1 {
		b.warn("%s updates its %s one after the other: strictFailures lets as many be in flight as may still fail, and maxFailures is 1", where, clusterCount(size))
	}
}

func clusterCount(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}
