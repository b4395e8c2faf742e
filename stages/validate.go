package stages

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Validate returns all problems of s as one error, or nil if there are none. Each problem has the
// path of its field, for example stages[0].maxConcurrency. The error wraps an aggregate of
// [field.Error] values.
func (s Strategy) Validate() error {
	what := "strategy"
	if s.Name != "" {
		what += " " + strconv.Quote(s.Name)
	}
	return values.ProblemsOf(what, s.Problems(nil))
}

// Problems returns everything that is wrong with s, each problem with its path below at.
func (s *Strategy) Problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(s.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, msg))
		}
	}
	errs = append(errs, checkStages(at.Child("stages"), s.Stages)...)
	errs = append(errs, checkShares(at, s.Stages, s.Unassigned)...)
	errs = append(errs, validateCapName(at.Child("cap"), s.Cap)...)
	errs = append(errs, checkRemoval(at.Child("removal"), &s.Removal)...)
	errs = append(errs, checkRequests(at, s)...)
	errs = append(errs, checkOptions(at, s)...)
	errs = append(errs, s.Rollback.problems(at.Child("rollback"))...)
	if s.Rollback != nil && len(s.Removal.Only) > 0 {
		errs = append(errs, field.Forbidden(at.Child("rollback"), "a run that evicts clusters, see removal.only, is not rolled back"))
	}
	errs = append(errs, checkWorkflow(at, s)...)
	return append(errs, checkTiming(at, s)...)
}

// checkOptions checks the words that a strategy chooses from.
func checkOptions(at *field.Path, s *Strategy) field.ErrorList {
	var errs field.ErrorList
	switch s.Unassigned {
	case "", UnassignedError, UnassignedExclude, UnassignedFinalStage:
	default:
		known := []Unassigned{UnassignedError, UnassignedExclude, UnassignedFinalStage}
		errs = append(errs, field.NotSupported(at.Child("unassigned"), s.Unassigned, known))
	}
	switch s.Profile {
	case "", Staged, ClusterUpdate, Workflow:
	default:
		known := []Profile{Staged, ClusterUpdate, Workflow}
		errs = append(errs, field.NotSupported(at.Child("profile"), s.Profile, known))
	}
	switch s.Requests {
	case approval.NamedBySide, approval.NamedByStage:
	default:
		known := []approval.Naming{approval.NamedBySide, approval.NamedByStage}
		errs = append(errs, field.NotSupported(at.Child("requests"), s.Requests, known))
	}
	return errs
}

func checkStages(at *field.Path, stages []Stage) field.ErrorList {
	if len(stages) == 0 {
		return field.ErrorList{field.Required(at, "a strategy needs at least one stage")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range stages {
		st, at := &stages[i], at.Index(i)
		errs = append(errs, checkUnique(at.Child("name"), st.Name, seen)...)
		if st.Name == FinalStageName || st.Name == RemovalStageName {
			errs = append(errs, field.Invalid(at.Child("name"), st.Name, "is reserved for a stage that the planner adds"))
		}
		errs = append(errs, checkStage(at, st)...)
	}
	return errs
}

func checkStage(at *field.Path, st *Stage) field.ErrorList {
	errs := checkPick(at, st.Selector, st.SortKey)
	errs = append(errs, st.checkFlow(at)...)
	errs = append(errs, checkLimits(at, st.MaxConcurrency, st.MaxFailures, st.StrictFailures)...)
	errs = append(errs, checkDomains(at.Child("domains"), st.Domains)...)
	if st.Pause && len(st.Checks)+len(st.ClusterChecks) > 0 {
		errs = append(errs, field.Forbidden(at.Child("pause"), "a pause has no clusters that could be measured; have it a task of type Check"))
	}
	errs = append(errs, check.Problems(at.Child("checks"), st.Checks, check.OfStage)...)
	errs = append(errs, check.Problems(at.Child("clusterChecks"), st.ClusterChecks, check.OfClusters)...)
	errs = append(errs, checkTasks(at.Child("beforeStageTasks"), st.Before, approval.Before)...)
	errs = append(errs, checkTasks(at.Child("afterStageTasks"), st.After, approval.After)...)
	seen := sets.New[string]()
	newGroup := ""
	for i := range st.Groups {
		g, at := &st.Groups[i], at.Child("groups").Index(i)
		switch {
		case g.New && newGroup != "":
			errs = append(errs, field.Forbidden(at.Child("new"), "group "+newGroup+" has the new clusters already: there is one at most"))
		case g.New:
			newGroup = g.Name
		}
		if g.UnprovenFirst && (g.New || g.Pause) {
			errs = append(errs, field.Forbidden(at.Child("unprovenFirst"), "no cluster of a group with new or pause is unproven: leave it out"))
		}
		errs = append(errs, checkUnique(at.Child("name"), g.Name, seen)...)
		errs = append(errs, checkPick(at, g.Selector, g.SortKey)...)
		errs = append(errs, g.checkFlow(at)...)
		errs = append(errs, checkLimits(at, g.MaxConcurrency, g.MaxFailures, g.StrictFailures)...)
		errs = append(errs, checkTasks(at.Child("beforeGroupTasks"), g.Before, approval.Before)...)
		errs = append(errs, checkTasks(at.Child("afterGroupTasks"), g.After, approval.After)...)
	}
	return errs
}

// checkLimits checks the cap and the budget of a stage or a group.
func checkLimits(at *field.Path, concurrency, failures *intstr.IntOrString, strict bool) field.ErrorList {
	errs := values.CheckLimit(at.Child("maxConcurrency"), concurrency, 1)
	errs = append(errs, values.CheckLimit(at.Child("maxFailures"), failures, 0)...)
	if !strict || len(errs) > 0 {
		return errs
	}
	const why = "strictFailures needs a budget of at least 1: with none no cluster may start"
	if failures == nil {
		return append(errs, field.Required(at.Child("maxFailures"), why))
	}
	if n, _, _ := values.ParseLimit(*failures, 0); n == 0 {
		return append(errs, field.Invalid(at.Child("maxFailures"), failures.String(), why))
	}
	return errs
}

func checkRemoval(at *field.Path, r *Removal) field.ErrorList {
	errs := values.CheckLimit(at.Child("maxConcurrency"), r.MaxConcurrency, 1)
	errs = append(errs, checkDuration(at.Child("deadline"), r.Deadline.Duration)...)
	errs = append(errs, checkTasks(at.Child("beforeStageTasks"), r.Before, approval.Before)...)
	errs = append(errs, checkTasks(at.Child("afterStageTasks"), r.After, approval.After)...)
	for i, name := range r.Only {
		switch {
		case !values.IsName(name):
			errs = append(errs, field.Invalid(at.Child("only").Index(i), name, "the name of a cluster must be a DNS label (RFC 1123)"))
		case slices.Contains(r.Only[:i], name):
			errs = append(errs, field.Duplicate(at.Child("only").Index(i), name))
		}
	}
	return errs
}

// checkPick checks how a stage or a group picks and orders its clusters.
func checkPick(at *field.Path, sel *metav1.LabelSelector, sortKey string) field.ErrorList {
	errs := checkSelector(at.Child("labelSelector"), sel)
	if sortKey != "" {
		for _, msg := range validation.IsQualifiedName(sortKey) {
			errs = append(errs, field.Invalid(at.Child("sortingLabelKey"), sortKey, "is not the key of a label: "+msg))
		}
	}
	return errs
}

func checkSelector(at *field.Path, sel *metav1.LabelSelector) field.ErrorList {
	if sel == nil {
		return nil
	}
	errs := metav1validation.ValidateLabelSelector(sel, metav1validation.LabelSelectorValidationOptions{}, at)
	if len(errs) > 0 {
		return sorted(errs)
	}
	if _, err := metav1.LabelSelectorAsSelector(sel); err != nil {
		return field.ErrorList{field.Invalid(at, sel, err.Error())}
	}
	return nil
}

// checkUnique checks a name, and that it is not in seen, and adds it.
func checkUnique(at *field.Path, name string, seen sets.Set[string]) field.ErrorList {
	if name != "" && seen.Has(name) {
		return field.ErrorList{field.Duplicate(at, name)}
	}
	seen.Insert(name)
	return checkName(at, name)
}

func checkName(at *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "a DNS label (RFC 1123), for example canary")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// validateCapName checks the name of a cap, which may be empty.
func validateCapName(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return nil
	}
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

func (b *RollbackPolicy) problems(at *field.Path) (errs field.ErrorList) {
	if b == nil {
		return nil
	}
	causes := []RollbackCause{BudgetExceeded, GateRejected, OnCommand}
	for i, c := range b.Causes {
		at := at.Child("causes").Index(i)
		if !slices.Contains(causes, c) {
			errs = append(errs, field.NotSupported(at, c, causes))
		}
		if slices.Contains(b.Causes[:i], c) {
			errs = append(errs, field.Duplicate(at, c))
		}
	}
	if b.New != "" && b.New != RemoveNew && b.New != LeaveNew {
		errs = append(errs, field.NotSupported(at.Child("newClusters"), b.New, []NewClusters{RemoveNew, LeaveNew}))
	}
	if b.Approval != nil {
		errs = append(errs, b.Approval.Problems(at.Child("approval"))...)
	}
	return errs
}

// checkDomains checks the failure domains of a stage.
func checkDomains(at *field.Path, domains []Domain) (errs field.ErrorList) {
	if len(domains) > maxDomainKeys {
		errs = append(errs, field.TooMany(at, len(domains), maxDomainKeys))
	}
	seen := sets.New[string]()
	for i, d := range domains {
		at := at.Index(i)
		switch {
		case d.Key == "":
			errs = append(errs, field.Required(at.Child("key"), "the key of a label, for example topology.kubernetes.io/region"))
		case seen.Has(d.Key):
			errs = append(errs, field.Duplicate(at.Child("key"), d.Key))
		}
		seen.Insert(d.Key)
		if d.Key != "" {
			for _, msg := range validation.IsQualifiedName(d.Key) {
				errs = append(errs, field.Invalid(at.Child("key"), d.Key, "is not the key of a label: "+msg))
			}
		}
		errs = append(errs, values.CheckLimit(at.Child("maxConcurrency"), d.MaxConcurrency, 1)...)
	}
	return errs
}
