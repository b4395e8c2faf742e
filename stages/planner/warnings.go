package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
)

// warner warns about settings that are valid but probably mistakes.
type warner struct{ *planner }

// warnOfBudgets warns about budgets that never count because no cluster can fail: attempts and time
// are not limited, and nothing is measured. A strategy without budgets waits for its clusters on
// purpose and needs no warning.
func (b warner) warnOfBudgets() {
	s := &b.plan.Strategy
	if s.AttemptLimit() > 0 || s.ProgressDeadline.Duration > 0 || s.UnreachableDeadline.Duration > 0 {
		return
	}
	var vain []string
	add := func(v *intstr.IntOrString, failures, clusters int, timeout bool, where string) {
		// a budget of at least the number of clusters has a warning already
		if v != nil && failures < clusters && !timeout {
			vain = append(vain, "maxFailures of "+where)
		}
	}
	timeouts := false
	for i := range s.Stages {
		st, planned := &s.Stages[i], &b.plan.Stages[i]
		if len(st.Checks)+len(st.ClusterChecks) > 0 { // checks can fail
			timeouts = true
			continue
		}
		timeouts = timeouts || st.Timeout.Duration > 0
		inGroups := false
		for j := range st.Groups {
			g := &st.Groups[j]
			inGroups = inGroups || g.Timeout.Duration > 0
			add(g.MaxFailures, planned.Groups[j].MaxFailures, planned.Groups[j].Len, st.Timeout.Duration > 0 || g.Timeout.Duration > 0, whereOf(st.Name, g.Name))
		}
		timeouts = timeouts || inGroups
		add(st.MaxFailures, planned.MaxFailures, planned.Size(), st.Timeout.Duration > 0 || inGroups, whereOf(st.Name, ""))
	}
	if s.Rollback.Includes(stages.BudgetExceeded) && !timeouts {
		vain = append(vain, "rollback for cause "+string(stages.BudgetExceeded))
	}
	if len(vain) > 0 {
		b.warn("%s can never count: a cluster that cannot be updated is tried again without end and never fails; set progressDeadline or attempts", someOf(vain))
	}
}

// The sizes from which serial updates cause a warning: manyForPercent if a percentage resolves to
// 1, and manyUnset if no concurrency is set.
const (
	manyForPercent = 10
	manyUnset      = 50
)

// warnOfSerialStages warns about stages and groups that update many clusters one after the other,
// although the strategy does not explicitly ask for that.
func (b warner) warnOfSerialStages() {
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

func (b warner) warnOfPercent(where string, v *intstr.IntOrString, resolved, size int) {
	if v != nil && v.Type == intstr.String && resolved == 1 && size >= manyForPercent {
		b.warn("%s updates its %s one after the other: maxConcurrency %s of them is 1, rounded down", where, clusterCount(size), v.StrVal)
	}
}

func (b warner) warnOfStrict(where string, strict bool, failures, concurrency, size int) {
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
