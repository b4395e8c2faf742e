package kubefleet

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/checks"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// WritePlacement returns the placement as YAML, with spec.strategy.type
// External, as a ResourcePlacement if its name is that of one (see
// [EngineName]), and behind it a document for each of its overrides, bound to the
// placement. Reading it gives the same placement, with the defaults of its
// ApplyStrategy named. The error names every field that the format cannot
// express, among them an empty ApplyStrategy.WhenToApply: KubeFleet watches the
// clusters of every placement.
func WritePlacement(p fleet.Placement) ([]byte, error) {
	var w writer
	w.placement(p, Rollout{Type: External}, nil)
	namespace, name, _ := objectName(p.Name)
	for _, o := range p.Overrides {
		w.override(Override{Override: o, Placement: name, PlacementNamespace: namespace})
	}
	return w.yaml()
}

// WriteStrategy returns the strategy as YAML. The error names every field that
// the format cannot express: groups, removal, profile, attempts, and what a gate
// asks of approvals.
func WriteStrategy(s stages.Strategy) ([]byte, error) {
	var w writer
	w.strategy(s)
	return w.yaml()
}

func (w *writer) placement(p fleet.Placement, rollout Rollout, errs field.ErrorList) {
	namespace, name, wrong := objectName(p.Name)
	errs = append(errs, wrong...)
	strategy := rolloutTree(rollout)
	if apply := applyTree(p); len(apply) > 0 {
		strategy["applyStrategy"] = apply
	}
	if p.DeletePolicy != "" {
		strategy["deleteStrategy"] = map[string]any{"propagationPolicy": string(p.DeletePolicy)}
	}
	spec := map[string]any{"resourceSelectors": yamldoc.Plain(writtenSelectors(p.Selectors)), "strategy": strategy}
	if len(p.Carry) > 0 {
		spec["carry"] = yamldoc.Plain(p.Carry)
	}
	if p.HistoryLimit != 0 {
		spec["revisionHistoryLimit"] = int64(p.HistoryLimit)
	}
	if policy := policyTree(p.Policy); len(policy) > 0 {
		spec["policy"] = policy
	}
	errs = append(errs, placementErrors(p)...)
	if p.Namespace != namespace {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), yamldoc.Clip(p.Namespace), "must be that of the name, \""+namespace+"\""))
	}
	errs = append(errs, confinedErrors(p.Selectors, namespace)...)
	errs = append(errs, rolloutErrors(rollout)...)
	w.add(newManifest(placementKind(namespace), namespace, name, spec), errs)
}

func placementKind(namespace string) string {
	if namespace == "" {
		return "ClusterResourcePlacement"
	}
	return "ResourcePlacement"
}

// writtenSelectors returns the selectors without their namespaces, which are
// the placement's.
func writtenSelectors(selectors []snapshot.Selector) []snapshot.Selector {
	selectors = slices.Clone(selectors)
	for i := range selectors {
		selectors[i].Namespace = ""
	}
	return selectors
}

// confinedErrors names selectors that are not those of a placement in the
// namespace, or in none.
func confinedErrors(selectors []snapshot.Selector, namespace string) field.ErrorList {
	var errs field.ErrorList
	for i, s := range selectors {
		if s.Namespace != namespace {
			errs = append(errs, field.Invalid(field.NewPath("selectors").Index(i).Child("namespace"), yamldoc.Clip(s.Namespace),
				"must be that of the placement, or none for a ClusterResourcePlacement"))
		}
		if namespace != "" && isClusterScoped(s.Group, s.Kind) {
			errs = append(errs, field.Invalid(field.NewPath("selectors").Index(i).Child("kind"), s.Kind, "is cluster-scoped"))
		}
	}
	return errs
}

// applyTree is the strategy of a placement, without what is empty.
func applyTree(p fleet.Placement) map[string]any {
	s := &p.ApplyStrategy
	tree := map[string]any{}
	for key, v := range map[string]string{
		"type": string(cmp.Or(s.Type, apply.ServerSide)), "comparisonOption": string(s.ComparisonOption),
		"whenToApply": string(s.WhenToApply), "whenToTakeOver": string(s.WhenToTakeOver),
	} {
		if v != "" {
			tree[key] = v
		}
	}
	if cmp.Or(s.Type, apply.ServerSide) == apply.ServerSide {
		tree["serverSideApplyConfig"] = map[string]any{"force": !s.RefuseConflicts}
	}
	if p.AllowCoOwnership {
		tree["allowCoOwnership"] = true
	}
	return tree
}

func placementErrors(p fleet.Placement) field.ErrorList {
	errs := snapshot.ValidateSelectors(p.Selectors, field.NewPath("selectors"))
	for _, e := range yamldoc.FieldErrors(p.Policy.Validate()) {
		e.Field = "policy." + e.Field
		errs = append(errs, e)
	}
	if p.HistoryLimit < 0 || p.HistoryLimit > 1000 {
		errs = append(errs, field.Invalid(field.NewPath("historyLimit"), p.HistoryLimit, "must be from 1 to 1000, or 0 for the default"))
	}
	if cmp.Or(p.Admission, stages.QueueRun) != stages.QueueRun {
		errs = append(errs, inexpressible("admission"))
	}
	if p.ApplyStrategy.WhenToApply == "" {
		errs = append(errs, field.Required(field.NewPath("applyStrategy", "whenToApply"),
			"must be Always or IfNotDrifted, because KubeFleet watches the clusters of every placement"))
	}
	if len(p.ApplyStrategy.Ignore) > 0 {
		errs = append(errs, inexpressible("applyStrategy.ignore"))
	}
	if len(p.ApplyStrategy.Secrets) > 0 {
		errs = append(errs, inexpressible("applyStrategy.secrets"))
	}
	if p.ReportStatus {
		errs = append(errs, inexpressible("reportStatus"))
	}
	if p.ApplyStrategy.DryRun {
		errs = append(errs, inexpressible("applyStrategy.dryRun"))
	}
	if len(p.ApplyStrategy.Health) > 0 {
		errs = append(errs, inexpressible("applyStrategy.health"))
	}
	return errs
}

func selectorTree(s *metav1.LabelSelector) any { return yamldoc.Plain(s) }

func (w *writer) strategy(s stages.Strategy) {
	list := make([]any, len(s.Stages))
	for i := range s.Stages {
		list[i] = stageTree(&s.Stages[i])
	}
	namespace, name, errs := objectName(s.Name)
	s.Name = ""
	errs = append(errs, yamldoc.FieldErrors(s.Validate())...)
	errs = append(errs, strategyErrors(&s)...)
	spec := map[string]any{"stages": list}
	if s.ProgressDeadline != 0 {
		spec["progressDeadline"] = waitTime(s.ProgressDeadline)
	}
	if s.Rollback != nil {
		spec["rollback"] = rollbackTree(s.Rollback)
	}
	w.add(newManifest(scoped(namespace, "StagedUpdateStrategy"), namespace, name, spec), errs)
}

// rollbackTree is a rollback without what is empty.
func rollbackTree(b *stages.RollbackPolicy) any {
	form := rollback.FormOf(b)
	if form.Approval != nil && b.Approval.Expires != 0 {
		form.Approval.Expires = waitTime(b.Approval.Expires)
	}
	return yamldoc.Plain(form)
}

func stageTree(s *stages.Stage) map[string]any {
	tree := map[string]any{"name": s.Name}
	if s.Selector != nil {
		tree["labelSelector"] = selectorTree(s.Selector)
	}
	if s.SortKey != "" {
		tree["sortingLabelKey"] = s.SortKey
	}
	if s.MaxConcurrency != nil {
		tree["maxConcurrency"] = yamldoc.Plain(s.MaxConcurrency)
	}
	if s.MaxFailures != nil {
		tree["maxFailures"] = yamldoc.Plain(s.MaxFailures)
	}
	for field, list := range map[string][]check.Check{
		"checks": s.Checks, "clusterChecks": s.ClusterChecks, "beforeStageChecks": checks.OfTasks(s.Before), "afterStageChecks": checks.OfTasks(s.After),
	} {
		if len(list) > 0 {
			tree[field] = yamldoc.Plain(checks.FormsOf(list))
		}
	}
	if list := taskTrees(s.Before); len(list) > 0 {
		tree["beforeStageTasks"] = list
	}
	if list := taskTrees(s.After); len(list) > 0 {
		tree["afterStageTasks"] = list
	}
	return tree
}

func taskTrees(tasks []stages.Task) []any {
	var list []any
	for _, t := range tasks {
		if t.Type == stages.CheckTask { // a list of its own
			continue
		}
		tree := map[string]any{"type": string(t.Type)}
		if t.Type == stages.TimedWait {
			tree["waitTime"] = waitTime(t.Wait)
		}
		list = append(list, tree)
	}
	return list
}

// waitTime prints a duration in hours, minutes and seconds, which are the
// units that KubeFleet reads.
func waitTime(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	return d.String()
}

// strategyErrors names what the format has no place for.
func strategyErrors(s *stages.Strategy) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"unassigned", cmp.Or(s.Unassigned, stages.UnassignedError) != stages.UnassignedError},
		{"profile", cmp.Or(s.Profile, stages.Staged) != stages.Staged},
		{"attempts", s.Attempts != 0},
		{"backoff", s.Backoff != 0},
		{"maxBackoff", s.MaxBackoff != 0},
		{"minHealthy", s.MinHealthy != 0},
		{"removal.maxConcurrency", s.Removal.MaxConcurrency != nil},
		{"removal.deadline", s.Removal.Deadline != 0},
		{"removal.beforeStageTasks", len(s.Removal.Before) > 0},
		{"removal.afterStageTasks", len(s.Removal.After) > 0},
	} {
		if f.set {
			errs = append(errs, inexpressible(f.path))
		}
	}
	if n := len(s.Stages); n > MaxStages {
		errs = append(errs, field.TooMany(field.NewPath("stages"), n, MaxStages))
	}
	for i := range s.Stages {
		errs = append(errs, stageErrors(&s.Stages[i], "stages["+strconv.Itoa(i)+"]")...)
	}
	return errs
}

func stageErrors(s *stages.Stage, path string) field.ErrorList {
	var errs field.ErrorList
	if len(s.Groups) > 0 {
		errs = append(errs, inexpressible(path+".groups"))
	}
	if s.StrictFailures {
		errs = append(errs, inexpressible(path+".strictFailures"))
	}
	if s.Take != nil {
		errs = append(errs, inexpressible(path+".take"))
	}
	if s.Rest {
		errs = append(errs, inexpressible(path+".rest"))
	}
	for i, t := range s.Before {
		at := path + ".beforeStageTasks[" + strconv.Itoa(i) + "]"
		if t.Type == stages.TimedWait {
			errs = append(errs, inexpressible(at+".type"))
		}
		errs = append(errs, taskErrors(&t, at)...)
	}
	for i, t := range s.After {
		errs = append(errs, taskErrors(&t, path+".afterStageTasks["+strconv.Itoa(i)+"]")...)
	}
	return errs
}

func taskErrors(t *stages.Task, path string) field.ErrorList {
	errs := approvalErrors(t.Approval, path)
	if t.Type == stages.ScheduledStart {
		errs = append(errs, inexpressible(path+".type"))
	}
	if t.DisplayName != "" {
		errs = append(errs, inexpressible(path+".displayName"))
	}
	return errs
}

// approvalErrors allows the policy that an Approval has without one.
func approvalErrors(p *approval.Policy, path string) field.ErrorList {
	if p == nil || len(p.Quorums) == 0 && !p.ForbidStarter && !p.RequireBinding && p.Expires == 0 {
		return nil
	}
	return field.ErrorList{inexpressible(path + ".approval")}
}
