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
	// Index is the index of the snapshot that the run rolls out.
	Index int `json:"index"`
	// Evicts reports whether the run does nothing but clean clusters. No run supersedes it, and it
	// supersedes none because of its index.
	Evicts bool `json:"evicts,omitempty"`
}

// Superseder is a superseded entry and the run that superseded it.
type Superseder struct {
	Entry
	// By is the name of the run that took its place.
	By string `json:"by"`
}

// Queue is the queue of the runs of a placement: the active run, which may change the placement
// now, and the waiting runs. It is a value: its methods return a new queue and change nothing. The
// host stores one queue for each placement and must write it with a compare-and-swap before it acts
// on a [Turn]. The zero Queue is empty.
type Queue struct {
	// Active is the only run that may act; nil if there is none.
	Active *Entry `json:"active,omitempty"`
	// Waiting are the waiting runs, in the order of their turns.
	Waiting []Entry `json:"waiting,omitempty"`
	// Superseded are the superseded runs that have not left yet. The active run is among them while
	// it drains.
	Superseded []Superseder `json:"superseded,omitempty"`
}

// Turn is the answer to a run that entered a [Queue].
type Turn struct {
	// Starts reports whether the run is the active run now.
	Starts bool
	// WaitsFor is the name of the first run of the queue, if this run must wait.
	WaitsFor string
	// Supersedes are the runs that this run supersedes. Each must receive a Supersede command, and
	// leaves the queue when it has ended. If the active run is among them, it is the first and
	// drains; the others never started and end at once.
	Supersedes []Entry
	// SupersededBy is the name of the run that supersedes this run, if there is one: this run must
	// be superseded.
	SupersededBy string
	// Retake reports whether the run starts, but its lease has an older epoch than the placement.
	// Other runs have written to clusters at newer epochs since, so the lease must be taken again
	// first.
	Retake bool
}

// Enter adds a run to the queue, or makes it the active run if no run is ahead of it. An empty
// policy means [stages.QueueRun].
//
// It is idempotent. A run that is in the queue keeps its place, whatever the policy, becomes active
// at its turn, and gets the same turn until the runs that the turn names have left. A waiting run
// can therefore poll with Enter. On an error the queue is unchanged.
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

// Leave removes a run that has ended or was deleted from the queue. It makes no other run active.
// It ignores a run that is not in the queue.
func (q Queue) Leave(uid string) Queue {
	if q.Active != nil && q.Active.UID == uid {
		q.Active = nil
	}
	q.Waiting = slices.DeleteFunc(slices.Clone(q.Waiting), func(e Entry) bool { return e.UID == uid })
	q.Superseded = slices.DeleteFunc(slices.Clone(q.Superseded), func(s Superseder) bool { return s.UID == uid })
	return q
}

// Next returns the run that becomes active when it enters again; false while another run is active
// or none waits.
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

// superseder returns the name of the run that superseded the run with this UID, or "".
func (q Queue) superseder(uid string) string {
	i := slices.IndexFunc(q.Superseded, func(s Superseder) bool { return s.UID == uid })
	if i < 0 {
		return ""
	}
	return q.Superseded[i].By
}

// rival returns the run that a new run competes with: the active run, or the first waiting run if
// the active run drains already.
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

// displace supersedes every run in the queue except evicting runs.
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

// activate makes the run active if no run is ahead of it.
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
