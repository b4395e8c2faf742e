package kubefleet

import (
	"math"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// maxWait is the longest time a stage may wait.
const maxWait = 365 * 24 * time.Hour

func (d *document) strategy(namespaced bool) stages.Strategy {
	var s stages.Strategy
	d.read(metadata{namespaced: namespaced, name: value.subdomain}, func(v value) {
		v.object(fields{
			"stages":           func(v value) { v.list(func(v value) { s.Stages = append(s.Stages, v.stage()) }) },
			"progressDeadline": func(v value) { s.ProgressDeadline = v.wait() },
			"rollback":         func(v value) { s.Rollback = v.rollback() },
		}, "stages")
	}, "spec")
	d.check(s.Validate(), func(noun string) string { return "spec." + noun })
	s.Name = d.engineName(namespaced)
	return s
}

func (v value) stage() stages.Stage {
	var s stages.Stage
	v.object(fields{
		"name":             func(v value) { s.Name = v.str() },
		"labelSelector":    func(v value) { s.Selector = v.labelSelector() },
		"sortingLabelKey":  func(v value) { s.SortKey = v.sortKey() },
		"maxConcurrency":   func(v value) { s.MaxConcurrency = v.intOrPercent() },
		"maxFailures":      func(v value) { s.MaxFailures = v.allowedFailures() },
		"beforeStageTasks": func(v value) { v.list(func(v value) { s.Before = append(s.Before, v.beforeTask()) }) },
		"afterStageTasks":  func(v value) { v.list(func(v value) { s.After = append(s.After, v.task()) }) },
	}, "name")
	return s
}

func (v value) sortKey() string {
	s := v.str()
	if s == "" && !v.doc.broken[v.path] {
		v.fail("must be the key of a label; leave it out to order clusters by name")
	}
	return s
}

// intOrPercent reads a number of at least 1 or a percentage, the range of which
// the strategy checks.
func (v value) intOrPercent() *intstr.IntOrString { return v.numberOrPercent(1) }

// allowedFailures reads how many clusters may fail.
func (v value) allowedFailures() *intstr.IntOrString { return v.numberOrPercent(0) }

func (v value) numberOrPercent(least int) *intstr.IntOrString {
	x, ok := v.scalar()
	if !ok {
		return nil
	}
	var out intstr.IntOrString
	switch x := x.(type) {
	case int64:
		if x < math.MinInt32 || x > math.MaxInt32 {
			v.fail("must be at most %d", math.MaxInt32)
			return nil
		}
		out = intstr.FromInt32(int32(x))
	case string:
		out = intstr.FromString(clip(x))
	default:
		v.fail(`must be a number of at least %d, or a percentage in the form "25%%", not %s`, least, v.describe())
		return nil
	}
	return &out
}

// beforeTask reads a task before a stage, where KubeFleet knows no waiting.
func (v value) beforeTask() stages.Task {
	t := v.task()
	if kind, ok := v.get("type"); ok && t.Type == stages.TimedWait {
		kind.fail("TimedWait is not allowed before a stage; write Approval, or wait after the stage before")
	}
	return t
}

func (v value) task() stages.Task {
	var t stages.Task
	v.object(fields{
		"type": func(v value) {
			t.Type = stages.TaskType(v.oneOf(string(stages.TimedWait), string(stages.Approval)))
		},
		"waitTime": func(v value) { t.Wait = v.wait() },
		"approval": func(v value) { t.Approval = v.approvalPolicy() },
	}, "type")
	return t
}

// rollback reads when a run takes back what it brought. KubeFleet has no such field.
func (v value) rollback() *stages.Rollback {
	var b stages.Rollback
	v.object(fields{
		"causes": func(v value) { b.Causes = v.causes() },
		"newClusters": func(v value) {
			b.New = stages.NewClusters(v.oneOf(string(stages.RemoveNew), string(stages.LeaveNew)))
		},
		"approval": func(v value) { b.Approval = v.approvalPolicy() },
	})
	return &b
}

// causes reads what makes a run take back what it brought. That one stands there
// twice the strategy reports.
func (v value) causes() []stages.RollbackCause {
	var out []stages.RollbackCause
	v.list(func(v value) {
		out = append(out, stages.RollbackCause(v.oneOf(string(stages.BudgetExceeded), string(stages.GateRejected), string(stages.OnCommand))))
	})
	if v.node.Kind == yaml.SequenceNode && len(out) == 0 {
		v.fail("must name a cause; leave it out for %s and %s", stages.BudgetExceeded, stages.GateRejected)
	}
	return out
}

// approvalPolicy reads what a gate asks of approvals. KubeFleet has no such field; the CRDs of a hub
// that Slipway serves do.
func (v value) approvalPolicy() *approval.Policy {
	var p approval.Policy
	v.object(fields{
		"quorums": func(v value) {
			v.list(func(v value) { p.Quorums = append(p.Quorums, v.quorum()) })
		},
		"forbidStarter":  func(v value) { p.ForbidStarter = v.boolean() },
		"expires":        func(v value) { p.Expires = v.wait() },
		"requireBinding": func(v value) { p.RequireBinding = v.boolean() },
	})
	return &p
}

func (v value) quorum() approval.Quorum {
	var q approval.Quorum
	v.object(fields{
		"group": func(v value) { q.Group = v.str() },
		"count": func(v value) {
			n, ok := v.integer()
			if ok && (n < 1 || n > math.MaxInt32) {
				v.fail("must be a number of at least 1")
				return
			}
			q.Count = int(n)
		},
	}, "count")
	return q
}

// wait reads a duration of more than 0 and at most 365 days.
func (v value) wait() time.Duration {
	s := v.str()
	if v.doc.broken[v.path] {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxWait {
		v.fail("%q must be a duration of more than 0 and at most 365 days (8760h), such as 30s, 1m or 1h30m", clip(s))
		return 0
	}
	return d
}
