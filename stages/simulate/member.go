package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// Always is the value of [Member].Fail for a cluster whose attempts all fail.
const Always = -1

// Member is the behaviour of a cluster during a run.
type Member struct {
	// Take is the duration of an attempt, from its first contact with the cluster until everything
	// is applied and healthy.
	Take time.Duration
	// Fail is the number of failing attempts, counted from the first; [Always] means all. A failing
	// attempt fails at the moment when it would otherwise be done.
	Fail int
	// Unreachable are the periods when the cluster does not answer. Earlier attempts keep running.
	Unreachable []Interval
	// Unhealthy are the periods when the cluster, once updated, is unhealthy.
	Unhealthy []Interval
}

// Interval is the time from From until before To, both from the start of the run. A To of 0 means
// no end.
type Interval struct{ From, To time.Duration }

func (i Interval) has(at time.Duration) bool { return at >= i.From && (i.To == 0 || at < i.To) }

func during(all []Interval, at time.Duration) bool {
	return slices.ContainsFunc(all, func(i Interval) bool { return i.has(at) })
}

// Attempt is an attempt at a cluster in the view of an Updater of package fleet. It is plain
// data, and its methods are pure functions of the time.
//
// An attempt begins with the first call that reaches the cluster, see [Attempt.Reach]. From then
// on it runs independently of observations and calls, and is done after [Member].Take.
type Attempt struct {
	Member Member
	// Number counts the attempts at the cluster, from 1.
	Number int
	// Revision is the revision for the cluster; empty if it is cleaned.
	Revision string
	// Begun reports whether the attempt has begun, at Began.
	Begun bool
	Began time.Duration
}

// Reach returns the attempt after a call of Update at a moment: it has begun, unless the cluster
// is unreachable. Call Update afterwards.
func (a Attempt) Reach(at time.Duration) Attempt {
	if !a.Begun && !during(a.Member.Unreachable, at) {
		a.Begun, a.Began = true, at
	}
	return a
}

// Update returns the end of a call of Update that begins at a moment, and its result. If the
// cluster is unreachable, the call returns at once; otherwise it returns when the attempt is
// done, with the result of [Attempt.Observe] then or with the failure of the attempt. The
// observation has no Cluster.
func (a Attempt) Update(at time.Duration) (time.Duration, stages.Observation) {
	if during(a.Member.Unreachable, at) {
		return at, a.unreachable()
	}
	done := max(at, a.Began+a.Member.Take)
	switch {
	case during(a.Member.Unreachable, done):
		return done, a.unreachable()
	case a.fails():
		return done, stages.Observation{
			Attempt: a.Number, Sent: true, Failed: true, Message: fmt.Sprintf("attempt %d fails", a.Number),
		}
	default:
		return done, a.Observe(done)
	}
}

// Observe returns the observation of the cluster at a moment after a successful call of Update.
// The observation has no Cluster.
func (a Attempt) Observe(at time.Duration) stages.Observation {
	if during(a.Member.Unreachable, at) {
		return a.unreachable()
	}
	o := stages.Observation{
		Attempt: a.Number, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true,
	}
	if during(a.Member.Unhealthy, at) {
		o.Healthy, o.Message = false, "not healthy"
	}
	return o
}

// Next returns the next moment after at when Observe may return a different result; false if
// there is none.
func (a Attempt) Next(at time.Duration) (time.Duration, bool) {
	next := time.Duration(-1)
	for _, all := range [][]Interval{a.Member.Unreachable, a.Member.Unhealthy} {
		for _, i := range all {
			for _, t := range []time.Duration{i.From, i.To} {
				if t > at && (next < 0 || t < next) {
					next = t
				}
			}
		}
	}
	return next, next >= 0
}

func (a Attempt) fails() bool { return a.Member.Fail == Always || a.Number <= a.Member.Fail }

func (a Attempt) unreachable() stages.Observation {
	return stages.Observation{Attempt: a.Number, Sent: a.Begun, Unreachable: true, Message: "not reachable"}
}

func (m *Member) problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Take < 0 || m.Take > DefaultUntil {
		errs = append(errs, field.Invalid(at.Child("take"), m.Take.String(), "must be from 0 to 365 days (8760h)"))
	}
	if m.Fail < Always {
		errs = append(errs, field.Invalid(at.Child("fail"), m.Fail, "must be a number of attempts, or -1 for all"))
	}
	errs = append(errs, problemsOf(at.Child("unreachable"), m.Unreachable)...)
	return append(errs, problemsOf(at.Child("unhealthy"), m.Unhealthy)...)
}

func problemsOf(at *field.Path, all []Interval) field.ErrorList {
	var errs field.ErrorList
	for i, v := range all {
		if v.From < 0 || v.To != 0 && v.To <= v.From {
			errs = append(errs, field.Invalid(at.Index(i), fmt.Sprintf("%s to %s", v.From, v.To), "must be a beginning of at least 0 and a later end"))
		}
	}
	return errs
}

func sortedNames(m map[string]Member) []string { return slices.Sorted(maps.Keys(m)) }
