package lifecycle

import (
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// Entry is a run in the queue of its placement.
type Entry struct {
	// UID identifies the run, Run is its name.
	UID string `json:"uid"`
	Run string `json:"run"`
	// Index is that of the snapshot it rolls out.
	Index int `json:"index"`
	// Evicts reports whether the run does nothing but clean clusters. No run supersedes it, and it supersedes none
	// because of its index.
	Evicts bool `json:"evicts,omitempty"`
}

// Superseder says which run superseded an entry.
type Superseder struct {
	Entry
	// By is the name of the run that took its place.
	By string `json:"by"`
}

// Queue is the queue of the runs of a placement: the one that may change it now, and those that wait. It is a
// value: its methods return another one and change nothing. The host stores one for each placement and writes
// it with a compare-and-swap before it acts on a [Turn]. The zero Queue is empty.
type Queue struct {
	// Active is the one run that may act; nil when there is none.
	Active *Entry `json:"active,omitempty"`
	// Waiting are the runs whose turn comes, in that order.
	Waiting []Entry `json:"waiting,omitempty"`
	// Superseded are the runs that have been superseded and have not left yet.
	// The active run is among them while it drains.
	Superseded []Superseder `json:"superseded,omitempty"`
}

// Turn is the answer to a run that entered a [Queue].
type Turn struct {
	// Starts reports whether the run is the active one now.
	Starts bool
	// WaitsFor names the run that is ahead, where the run has to wait.
	WaitsFor string
	// Supersedes are the runs in whose place the run is: each is to be given a
	// Supersede command and leaves when it has ended. If one of them is active
	// it is the first and drains; the others never started and end at once.
	Supersedes []Entry
	// SupersededBy names the run that took this one's place, where one did:
	// this run is to be superseded.
	SupersededBy string
	// Retake reports whether the run starts but was taken at an older epoch than the placement's: what other runs
	// wrote to clusters since is newer, so that the run has to be taken again first.
	Retake bool
}

// Enter adds a run to the queue, or makes it the active one when no run is ahead of it. A policy of "" is
// [QueueRun].
//
// It is idempotent: a run that is in the queue keeps its place, whatever the policy, becomes active when its
// turn has come, and gets the same turn until what the turn asks for has happened. A waiting run
// therefore polls with it. On an error the queue is unchanged.
func (q Queue) Enter(e Entry, policy stages.Admission) (Queue, Turn, error) {
	if e.UID == "" || e.Run == "" || e.Index < 0 {
		return q, Turn{}, fmt.Errorf("run %q with UID %q and index %d: a run in the queue needs a name, a UID and an index of at least 0", e.Run, e.UID, e.Index)
	}
	switch policy {
	case "", stages.QueueRun, stages.RejectRun, stages.SupersedeActive:
	default:
		return q, Turn{}, fmt.Errorf("run %s: admission %q must be %s, %s or %s", e.Run, policy, stages.QueueRun, stages.RejectRun, stages.SupersedeActive)
	}
	if !q.has(e.UID) {
		rival, taken := q.rival()
		switch {
		case taken && (policy == stages.SupersedeActive || !e.Evicts && e.Index < rival.Index):
			q = q.displace(e.Run)
		case policy == stages.RejectRun && (taken || q.Active != nil):
			return q, Turn{}, &stages.RejectedError{Run: e.Run, Active: q.ahead().Run}
		}
		q.Waiting = append(slices.Clone(q.Waiting), e)
	}
	q = q.activate(e.UID)
	return q, q.turn(e.UID), nil
}

// Leave removes a run from the queue, because it has ended or was deleted. It makes no other run active. A
// run that is not in the queue changes nothing.
func (q Queue) Leave(uid string) Queue {
	if q.Active != nil && q.Active.UID == uid {
		q.Active = nil
	}
	q.Waiting = slices.DeleteFunc(slices.Clone(q.Waiting), func(e Entry) bool { return e.UID == uid })
	q.Superseded = slices.DeleteFunc(slices.Clone(q.Superseded), func(s Superseder) bool { return s.UID == uid })
	return q
}

// Next returns the run that becomes active when it enters again; false while another one is active or none
// waits.
func (q Queue) Next() (Entry, bool) {
	if q.Active != nil || len(q.Waiting) == 0 {
		return Entry{}, false
	}
	return q.Waiting[0], true
}

// has reports whether a run is in the queue.
func (q Queue) has(uid string) bool {
	return q.Active != nil && q.Active.UID == uid || q.waiting(uid) >= 0 || q.superseder(uid) != ""
}

func (q Queue) waiting(uid string) int {
	return slices.IndexFunc(q.Waiting, func(e Entry) bool { return e.UID == uid })
}

// superseder names the run that superseded a run, or "".
func (q Queue) superseder(uid string) string {
	i := slices.IndexFunc(q.Superseded, func(s Superseder) bool { return s.UID == uid })
	if i < 0 {
		return ""
	}
	return q.Superseded[i].By
}

// rival returns the run that a new one competes with: the active one, or the
// next where that drains already.
func (q Queue) rival() (Entry, bool) {
	switch {
	case q.Active != nil && q.superseder(q.Active.UID) == "":
		return *q.Active, true
	case len(q.Waiting) > 0:
		return q.Waiting[0], true
	default:
		return Entry{}, false
	}
}

// displace supersedes every run in the queue, except those that evict.
func (q Queue) displace(by string) Queue {
	out, stay := slices.Clone(q.Superseded), []Entry(nil)
	if q.Active != nil && !q.Active.Evicts && q.superseder(q.Active.UID) == "" {
		out = append(out, Superseder{*q.Active, by})
	}
	for _, e := range q.Waiting {
		if e.Evicts {
			stay = append(stay, e)
			continue
		}
		out = append(out, Superseder{e, by})
	}
	q.Superseded, q.Waiting = out, stay
	return q
}

// activate makes the run active when no run is ahead of it.
func (q Queue) activate(uid string) Queue {
	if e, ok := q.Next(); ok && e.UID == uid {
		q.Active, q.Waiting = &e, slices.Clone(q.Waiting[1:])
	}
	return q
}

// ahead returns the first run of the queue.
func (q Queue) ahead() Entry {
	if q.Active != nil {
		return *q.Active
	}
	return q.Waiting[0]
}

func (q Queue) turn(uid string) Turn {
	if by := q.superseder(uid); by != "" {
		return Turn{SupersededBy: by}
	}
	v := Turn{Starts: q.Active != nil && q.Active.UID == uid}
	if !v.Starts {
		v.WaitsFor = q.ahead().Run
	}
	if first, ok := q.rival(); ok && first.UID == uid {
		for _, s := range q.Superseded {
			v.Supersedes = append(v.Supersedes, s.Entry)
		}
	}
	return v
}
