package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// Always is a Fail of a [Member] that lets every attempt fail.
const Always = -1

// Member is how a cluster behaves during a run.
type Member struct {
	// Take is how long an attempt takes, from the moment at which the cluster
	// is first reached in it until everything is applied and healthy.
	Take time.Duration
	// Fail is how many attempts fail, the first ones; [Always] is all of them.
	// One that fails does so when it would have been done.
	Fail int
	// Unreachable is when the cluster does not answer. What was begun before
	// goes on meanwhile.
	Unreachable []Interval
	// Unhealthy is when the cluster, once it was updated, is not healthy.
	Unhealthy []Interval
}

// Interval is the time from From until before To, both from the start of the
// run. A To of 0 is no end.
type Interval struct{ From, To time.Duration }

func (i Interval) has(at time.Duration) bool { return at >= i.From && (i.To == 0 || at < i.To) }

func during(all []Interval, at time.Duration) bool {
	return slices.ContainsFunc(all, func(i Interval) bool { return i.has(at) })
}

// Attempt is what an attempt at a cluster comes to, whenever it is asked: it is
// the cluster as an Updater of package fleet sees it. It is plain data, and its
// methods are pure functions.
//
// An attempt begins with the first call that reaches the cluster, see [Attempt.Reach]. From then on it goes
// on by itself, whether or not it can be observed or is waited for, and is done Take later.
type Attempt struct {
	Member Member
	// Number counts the attempts at the cluster, from 1.
	Number int
	// Revision is what the cluster is brought to; empty where it is cleaned.
	Revision string
	// Begun reports whether the attempt has begun, at Began.
	Begun bool
	Began time.Duration
}

// Reach returns the attempt as a call of Update at a moment leaves it: it has
// begun, unless the cluster cannot be reached. Update is asked afterwards.
func (a Attempt) Reach(at time.Duration) Attempt {
	if !a.Begun && !during(a.Member.Unreachable, at) {
		a.Begun, a.Began = true, at
	}
	return a
}

// Update returns when a call of Update that is made at a moment returns, and
// what it says then. Of a cluster that cannot be reached it says so at once;
// else it returns when the attempt is done, with what [Attempt.Observe] says
// then or with the failure of the attempt. The observation has no Cluster.
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

// Observe returns the observation of the cluster at a moment, once a call of Update has been successful. The
// observation has no Cluster.
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

// Next returns the next moment after at from which on Observe may say something
// else; false when there is none.
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
