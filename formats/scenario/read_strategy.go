package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/stages"
)

// maxAttempts bounds attempts.
const maxAttempts = math.MaxInt32

// sharedCap is the name of the scenario's cap.
const sharedCap = "cap"

// extras are the fields beside the strategy.
type extras struct {
	profile                                                stages.Profile
	attempts                                               int
	backoff, maxBackoff, deadline, unreachable, minHealthy time.Duration
	maxFailures                                            *intstr.IntOrString
	strict                                                 bool
	domains                                                []stages.Domain
	unassigned                                             stages.Unassigned
	rollback                                               *stages.RollbackPolicy
	// shares are the shares of stages, by name: a number, a percentage or the rest.
	shares map[string]share
}

// share is the share of a stage in the clusters that no stage selects.
type share struct {
	value
	take *intstr.IntOrString
}

// format is the format of a strategy.
type format uint8

const (
	kubeFleets format = iota + 1
	azures
)

// strategy reads the strategy and the fields beside it.
func (r *reader) strategy() {
	v, ok := r.root.Get("strategy")
	f, known := azures, r.Count()
	switch {
	case ok:
		f = r.formatOf(v)
		r.out.Strategy = r.strategyAt(v, f)
	case r.extras.profile == stages.ClusterUpdate:
		r.out.Strategy = azure.OneByOne()
	case !r.Failed("profile"):
		r.root.Place("strategy").Fail("is required: write the spec of a ClusterStagedUpdateStrategy or Azure's stages")
	}
	if r.Count() > known || r.Failed("profile") {
		r.out.Strategy = standIn(f)
	}
	if limit, ok := r.root.Get("maxFailures"); ok && f == azures {
		limit.Fail("is not for Azure's stages: write maxAllowedFailures in its stages and groups")
	}
	if again, ok := r.root.Get("rollback"); ok && r.out.Strategy.Rollback != nil {
		again.Fail("is in the strategy already; leave one of the two")
	}
	r.extras.complete(&r.out.Strategy, f)
	for name, x := range r.extras.shares {
		if !slices.ContainsFunc(r.out.Strategy.Stages, func(st stages.Stage) bool { return st.Name == name }) && r.Count() == known {
			x.Fail("there is no stage %s in the strategy", yamldoc.Clip(name))
		}
	}
	if r.out.Environment.Slots > 0 {
		r.out.Strategy.Cap = sharedCap
	}
	r.root.Check(r.out.Strategy.Validate(), r.place)
}

// standIn returns a strategy in place of an unreadable one, so that the fields beside it are
// still checked.
func standIn(f format) stages.Strategy {
	if f == azures {
		return azure.OneByOne()
	}
	return stages.Strategy{Stages: []stages.Stage{{Name: "x"}}}
}

// place turns a path of a strategy into a path of the document.
func (r *reader) place(path string) string {
	name, _, _ := strings.Cut(path, "[")
	stage := 0
	_, err := fmt.Sscanf(path, "stages[%d].", &stage)
	switch {
	case err == nil && (strings.HasSuffix(path, ".take") || strings.HasSuffix(path, ".rest")):
		return "shares." + r.out.Strategy.Stages[stage].Name
	case strings.Contains(path, "].domains"):
		return path[strings.Index(path, "].domains")+len("]."):]
	case strings.HasSuffix(path, ".maxFailures") && r.extras.maxFailures != nil:
		return "maxFailures"
	case name == "stages", strings.HasPrefix(path, "rollback") && r.extras.rollback == nil:
		return r.inStrategy("spec." + path)
	default:
		return strings.TrimPrefix(path, "run.")
	}
}

// complete adds the fields beside the strategy to it.
func (x *extras) complete(s *stages.Strategy, f format) {
	if x.profile != "" {
		s.Profile = x.profile
	}
	if x.unassigned != "" {
		s.Unassigned = x.unassigned
	}
	s.Attempts, s.Backoff.Duration, s.MaxBackoff.Duration = x.attempts, x.backoff, x.maxBackoff
	s.UnreachableDeadline.Duration = cmp.Or(x.unreachable, s.UnreachableDeadline.Duration)
	s.ProgressDeadline.Duration, s.MinHealthy.Duration = cmp.Or(x.deadline, s.ProgressDeadline.Duration), x.minHealthy
	if x.rollback != nil {
		s.Rollback = x.rollback
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Domains = x.domains
		if share, ok := x.shares[st.Name]; ok {
			st.Take, st.Rest = share.take, share.take == nil
			if st.Rest && f == azures && st.Selector != nil && len(st.Selector.MatchLabels)+len(st.Selector.MatchExpressions) == 0 {
				st.Selector = nil // Azure's stages without a memberSelector are read like this
			}
		}
		if f == kubeFleets && st.MaxFailures == nil {
			st.MaxFailures = x.maxFailures
		}
		st.StrictFailures = x.strict && isSome(st.MaxFailures)
		for j := range st.Groups {
			st.Groups[j].StrictFailures = x.strict && isSome(st.Groups[j].MaxFailures)
		}
	}
}

// share reads the share of one stage.
func (r *reader) share(stage string, v value) {
	if r.extras.shares == nil {
		r.extras.shares = map[string]share{}
	}
	if v.IsString() && v.Node.Value == "rest" {
		r.extras.shares[stage] = share{value: v}
		return
	}
	r.extras.shares[stage] = share{v, intOrPercent(v)}
}

// domain reads a failure domain of all stages.
func (r *reader) domain(v value) {
	var d stages.Domain
	v.Object(fields{
		"key":            func(v value) { d.Key = v.NonEmpty() },
		"maxConcurrency": func(v value) { d.MaxConcurrency = intOrPercent(v) },
	}, "key")
	r.extras.domains = append(r.extras.domains, d)
}

// isSome reports whether a budget allows a failure.
func isSome(v *intstr.IntOrString) bool {
	return v != nil && (v.Type == intstr.Int && v.IntVal > 0 || v.Type == intstr.String && v.StrVal != "0%")
}

// formatOf returns the format of a strategy by its fields, and reports a mixture of both.
func (r *reader) formatOf(v value) format {
	var azure, kube string
	if isObject(v) {
		return kubeFleets
	}
	list, _ := v.Get("stages")
	if !list.IsList() {
		return r.preferred()
	}
	list.Each(func(v value) {
		for name := range v.All() {
			switch name {
			case "groups", "memberSelector", "beforeGates", "afterGates", "afterStageWaitInSeconds", "maxAllowedFailures":
				azure = name
			case "labelSelector", "sortingLabelKey", "beforeStageTasks", "afterStageTasks":
				kube = name
			}
		}
	})
	switch {
	case azure != "" && kube != "":
		v.Fail("has %s, which is Azure's, and %s, which is KubeFleet's; write one of the two formats", azure, kube)
		return azures
	case azure != "":
		return azures
	case kube != "":
		return kubeFleets
	}
	return r.preferred()
}

// preferred returns the format if the fields do not determine it.
func (r *reader) preferred() format {
	if r.extras.profile == stages.ClusterUpdate {
		return azures
	}
	return kubeFleets
}

// strategyAt reads a strategy of a format.
func (r *reader) strategyAt(v value, f format) stages.Strategy {
	switch {
	case r.Failed("strategy"):
	case f == azures:
		s, err := azure.StrategyOf(v.Node, r.File, v.Path)
		if problems := problem.List(nil); errors.As(err, &problems) {
			for _, p := range problems {
				r.Tell(p.Line, p.Field, p.Text)
			}
		}
		return s
	default:
		return r.stagedStrategy(v)
	}
	return stages.Strategy{}
}

// isObject reports whether a strategy is a whole object of a hub, and not only its spec.
func isObject(v value) bool {
	_, is := v.Get("kind")
	return is
}

// inStrategy returns the path in the document of a path in the object of a strategy.
func (r *reader) inStrategy(path string) string {
	if v, ok := r.root.Get("strategy"); ok && isObject(v) {
		return strings.TrimSuffix("strategy."+path, ".")
	}
	return "strategy" + strings.TrimPrefix(path, "spec")
}

// stagedStrategy reads a ClusterStagedUpdateStrategy or a StagedUpdateStrategy, or only its spec.
func (r *reader) stagedStrategy(v value) stages.Strategy {
	known := r.Count()
	tree := v.Tree()
	if r.Count() > known {
		return stages.Strategy{}
	}
	object, _ := tree.(map[string]any)
	if !isObject(v) {
		object = map[string]any{
			"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterStagedUpdateStrategy",
			"metadata": map[string]any{"name": "strategy"}, "spec": tree,
		}
	}
	s, err := kubefleet.StrategyOf(&unstructured.Unstructured{Object: object})
	if problems := problem.List(nil); errors.As(err, &problems) {
		for _, p := range problems {
			r.root.Place(r.inStrategy(p.Field)).Fail("%s", p.Text)
		}
	}
	s.Name = ""
	return s
}

// intOrPercent reads a number or a percentage; the strategy checks its range.
func intOrPercent(v value) *intstr.IntOrString {
	var out intstr.IntOrString
	if v.IsString() {
		out = intstr.FromString(yamldoc.Clip(v.Node.Value))
	} else {
		out = intstr.FromInt32(int32(v.Integer(0, math.MaxInt32)))
	}
	return &out
}
