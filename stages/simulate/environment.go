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

// The default limits of a simulation.
const (
	// DefaultUntil is the default time limit of a simulation.
	DefaultUntil = 365 * 24 * time.Hour
	// DefaultSteps is the default maximum number of steps; a simulation that needs more steps fails.
	DefaultSteps = 2_000_000
)

// Environment is everything outside of a run that affects it. Durations are at least 0 and
// counted from the start of the run, unless documented otherwise. A simulation does not change
// it, and it may serve several at once.
type Environment struct {
	// Start is when the run starts, to the millisecond; a zero Start is [DefaultStart]. Only windows
	// and scheduled starts depend on it.
	Start time.Time
	// Starter is the identity that starts the run.
	Starter approval.Identity
	// Calendar says when clusters may be started; nil means at any time.
	Calendar stages.Calendar
	// Members are the clusters with their own behaviour, by name; all others behave like Default.
	// Names that are not in the plan are ignored.
	Default Member
	Members map[string]Member
	// Churn are the clusters that leave or return, Orders the commands of operators. Entries for the
	// same moment take effect in the order of the list.
	Churn  []Change
	Orders []Order
	// Answer is called once for each approval request that opens, with the moment at which it opened.
	// It is also called for each request that is open when [Resume] begins. Its result is added to
	// Orders: an order in the past takes effect now. nil means no answer.
	Answer func(req approval.Request, opened time.Duration) []Order
	// Began is for [Resume]: the times at which the running attempts began, by cluster. The attempt
	// of an unnamed cluster began when the cluster was started.
	Began map[string]time.Time
	// Measures are the results of checks. If several apply to the same check, the last of them in
	// the list counts. A check without a measure is good.
	Measures []Measure
	// Return is for a run that is rolled back.
	Return Return
	// Slots is the number of clusters in flight that the strategy's cap allows. 0 means no limit, and
	// -1 means that no cluster may start.
	Slots int
	// Until is the latest end of the simulation: events at that moment still happen, and later ones
	// never do. 0 means [DefaultUntil].
	Until time.Duration
	// Steps limits the number of steps; 0 means [DefaultSteps].
	Steps int
}

// Return is the part of an [Environment] for a rollback of the run.
type Return struct {
	// Previous has the clusters' revisions before the run, by name; see [step.RollBack]. An
	// unnamed cluster had nothing. If it is nil, the revisions are unknown, and the run is not
	// rolled back.
	Previous map[string]stages.Previous
	// Members are the clusters with a different behaviour during the rollback, by name. All others
	// behave as before, except that no attempt fails.
	Members map[string]Member
	// Calendar returns the windows for the plan of the rollback; nil means at any time.
	Calendar func(p *stages.Plan) (stages.Calendar, error)
}

// DefaultStart returns the start of a run in an environment without one: Monday, 5 January 2026,
// at midnight UTC.
func DefaultStart() time.Time { return time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC) }

// Change is a cluster that leaves the inventory or returns to it.
type Change struct {
	At      time.Duration
	Cluster string
	// Back reports whether the cluster returns. A run that has already skipped it does not include
	// it again.
	Back bool
}

// Measure is the result that a check has at the time From and later.
type Measure struct {
	From time.Duration
	// Check is its name. Cluster is the measured cluster; empty means all, and measurements without
	// a cluster.
	Check, Cluster string
	Answer         check.Answer
}

// Order is a command at a moment.
type Order struct {
	At time.Duration
	// Command needs no ID and no At. The Binding of a Decide needs only Stage, and Group for a gate
	// of a group. The decision applies to the request that is open for this stage or group at that
	// moment. Without Group it applies to the request of the stage, or of the only group of the stage
	// that has an open request.
	Command stages.Command
}

// Validate returns all problems of the environment as one error, or nil. The error is an
// aggregate of [field.Error] values.
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

// settled returns the environment with its defaults and with its lists in order of time.
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

// afterStart returns 1 for an order at 0 that comes after the start of the run.
func (o *Order) afterStart() int {
	if o.At == 0 && o.Command.Verb != stages.Skip {
		return 1
	}
	return 0
}

// measure returns the result of a check at a moment.
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

// member returns the behaviour of a cluster.
func (w *Environment) member(name string) Member {
	if m, ok := w.Members[name]; ok {
		return m
	}
	return w.Default
}

// slots returns the number of clusters in flight that the strategy's cap allows.
func (w *Environment) slots() int {
	if w.Slots == 0 {
		return math.MaxInt
	}
	return max(0, w.Slots)
}
