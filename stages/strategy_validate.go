package stages

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
)

// Validate returns everything that is wrong with s as one error, each problem
// with the path of its field, for example stages[0].maxConcurrency; nil when
// nothing is. The error wraps an aggregate of [field.Error] values.
func (s Strategy) Validate() error {
	what := "strategy"
	if s.Name != "" {
		what += " " + strconv.Quote(s.Name)
	}
	return planProblems(what, s.problems(nil))
}

// planProblems returns the problems of what as one error, or nil.
func planProblems(what string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, problems.ToAggregate())
}

func (s *Strategy) problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(s.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, msg))
		}
	}
	errs = append(errs, planCheckStages(at.Child("stages"), s.Stages)...)
	errs = append(errs, planCheckCapName(at.Child("cap"), s.Cap)...)
	errs = append(errs, planCheckRemoval(at.Child("removal"), &s.Removal)...)
	errs = append(errs, planCheckRequests(at, s)...)
	errs = append(errs, planCheckOptions(at, s)...)
	errs = append(errs, s.Rollback.problems(at.Child("rollback"))...)
	errs = append(errs, planCheckWorkflow(at, s)...)
	return append(errs, planCheckTiming(at, s)...)
}

// planCheckOptions checks the words that a strategy chooses from.
func planCheckOptions(at *field.Path, s *Strategy) field.ErrorList {
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
	return errs
}

func planCheckStages(at *field.Path, stages []Stage) field.ErrorList {
	if len(stages) == 0 {
		return field.ErrorList{field.Required(at, "a strategy needs at least one stage")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range stages {
		st, at := &stages[i], at.Index(i)
		errs = append(errs, planCheckUnique(at.Child("name"), st.Name, seen)...)
		if st.Name == FinalStageName || st.Name == RemovalStageName {
			errs = append(errs, field.Invalid(at.Child("name"), st.Name, "is reserved for a stage that the planner adds"))
		}
		errs = append(errs, planCheckStage(at, st)...)
	}
	return errs
}

func planCheckStage(at *field.Path, st *Stage) field.ErrorList {
	errs := planCheckPick(at, st.Selector, st.SortKey)
	errs = append(errs, st.checkFlow(at)...)
	errs = append(errs, planCheckLimits(at, st.MaxConcurrency, st.MaxFailures, st.StrictFailures)...)
	errs = append(errs, planCheckDomains(at.Child("domains"), st.Domains)...)
	errs = append(errs, planCheckTasks(at.Child("beforeStageTasks"), st.Before, approval.Before)...)
	errs = append(errs, planCheckTasks(at.Child("afterStageTasks"), st.After, approval.After)...)
	seen := sets.New[string]()
	for i := range st.Groups {
		g, at := &st.Groups[i], at.Child("groups").Index(i)
		errs = append(errs, planCheckUnique(at.Child("name"), g.Name, seen)...)
		errs = append(errs, planCheckPick(at, g.Selector, g.SortKey)...)
		errs = append(errs, g.checkFlow(at)...)
		errs = append(errs, planCheckLimits(at, g.MaxConcurrency, g.MaxFailures, g.StrictFailures)...)
		errs = append(errs, planCheckTasks(at.Child("beforeGroupTasks"), g.Before, approval.Before)...)
		errs = append(errs, planCheckTasks(at.Child("afterGroupTasks"), g.After, approval.After)...)
	}
	return errs
}

// planCheckLimits checks the cap and the budget of a stage or a group.
func planCheckLimits(at *field.Path, concurrency, failures *intstr.IntOrString, strict bool) field.ErrorList {
	errs := planCheckLimit(at.Child("maxConcurrency"), concurrency, 1)
	errs = append(errs, planCheckLimit(at.Child("maxFailures"), failures, 0)...)
	if !strict || len(errs) > 0 {
		return errs
	}
	const why = "strictFailures needs a budget of at least 1: with none no cluster may start"
	if failures == nil {
		return append(errs, field.Required(at.Child("maxFailures"), why))
	}
	if n, _, _ := planLimit(*failures, 0); n == 0 {
		return append(errs, field.Invalid(at.Child("maxFailures"), failures.String(), why))
	}
	return errs
}

func planCheckRemoval(at *field.Path, r *Removal) field.ErrorList {
	errs := planCheckLimit(at.Child("maxConcurrency"), r.MaxConcurrency, 1)
	errs = append(errs, planCheckDuration(at.Child("deadline"), r.Deadline)...)
	errs = append(errs, planCheckTasks(at.Child("beforeStageTasks"), r.Before, approval.Before)...)
	return append(errs, planCheckTasks(at.Child("afterStageTasks"), r.After, approval.After)...)
}

// planCheckPick checks how a stage or a group picks and orders its clusters.
func planCheckPick(at *field.Path, sel *metav1.LabelSelector, sortKey string) field.ErrorList {
	errs := planCheckSelector(at.Child("labelSelector"), sel)
	if sortKey != "" {
		for _, msg := range validation.IsQualifiedName(sortKey) {
			errs = append(errs, field.Invalid(at.Child("sortingLabelKey"), sortKey, "is not the key of a label: "+msg))
		}
	}
	return errs
}

func planCheckSelector(at *field.Path, sel *metav1.LabelSelector) field.ErrorList {
	if sel == nil {
		return nil
	}
	errs := metav1validation.ValidateLabelSelector(sel, metav1validation.LabelSelectorValidationOptions{}, at)
	if len(errs) > 0 {
		return planSorted(errs)
	}
	if _, err := metav1.LabelSelectorAsSelector(sel); err != nil {
		return field.ErrorList{field.Invalid(at, sel, err.Error())}
	}
	return nil
}

// planCheckUnique checks a name, and that it is not in seen, and adds it.
func planCheckUnique(at *field.Path, name string, seen sets.Set[string]) field.ErrorList {
	if name != "" && seen.Has(name) {
		return field.ErrorList{field.Duplicate(at, name)}
	}
	seen.Insert(name)
	return planCheckName(at, name)
}

func planCheckName(at *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "a DNS label (RFC 1123), for example canary")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
