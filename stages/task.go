package stages

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// longest is the longest duration a strategy may ask for.
const longest = 365 * 24 * time.Hour

func checkTasks(at *field.Path, tasks []Task, when approval.When) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[TaskType]()
	for i := range tasks {
		t, at := &tasks[i], at.Index(i)
		if seen.Has(t.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), t.Type))
		}
		seen.Insert(t.Type)
		errs = append(errs, checkTask(at, t, when)...)
	}
	return errs
}

// longestTitle is the maximum length of a task's DisplayName, in characters.
const longestTitle = 100

func checkTask(at *field.Path, t *Task, when approval.When) field.ErrorList {
	errs := checkTaskFields(at, t)
	if utf8.RuneCountInString(t.DisplayName) > longestTitle || !utf8.ValidString(t.DisplayName) {
		errs = append(errs, field.Invalid(at.Child("displayName"), t.DisplayName, "must be UTF-8 of at most 100 characters"))
	}
	switch t.Type {
	case TimedWait:
		if t.Wait.Duration == 0 {
			return append(errs, field.Required(at.Child("waitTime"), "a TimedWait needs to know how long"))
		}
		return append(errs, checkDuration(at.Child("waitTime"), t.Wait.Duration)...)
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
	case CheckTask:
		if len(t.Checks) == 0 {
			return append(errs, field.Required(at.Child("checks"), "a Check needs to know what is measured"))
		}
		errs = append(errs, check.Problems(at.Child("checks"), t.Checks, check.OfGate)...)
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), t.Type, []TaskType{TimedWait, Approval, ScheduledStart, CheckTask}))
	}
	return errs
}

// checkTaskFields refuses fields that belong to another type of task.
func checkTaskFields(at *field.Path, t *Task) field.ErrorList {
	var errs field.ErrorList
	if t.Type == TimedWait && t.Approval != nil {
		errs = append(errs, field.Forbidden(at.Child("approval"), "a TimedWait takes no approval"))
	}
	if t.Type == ScheduledStart && t.Approval != nil {
		errs = append(errs, field.Forbidden(at.Child("approval"), "a ScheduledStart takes no approval"))
	}
	if t.Type == Approval && t.Wait.Duration != 0 {
		errs = append(errs, field.Forbidden(at.Child("waitTime"), "an Approval does not wait for a time; add a task of type TimedWait"))
	}
	if t.Type == ScheduledStart && t.Wait.Duration != 0 {
		errs = append(errs, field.Forbidden(at.Child("waitTime"), "a ScheduledStart waits for its schedule; add a task of type TimedWait"))
	}
	if t.Type == CheckTask && t.Approval != nil {
		errs = append(errs, field.Forbidden(at.Child("approval"), "a Check takes no approval; add a task of type Approval"))
	}
	if t.Type == CheckTask && t.Wait.Duration != 0 {
		errs = append(errs, field.Forbidden(at.Child("waitTime"), "a Check waits for its measurements; add a task of type TimedWait, or have the checks an initialDelay"))
	}
	if t.Type != CheckTask && len(t.Checks) > 0 {
		errs = append(errs, field.Forbidden(at.Child("checks"), "only a Check has some"))
	}
	if t.Type != ScheduledStart && t.Schedule != nil {
		errs = append(errs, field.Forbidden(at.Child("schedule"), "only a ScheduledStart has one"))
	}
	return errs
}

func checkTiming(at *field.Path, s *Strategy) field.ErrorList {
	var errs field.ErrorList
	if s.Attempts < -1 {
		errs = append(errs, field.Invalid(at.Child("attempts"), s.Attempts, "must be a number of attempts, 0 for the profile's or -1 for no end"))
	}
	errs = append(errs, checkDuration(at.Child("backoff"), s.Backoff.Duration)...)
	errs = append(errs, checkDuration(at.Child("maxBackoff"), s.MaxBackoff.Duration)...)
	errs = append(errs, checkDuration(at.Child("progressDeadline"), s.ProgressDeadline.Duration)...)
	errs = append(errs, checkDuration(at.Child("unreachableDeadline"), s.UnreachableDeadline.Duration)...)
	errs = append(errs, checkDuration(at.Child("minHealthy"), s.MinHealthy.Duration)...)
	if s.MaxBackoff.Duration > 0 && s.MaxBackoff.Duration < s.Backoff.Duration {
		errs = append(errs, field.Invalid(at.Child("maxBackoff"), s.MaxBackoff.Duration.String(), "must not be less than backoff, "+s.Backoff.Duration.String()))
	}
	return errs
}

func checkDuration(at *field.Path, d time.Duration) field.ErrorList {
	if d >= 0 && d <= longest {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.String(), "must be between 0 and 365 days")}
}

// checkRequests finds approvals whose requests would have the same name. The removal comes first
// because its name is reserved: the stage or the group that has a name of its requests must be
// renamed.
func checkRequests(at *field.Path, s *Strategy) field.ErrorList {
	names := requestNames{naming: s.Requests, taken: map[string]requestName{}}
	removal := at.Child("removal")
	names.addSide(RemovalStageName, "", approval.Before, removal.Child("beforeStageTasks"), s.Removal.Before)
	names.addSide(RemovalStageName, "", approval.After, removal.Child("afterStageTasks"), s.Removal.After)
	for i := range s.Stages {
		st := &s.Stages[i]
		at := at.Child("stages").Index(i)
		names.addSide(st.Name, "", approval.Before, at.Child("beforeStageTasks"), st.Before)
		names.addSide(st.Name, "", approval.After, at.Child("afterStageTasks"), st.After)
		for j := range st.Groups {
			g, at := &st.Groups[j], at.Child("groups").Index(j)
			names.addSide(st.Name, g.Name, approval.Before, at.Child("beforeGroupTasks"), g.Before)
			names.addSide(st.Name, g.Name, approval.After, at.Child("afterGroupTasks"), g.After)
		}
	}
	return names.clashes
}

// requestNames are the names of the requests of a run.
type requestNames struct {
	naming  approval.Naming
	taken   map[string]requestName
	clashes field.ErrorList
}

// requestName is the stage or the <stage>/<group> that a request is about, and
// the path of its tasks.
type requestName struct{ of, path string }

func (n *requestNames) addSide(stage, group string, when approval.When, at *field.Path, tasks []Task) {
	if !slices.ContainsFunc(tasks, func(t Task) bool { return t.Type == Approval }) {
		return
	}
	of, value, kind := stage, stage, "stage"
	if group != "" {
		of, value, kind = stage+"/"+group, group, "group"
	}
	name := n.naming.RequestName("<run>", stage, group, when)
	other, taken := n.taken[name]
	if !taken {
		n.taken[name] = requestName{of, at.String()}
		return
	}
	if other.of != of {
		n.clashes = append(n.clashes, field.Invalid(at, value,
			"its request would be named "+name+" like that of "+other.of+" ("+other.path+"); rename the "+kind))
	}
}

// sorted orders problems that come from a map.
func sorted(errs field.ErrorList) field.ErrorList {
	texts := make(map[*field.Error]string, len(errs)) // each is made once
	for _, e := range errs {
		texts[e] = e.Error()
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(texts[a], texts[b]) })
	return errs
}

// ScheduledStartMessage is the message of the events of a ScheduledStart.
const ScheduledStartMessage = "scheduled start"
