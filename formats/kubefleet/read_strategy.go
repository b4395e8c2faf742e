package kubefleet

import (
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/internal/checks"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// MaxStages is the maximum number of stages of a strategy, as in KubeFleet's API.
const MaxStages = 31

// maxWait is the longest time a stage may wait.
const maxWait = 365 * 24 * time.Hour

func readStrategy(d *document, namespaced bool) stages.Strategy {
	var s stages.Strategy
	readObject(d, metadata{namespaced: namespaced, name: subdomain}, func(v value) {
		v.Object(fields{
			"stages":              func(v value) { s.Stages = stageList(v) },
			"progressDeadline":    func(v value) { s.ProgressDeadline.Duration = v.Period() },
			"unreachableDeadline": func(v value) { s.UnreachableDeadline.Duration = v.Period() },
			"rollback":            func(v value) { s.Rollback = rollback.Read(v, "count") },
		}, "stages")
	}, "spec")
	d.Root().Check(s.Validate(), func(noun string) string { return "spec." + fieldOfChecks(noun) })
	s.Name = engineNameOf(d, namespaced)
	return s
}

// stageList reads at most MaxStages stages.
func stageList(v value) (list []stages.Stage) {
	v.Each(func(v value) {
		if len(list) < MaxStages {
			list = append(list, stage(v))
		}
	})
	if n := v.Len(); n > MaxStages {
		v.Fail("has %d stages; a strategy has at most %d", n, MaxStages)
	}
	return list
}

func stage(v value) stages.Stage {
	var s stages.Stage
	var before, after []check.Check
	v.Object(fields{
		"name":             func(v value) { s.Name = v.Str() },
		"labelSelector":    func(v value) { s.Selector = labelSelector(v) },
		"sortingLabelKey":  func(v value) { s.SortKey = sortKey(v) },
		"maxConcurrency":   func(v value) { s.MaxConcurrency = intOrPercent(v) },
		"maxFailures":      func(v value) { s.MaxFailures = allowedFailures(v) },
		"beforeStageTasks": func(v value) { s.Before = yamldoc.List(v, beforeTask) },
		"afterStageTasks":  func(v value) { s.After = yamldoc.List(v, task) },
		"checks":           func(v value) { s.Checks = checks.Read(v) },
		"clusterChecks":    func(v value) { s.ClusterChecks = checks.Read(v) },
		// KubeFleet has no check tasks, so they have fields of their own beside its tasks.
		"beforeStageChecks": func(v value) { before = checks.Read(v) },
		"afterStageChecks":  func(v value) { after = checks.Read(v) },
	}, "name")
	s.Before, s.After = withChecks(s.Before, before), withChecks(s.After, after)
	return s
}

// fieldOfChecks converts a path in the strategy to a path in the document, where the checks of a
// task are a list of their own.
func fieldOfChecks(path string) string {
	for _, side := range []string{"before", "after"} {
		if stage, rest, ok := strings.Cut(path, "."+side+"StageTasks["); ok {
			if _, field, ok := strings.Cut(rest, "].checks"); ok {
				return stage + "." + side + "StageChecks" + field
			}
		}
	}
	return path
}

// withChecks returns the tasks with one for the checks, if there are any.
func withChecks(tasks []stages.Task, list []check.Check) []stages.Task {
	if len(list) == 0 {
		return tasks
	}
	return append(tasks, stages.Task{Type: stages.CheckTask, Checks: list})
}

func sortKey(v value) string {
	s := v.Str()
	if s == "" && v.OK() {
		v.Fail("must be the key of a label; leave it out to order clusters by name")
	}
	return s
}

// intOrPercent reads a number of at least 1 or a percentage. The strategy checks the range of the
// percentage.
func intOrPercent(v value) *intstr.IntOrString { return numberOrPercent(v, 1) }

// allowedFailures reads the number of clusters that may fail.
func allowedFailures(v value) *intstr.IntOrString { return numberOrPercent(v, 0) }

func numberOrPercent(v value, least int) *intstr.IntOrString {
	x, ok := v.Scalar()
	if !ok {
		return nil
	}
	var out intstr.IntOrString
	switch x := x.(type) {
	case int64:
		if x < math.MinInt32 || x > math.MaxInt32 {
			v.Fail("must be at most %d", math.MaxInt32)
			return nil
		}
		out = intstr.FromInt32(int32(x))
	case string:
		out = intstr.FromString(yamldoc.Clip(x))
	default:
		v.Fail(`must be a number of at least %d, or a percentage in the form "25%%", not %s`, least, v.Describe())
		return nil
	}
	return &out
}

// beforeTask reads a task before a stage. KubeFleet allows no TimedWait there.
func beforeTask(v value) stages.Task {
	t := task(v)
	if kind, ok := v.Get("type"); ok && t.Type == stages.TimedWait {
		kind.Fail("TimedWait is not allowed before a stage; write Approval, or wait after the stage before")
	}
	return t
}

func task(v value) stages.Task {
	var t stages.Task
	v.Object(fields{
		"type":     func(v value) { t.Type = yamldoc.OneOf(v, stages.TimedWait, stages.Approval) },
		"waitTime": func(v value) { t.Wait.Duration = v.Period() },
		"approval": func(v value) { t.Approval = rollback.Policy(v, "count") },
	}, "type")
	return t
}

// ChecksOf converts checks to the form of a document.
func ChecksOf(all []check.Check) []v1beta1.Check {
	var out []v1beta1.Check
	for i := range all {
		c := &all[i]
		form := v1beta1.Check{
			Name: c.Name, Provider: c.Provider, Query: c.Query, Object: c.Object, Cluster: c.Cluster, ClusterLabel: c.ClusterLabel, Min: c.Min, Max: c.Max,
			InitialDelay: duration(c.InitialDelay.Duration), Interval: duration(c.Interval.Duration), Count: int32(c.Count), FailureLimit: int32(c.FailureLimit),
			InconclusiveLimit: int32(c.InconclusiveLimit), Empty: v1beta1.CheckPhase(c.Empty), Expires: duration(c.Expires.Duration),
		}
		if c.ConsecutiveErrorLimit != nil {
			form.ConsecutiveErrorLimit = new(int32(*c.ConsecutiveErrorLimit))
		}
		out = append(out, form)
	}
	return out
}

// duration converts a duration for a document; 0 becomes nil.
func duration(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}
