package stages

import (
	"fmt"
	"slices"
)

// Admission is the policy for a run that is started while another one of its placement is active. A run with
// an older index than the active one is a rollback and always supersedes.
type Admission string

// The admission policies.
const (
	// QueueRun lets the run wait for its turn, behind those that wait already.
	// It is the default.
	QueueRun Admission = "Queue"
	// RejectRun refuses the run with a [RejectedError].
	RejectRun Admission = "Reject"
	// SupersedeActive drains the active run and takes its place, and that of
	// the runs that wait.
	SupersedeActive Admission = "Supersede"
)

// Entry is a run in the queue of its placement.
type Entry struct {
	// UID identifies the run, Run is its name.
	UID string `json:"uid"`
	Run string `json:"run"`
	// Index is that of the snapshot it rolls out.
	Index int `json:"index"`
}

// Superseder says which run superseded an entry.
type Superseder struct {
	Entry
	// By is the name of the run that took its place.
	By string `json:"by"`
}

// Line is the queue of the runs of a placement: the one that may change it now, and those that wait. It is a
// value: its methods return another one and change nothing. The host stores one for each placement and writes
// it with a compare-and-swap before it acts on a [Verdict]. The zero Line is empty.
type Line struct {
	// Active is the one run that may act; nil when there is none.
	Active *Entry `json:"active,omitempty"`
	// Waiting are the runs whose turn comes, in that order.
	Waiting []Entry `json:"waiting,omitempty"`
	// Superseded are the runs that have been superseded and have not left yet.
	// The active run is among them while it drains.
	Superseded []Superseder `json:"superseded,omitempty"`
}

// Verdict is the answer to a run that entered a [Line].
type Verdict struct {
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
}

// RejectedError is how [RejectRun] refuses a run.
type RejectedError struct {
	// Run is the name of the run that was refused, Active that of the run
	// which has the placement or, where none has, is the next to.
	Run, Active string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("run %s is rejected: run %s has the placement; start it when that has ended, or ask for %s or %s",
		e.Run, e.Active, QueueRun, SupersedeActive)
}

// Enter adds a run to the queue, or makes it the active one when no run is ahead of it. A policy of "" is
// [QueueRun].
//
// It is idempotent: a run that is in the queue keeps its place, whatever the policy, becomes active when its
// turn has come, and gets the same verdict until what the verdict asks for has happened. A waiting run
// therefore polls with it. On an error the queue is unchanged.
func (l Line) Enter(e Entry, policy Admission) (Line, Verdict, error) {
	if e.UID == "" || e.Run == "" || e.Index < 0 {
		return l, Verdict{}, fmt.Errorf("run %q with UID %q and index %d: a run in line needs a name, a UID and an index of at least 0", e.Run, e.UID, e.Index)
	}
	switch policy {
	case "", QueueRun, RejectRun, SupersedeActive:
	default:
		return l, Verdict{}, fmt.Errorf("run %s: admission %q must be %s, %s or %s", e.Run, policy, QueueRun, RejectRun, SupersedeActive)
	}
	if !l.has(e.UID) {
		rival, taken := l.rival()
		switch {
		case taken && (policy == SupersedeActive || e.Index < rival.Index):
			l = l.displace(e.Run)
		case policy == RejectRun && (taken || l.Active != nil):
			return l, Verdict{}, &RejectedError{Run: e.Run, Active: l.ahead().Run}
		}
		l.Waiting = append(slices.Clone(l.Waiting), e)
	}
	l = l.activate(e.UID)
	return l, l.verdict(e.UID), nil
}

// Leave removes a run from the queue, because it has ended or was deleted. It makes no other run active. A
// run that is not in the queue changes nothing.
func (l Line) Leave(uid string) Line {
	if l.Active != nil && l.Active.UID == uid {
		l.Active = nil
	}
	l.Waiting = slices.DeleteFunc(slices.Clone(l.Waiting), func(e Entry) bool { return e.UID == uid })
	l.Superseded = slices.DeleteFunc(slices.Clone(l.Superseded), func(s Superseder) bool { return s.UID == uid })
	return l
}

// Next returns the run that becomes active when it enters again; false while another one is active or none
// waits.
func (l Line) Next() (Entry, bool) {
	if l.Active != nil || len(l.Waiting) == 0 {
		return Entry{}, false
	}
	return l.Waiting[0], true
}

// has reports whether a run is in the queue.
func (l Line) has(uid string) bool {
	return l.Active != nil && l.Active.UID == uid || l.waiting(uid) >= 0 || l.superseder(uid) != ""
}

func (l Line) waiting(uid string) int {
	return slices.IndexFunc(l.Waiting, func(e Entry) bool { return e.UID == uid })
}

// superseder names the run that superseded a run, or "".
func (l Line) superseder(uid string) string {
	i := slices.IndexFunc(l.Superseded, func(s Superseder) bool { return s.UID == uid })
	if i < 0 {
		return ""
	}
	return l.Superseded[i].By
}

// rival returns the run that a new one competes with: the active one, or the
// next where that drains already.
func (l Line) rival() (Entry, bool) {
	switch {
	case l.Active != nil && l.superseder(l.Active.UID) == "":
		return *l.Active, true
	case len(l.Waiting) > 0:
		return l.Waiting[0], true
	default:
		return Entry{}, false
	}
}

// displace supersedes every run in the queue.
func (l Line) displace(by string) Line {
	out := slices.Clone(l.Superseded)
	if l.Active != nil && l.superseder(l.Active.UID) == "" {
		out = append(out, Superseder{*l.Active, by})
	}
	for _, e := range l.Waiting {
		out = append(out, Superseder{e, by})
	}
	l.Superseded, l.Waiting = out, nil
	return l
}

// activate makes the run active when no run is ahead of it.
func (l Line) activate(uid string) Line {
	if e, ok := l.Next(); ok && e.UID == uid {
		l.Active, l.Waiting = &e, slices.Clone(l.Waiting[1:])
	}
	return l
}

// ahead returns the first run of the queue.
func (l Line) ahead() Entry {
	if l.Active != nil {
		return *l.Active
	}
	return l.Waiting[0]
}

func (l Line) verdict(uid string) Verdict {
	if by := l.superseder(uid); by != "" {
		return Verdict{SupersededBy: by}
	}
	v := Verdict{Starts: l.Active != nil && l.Active.UID == uid}
	if !v.Starts {
		v.WaitsFor = l.ahead().Run
	}
	if first, ok := l.rival(); ok && first.UID == uid {
		for _, s := range l.Superseded {
			v.Supersedes = append(v.Supersedes, s.Entry)
		}
	}
	return v
}
