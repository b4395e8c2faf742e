package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// The bounds of a simulation where a [Environment] sets none.
const (
	// DefaultUntil is after how long a simulation ends.
	DefaultUntil = 365 * 24 * time.Hour
	// DefaultSteps is after how many steps a simulation is given up.
	DefaultSteps = 2_000_000
)

// Environment is everything outside of a run that decides how it goes. Durations are
// at least 0 and counted from the start of the run, unless they say otherwise.
// It is not changed by a simulation, and may serve several at once.
type Environment struct {
	// Start is when the run starts, to the millisecond; a zero Start is
	// [DefaultStart]. Only windows and scheduled starts depend on it.
	Start time.Time
	// Starter is the identity that starts the run.
	Starter approval.Identity
	// Calendar says when clusters may be started; nil means at any time.
	Calendar stages.Calendar
	// Members are the clusters that behave in a way of their own, by name; all
	// others are as Default. Names that are not in the plan mean nothing.
	Default Member
	Members map[string]Member
	// Churn are the clusters that leave or come back, Orders what operators ask.
	// What stands earlier in a list comes first where the moment is the same.
	Churn  []Change
	Orders []Order
	// Answer is called once for each approval request that opens, and for those that are open when [Resume] begins,
	// with the moment at which it opened. What it returns is added to Orders: an order of the past is one of now.
	// nil means no answer.
	Answer func(req approval.Request, opened time.Duration) []Order
	// Began is for [Resume]: when the attempt began that is under way at a cluster, by name. One that is not named
	// began when the cluster was started.
	Began map[string]time.Time
	// Measures are what checks measure, from a moment on; of those that are about the same, the later one in the list. A check
	// that none is about is good.
	Measures []Measure
	// Return is for a run that is rolled back.
	Return Return
	// Slots is how many clusters the run may have in flight by the cap of its strategy:
	// 0 means as many as it can use, -1 none.
	Slots int
	// Until is when the simulation ends at the latest: what happens at that
	// moment still happens, and what comes later never comes. 0 means
	// [DefaultUntil].
	Until time.Duration
	// Steps bounds the steps; 0 means [DefaultSteps].
	Steps int
}

// DefaultStart is when a run starts in an environment that does not say it: Monday, 5
// January 2026, at midnight UTC.
func DefaultStart() time.Time { return time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC) }

// Change is a cluster that leaves the inventory or comes back into it.
type Change struct {
	At      time.Duration
	Cluster string
	// Back reports whether the cluster is there again. A run that has passed over it
	// does not take it up again.
	Back bool
}

// Measure is what a check measures from a moment on.
type Measure struct {
	From time.Duration
	// Check is its name. Cluster is the cluster that is measured; empty is all, and what no check of clusters measures.
	Check, Cluster string
	Answer         check.Answer
}

// Order is a command at a moment.
type Order struct {
	At time.Duration
	// Command needs no ID and no At. Of the Decision of a Decide its Binding has
	// Stage, and Group where the gate is a group's; it is about the request that
	// is open for these at that moment. Without Group it is about the request of
	// the stage, or of the one group of it that has an open one.
	Command stages.Command
}

// Validate returns everything that is wrong with the environment as one error; nil
// when nothing is. The error is an aggregate of [field.Error] values.
func (w *Environment) Validate() error {
	var errs field.ErrorList
	notNegative := func(at *field.Path, d time.Duration) {
		if d < 0 || d > DefaultUntil {
			errs = append(errs, field.Invalid(at, d.String(), "must be from 0 to 365 days (8760h)"))
		}
	}
	notNegative(field.NewPath("until"), w.Until)
	for i := range w.Churn {
		notNegative(field.NewPath("churn").Index(i).Child("at"), w.Churn[i].At)
	}
	for i := range w.Measures {
		notNegative(field.NewPath("measures").Index(i).Child("from"), w.Measures[i].From)
	}
	for i := range w.Orders {
		at := field.NewPath("orders").Index(i)
		notNegative(at.Child("at"), w.Orders[i].At)
		if c := &w.Orders[i].Command; c.Verb == stages.Decide && c.Decision == nil {
			errs = append(errs, field.Required(at.Child("command", "decision"), "what was decided"))
		}
	}
	errs = append(errs, w.Default.problems(field.NewPath("default"))...)
	for _, name := range sortedNames(w.Members) {
		m := w.Members[name]
		errs = append(errs, m.problems(field.NewPath("members").Key(name))...)
	}
	for _, name := range sortedNames(w.Return.Members) {
		m := w.Return.Members[name]
		errs = append(errs, m.problems(field.NewPath("return", "members").Key(name))...)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs.ToAggregate()
}

// settled returns the environment with its defaults filled in and its lists in order
// of time.
func (w Environment) settled() Environment {
	if w.Start.IsZero() {
		w.Start = DefaultStart()
	}
	w.Start = stages.At(w.Start).Time()
	w.Until = cmp.Or(w.Until, DefaultUntil)
	w.Steps = cmp.Or(w.Steps, DefaultSteps)
	w.Churn = slices.DeleteFunc(slices.Clone(w.Churn), func(c Change) bool { return c.At > w.Until })
	slices.SortStableFunc(w.Churn, func(a, b Change) int { return cmp.Compare(a.At, b.At) })
	w.Orders = slices.DeleteFunc(slices.Clone(w.Orders), func(o Order) bool { return o.At > w.Until })
	slices.SortStableFunc(w.Orders, func(a, b Order) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.afterStart(), b.afterStart()))
	})
	return w
}

// afterStart is 1 for an order at 0 that comes after the start of the run.
func (o *Order) afterStart() int {
	if o.At == 0 && o.Command.Verb != stages.Skip {
		return 1
	}
	return 0
}

// measure returns what is measured at a moment.
func (w *Environment) measure(q *check.Question, now time.Duration) check.Answer {
	for _, m := range slices.Backward(w.Measures) {
		if m.Check == q.Name && m.From <= now && (m.Cluster == "" || m.Cluster == q.Cluster) {
			return m.Answer
		}
	}
	if q.Check.Object != "" {
		return check.Answer{Values: []float64{1}}
	}
	if q.Check.Max != nil {
		return check.Answer{Values: []float64{*q.Check.Max}}
	}
	return check.Answer{Values: []float64{*q.Check.Min}}
}

// member returns how a cluster behaves.
func (w *Environment) member(name string) Member {
	if m, ok := w.Members[name]; ok {
		return m
	}
	return w.Default
}

// slots is what the cap of the strategy lets be in flight.
func (w *Environment) slots() int {
	if w.Slots == 0 {
		return math.MaxInt
	}
	return max(0, w.Slots)
}
