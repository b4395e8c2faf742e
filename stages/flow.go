package stages

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages/internal/values"
)

// HasFlow reports whether the strategy uses workflow settings.
func (s *Strategy) HasFlow() bool {
	if s.OnFailure != "" {
		return true
	}
	return slices.ContainsFunc(s.Stages, func(st Stage) bool {
		return st.Flow != Flow{} || len(st.Clusters) > 0 || slices.ContainsFunc(st.Groups, func(g Group) bool {
			return g.Flow != Flow{} || len(g.Clusters)+len(g.DependsOn) > 0
		})
	})
}

// checkWorkflow checks the settings that only profile Workflow allows.
func checkWorkflow(at *field.Path, s *Strategy) field.ErrorList {
	var errs field.ErrorList
	switch s.OnFailure {
	case "", SuspendRun, EndRun:
	default:
		errs = append(errs, field.NotSupported(at.Child("onFailure"), s.OnFailure, []OnFailure{SuspendRun, EndRun}))
	}
	if s.Profile == Workflow {
		return errs
	}
	const why = "only profile Workflow has it"
	if s.OnFailure != "" {
		errs = append(errs, field.Forbidden(at.Child("onFailure"), why))
	}
	for i := range s.Stages {
		at := at.Child("stages").Index(i)
		if s.Stages[i].Always {
			errs = append(errs, field.Forbidden(at.Child("always"), why))
		}
		for j := range s.Stages[i].Groups {
			if s.Stages[i].Groups[j].Always {
				errs = append(errs, field.Forbidden(at.Child("groups").Index(j).Child("always"), why))
			}
		}
	}
	return errs
}

// checkFlow checks the workflow settings of a stage and the dependencies of its groups.
func (s *Stage) checkFlow(at *field.Path) field.ErrorList {
	errs := s.check(at, s.Selector, s.Clusters, s.SortKey, "beforeStageTasks", len(s.Before), len(s.After))
	if s.Pause && len(s.Groups) > 0 {
		errs = append(errs, field.Forbidden(at.Child("groups"), "a pause has none"))
	}
	return append(errs, checkDepends(at.Child("groups"), s.Groups)...)
}

// checkFlow checks the workflow settings of a group.
func (g *Group) checkFlow(at *field.Path) field.ErrorList {
	errs := g.check(at, g.Selector, g.Clusters, g.SortKey, "beforeGroupTasks", len(g.Before), len(g.After))
	if g.New && (g.Selector != nil || len(g.Clusters) > 0 || g.Pause) {
		errs = append(errs, field.Forbidden(at.Child("new"), "the new clusters of the stage are picked as they are: leave out labelSelector, clusters and pause"))
	}
	return errs
}

func (f Flow) check(at *field.Path, selector *metav1.LabelSelector, names []string, sortKey, tasks string, before, after int) field.ErrorList {
	errs := checkDuration(at.Child("timeout"), f.Timeout.Duration)
	if len(names) > 0 {
		errs = append(errs, checkNames(at.Child("clusters"), names)...)
		if selector != nil || sortKey != "" {
			errs = append(errs, field.Forbidden(at.Child("clusters"), "clusters are picked and ordered by name, or by a labelSelector and a sortingLabelKey"))
		}
	}
	switch {
	case !f.Pause:
	case selector != nil || len(names) > 0:
		errs = append(errs, field.Forbidden(at.Child("pause"), "a pause picks no clusters"))
	case before == 0 || after > 0:
		errs = append(errs, field.Invalid(at.Child("pause"), true, "a pause has at least one task in "+tasks+", and none after it"))
	}
	return errs
}

func checkNames(at *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range names {
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen.Insert(name)
		for _, msg := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(at.Index(i), name, msg))
		}
	}
	return errs
}

// checkDepends checks that groups wait for groups that there are, and none for
// itself.
func checkDepends(at *field.Path, groups []Group) field.ErrorList {
	var errs field.ErrorList
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	positions := values.PositionsOf(names)
	after := make([][]int, len(groups))
	for i := range groups {
		seen := sets.New[string]()
		for j, name := range groups[i].DependsOn {
			at := at.Index(i).Child("dependsOn").Index(j)
			if seen.Has(name) {
				errs = append(errs, field.Duplicate(at, name))
			}
			seen.Insert(name)
			if _, ok := positions[name]; !ok {
				errs = append(errs, field.NotFound(at, name))
			}
		}
		after[i] = positions.Of(groups[i].DependsOn)
	}
	if i := findCycle(after); i >= 0 {
		errs = append(errs, field.Invalid(at.Index(i).Child("dependsOn"), groups[i].DependsOn, "the group waits for itself, by way of others"))
	}
	return errs
}

// findCycle returns the first index that is in a cycle or depends on one, or -1. It visits an
// index only after all its dependencies.
func findCycle(after [][]int) int {
	waits, before := make([]int, len(after)), make([][]int, len(after))
	var free []int
	for i := range after {
		waits[i] = len(after[i])
		for _, j := range after[i] {
			before[j] = append(before[j], i)
		}
		if waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		done := free[len(free)-1]
		free = free[:len(free)-1]
		for _, i := range before[done] {
			if waits[i]--; waits[i] == 0 {
				free = append(free, i)
			}
		}
	}
	return slices.IndexFunc(waits, func(n int) bool { return n > 0 })
}

// checkFlow checks the workflow settings of a stored plan.
func checkFlow(st *PlannedStage, group int) error {
	g := &st.Groups[group]
	switch {
	case st.Remove && (st.Flow != Flow{} || g.Flow != Flow{} || len(g.After) > 0):
		return errors.New("the removal stage has nothing of a workflow")
	case g.Name == "" && (g.Flow != Flow{} || len(g.After) > 0):
		return errors.New("only a group with a name has something of a workflow")
	case (st.Pause || g.Pause) && g.Len > 0:
		return fmt.Errorf("a pause with %d clusters is impossible", g.Len)
	case g.Pause && len(g.Gates) == 0 || st.Pause && len(st.Gates) == 0:
		return errors.New("a pause without gates is impossible")
	}
	if group > 0 {
		return nil
	}
	after := make([][]int, len(st.Groups))
	for i := range st.Groups {
		after[i] = st.Groups[i].After
		for _, j := range after[i] {
			if j < 0 || j >= len(st.Groups) {
				return fmt.Errorf("groups[%d]: there is no group %d", i, j)
			}
		}
	}
	if findCycle(after) >= 0 {
		return errors.New("groups wait for each other")
	}
	return nil
}

// AttemptLimit returns the maximum number of attempts for a cluster; 0 means no limit.
func (s *Strategy) AttemptLimit() int {
	switch {
	case s.Attempts > 0:
		return s.Attempts
	case s.Attempts < 0:
		return 0
	case s.Profile == ClusterUpdate:
		return 1
	case s.Profile == Workflow:
		return 11
	default:
		return 0
	}
}

// Suspends reports whether a failing run is stopped rather than ended.
func (s *Strategy) Suspends() bool { return s.Profile == Workflow && s.OnFailure != EndRun }

// Pauses reports whether the stage or one of its groups is a pause, which delays the run and has no
// clusters.
func (s *PlannedStage) Pauses() bool {
	return s.Pause || slices.ContainsFunc(s.Groups, func(g PlannedGroup) bool { return g.Pause })
}

// IsTracked reports whether the run keeps track of when the group is reached and ends.
func (g *PlannedGroup) IsTracked(st *PlannedStage) bool {
	return len(g.Gates) > 0 || st.HasDependencies() || g.Timeout.Duration > 0
}

// HasDependencies reports whether groups of the stage wait for others.
func (s *PlannedStage) HasDependencies() bool {
	return slices.ContainsFunc(s.Groups, func(g PlannedGroup) bool { return len(g.After) > 0 })
}
