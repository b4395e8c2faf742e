package stages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
)

// planLongest is the longest duration a strategy may ask for.
const planLongest = 365 * 24 * time.Hour

func planCheckTasks(at *field.Path, tasks []Task, when approval.When) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[TaskType]()
	for i := range tasks {
		t, at := &tasks[i], at.Index(i)
		if seen.Has(t.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), t.Type))
		}
		seen.Insert(t.Type)
		errs = append(errs, planCheckTask(at, t, when)...)
	}
	return errs
}

// planLongestTitle is how long the name of a task may be that people see.
const planLongestTitle = 100

func planCheckTask(at *field.Path, t *Task, when approval.When) field.ErrorList {
	errs := planCheckTaskFields(at, t)
	if utf8.RuneCountInString(t.DisplayName) > planLongestTitle || !utf8.ValidString(t.DisplayName) {
		errs = append(errs, field.Invalid(at.Child("displayName"), t.DisplayName, "must be UTF-8 of at most 100 characters"))
	}
	switch t.Type {
	case TimedWait:
		if t.Wait == 0 {
			return append(errs, field.Required(at.Child("waitTime"), "a TimedWait needs to know how long"))
		}
		return append(errs, planCheckDuration(at.Child("waitTime"), t.Wait)...)
	case Approval:
		if t.Approval != nil {
			errs = append(errs, t.Approval.Problems(at.Child("approval"))...)
		}
	case ScheduledStart:
		if when == approval.After {
			return append(errs, field.Forbidden(at.Child("type"), "a ScheduledStart stands before a stage or a group; put it before what comes next"))
		}
		if t.Schedule == nil {
			return append(errs, field.Required(at.Child("schedule"), "a ScheduledStart needs to know when"))
		}
		errs = append(errs, t.Schedule.problems(at.Child("schedule"))...)
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), t.Type, []TaskType{TimedWait, Approval, ScheduledStart}))
	}
	return errs
}

// planCheckTaskFields refuses what belongs to a task of another type.
func planCheckTaskFields(at *field.Path, t *Task) field.ErrorList {
	var errs field.ErrorList
	if t.Type == TimedWait && t.Approval != nil {
		errs = append(errs, field.Forbidden(at.Child("approval"), "a TimedWait takes no approval"))
	}
	if t.Type == ScheduledStart && t.Approval != nil {
		errs = append(errs, field.Forbidden(at.Child("approval"), "a ScheduledStart takes no approval"))
	}
	if t.Type == Approval && t.Wait != 0 {
		errs = append(errs, field.Forbidden(at.Child("waitTime"), "an Approval does not wait for a time; add a task of type TimedWait"))
	}
	if t.Type == ScheduledStart && t.Wait != 0 {
		errs = append(errs, field.Forbidden(at.Child("waitTime"), "a ScheduledStart waits for its schedule; add a task of type TimedWait"))
	}
	if t.Type != ScheduledStart && t.Schedule != nil {
		errs = append(errs, field.Forbidden(at.Child("schedule"), "only a ScheduledStart has one"))
	}
	return errs
}

func planCheckTiming(at *field.Path, s *Strategy) field.ErrorList {
	var errs field.ErrorList
	if s.Attempts < -1 {
		errs = append(errs, field.Invalid(at.Child("attempts"), s.Attempts, "must be a number of attempts, 0 for the profile's or -1 for no end"))
	}
	errs = append(errs, planCheckDuration(at.Child("backoff"), s.Backoff)...)
	errs = append(errs, planCheckDuration(at.Child("maxBackoff"), s.MaxBackoff)...)
	errs = append(errs, planCheckDuration(at.Child("progressDeadline"), s.ProgressDeadline)...)
	errs = append(errs, planCheckDuration(at.Child("minHealthy"), s.MinHealthy)...)
	if s.MaxBackoff > 0 && s.MaxBackoff < s.Backoff {
		errs = append(errs, field.Invalid(at.Child("maxBackoff"), s.MaxBackoff.String(), "must not be less than backoff, "+s.Backoff.String()))
	}
	return errs
}

func planCheckDuration(at *field.Path, d time.Duration) field.ErrorList {
	if d >= 0 && d <= planLongest {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.String(), "must be between 0 and 365 days")}
}

// planCheckRequests finds approvals whose requests would have the same name.
func planCheckRequests(at *field.Path, s *Strategy) field.ErrorList {
	names := planRequestNames{}
	for i := range s.Stages {
		st := &s.Stages[i]
		at := at.Child("stages").Index(i)
		names.addStage(st.Name, at, st.Before, st.After)
		for j := range st.Groups {
			names.addGroup(st.Name, &st.Groups[j], at.Child("groups").Index(j))
		}
	}
	names.addStage(RemovalStageName, at.Child("removal"), s.Removal.Before, s.Removal.After)
	return names.clashes
}

// planRequestNames are the names of requests behind <run>-.
type planRequestNames struct {
	taken   []planRequestName
	clashes field.ErrorList
}

// planRequestName is a request's name, with the stage or the <stage>/<group>
// that it is about.
type planRequestName struct{ name, of, path string }

func (n *planRequestNames) addStage(stage string, at *field.Path, before, after []Task) {
	n.addSide("before-"+stage, stage, stage, "rename the stage", at.Child("beforeStageTasks"), before)
	n.addSide(stage, stage, stage, "rename the stage", at.Child("afterStageTasks"), after)
}

func (n *planRequestNames) addGroup(stage string, g *Group, at *field.Path) {
	name, of := stage+"-"+g.Name, stage+"/"+g.Name
	n.addSide("before-"+name, of, g.Name, "rename the group", at.Child("beforeGroupTasks"), g.Before)
	n.addSide(name, of, g.Name, "rename the group", at.Child("afterGroupTasks"), g.After)
}

func (n *planRequestNames) addSide(name, of, value, remedy string, at *field.Path, tasks []Task) {
	if !slices.ContainsFunc(tasks, func(t Task) bool { return t.Type == Approval }) {
		return
	}
	for _, other := range n.taken {
		if other.name == name && other.of != of {
			n.clashes = append(n.clashes, field.Invalid(at, value,
				"its request would be named <run>-"+name+" like that of "+other.path+"; "+remedy))
		}
	}
	n.taken = append(n.taken, planRequestName{name, of, at.String()})
}

// planCheckLimit checks a number or a percentage that must be at least least.
func planCheckLimit(at *field.Path, v *intstr.IntOrString, least int) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, _, ok := planLimit(*v, least); ok {
		return nil
	}
	low := strconv.Itoa(least)
	return field.ErrorList{field.Invalid(at, v.String(),
		"must be a number of at least "+low+", or a percentage from "+low+`% to 100% in the form "25%"`)}
}

// planLimit reads a number or a percentage; false when it is neither or out
// of range.
func planLimit(v intstr.IntOrString, least int) (n int, percent, ok bool) {
	switch v.Type {
	case intstr.Int:
		n, ok = int(v.IntVal), true
	case intstr.String:
		n, ok = planPercent(v.StrVal)
		percent = true
	}
	return n, percent, ok && n >= least
}

func planPercent(s string) (int, bool) {
	digits, ok := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n <= 100 && strconv.Itoa(n) == digits
}

// planSorted orders problems that come from a map.
func planSorted(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}
