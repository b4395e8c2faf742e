package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackRequested asks for a run that has ended to be rolled back. Which run does so is [State.TakenBackBy] of
// the outcome. Where it cannot be, the error is ErrRefused.
type RollbackRequested struct {
	Entry
	// Result is what the run has come to.
	Result Result
	// RollbackRequest has the name of the run that is to roll it back.
	RollbackRequest stages.RollbackRequest
}

func (in RollbackRequested) advance(m *machine) error {
	if m.TakenBackBy(in.UID) != "" {
		return errUnchanged
	}
	if err := m.clearWay(); err != nil {
		return err
	}
	if why := cmp.Or(m.rollbackRefusal(in.UID, &in.Result), m.busy()); why != "" {
		return refuse(in.Run, why)
	}
	if !m.facts.Planned {
		m.out.Need.Rollback = true
		return errNeed
	}
	m.emit(stages.Event{Type: stages.RollbackRequested, Run: in.Run, By: in.RollbackRequest.By.Name, Message: in.RollbackRequest.Message})
	return m.reserve(in.UID, in.Run, in.RollbackRequest.Run, in.RollbackRequest)
}

// RollbackRenamed gives the run that rolls another one back, and is not admitted yet, another name: From is taken.
// It keeps its place in the queue.
type RollbackRenamed struct{ UID, From, To string }

func (in RollbackRenamed) advance(m *machine) error {
	if !m.reserves(in.UID) || m.Rollback.Run != in.From {
		return errUnchanged
	}
	m.Rollback.Run = in.To
	q := &m.Queue
	if q.Active != nil && q.Active.UID == in.UID {
		active := *q.Active
		active.Run, q.Active = in.To, &active
	}
	q.Waiting, q.Superseded = slices.Clone(q.Waiting), slices.Clone(q.Superseded)
	for i := range q.Waiting {
		if q.Waiting[i].UID == in.UID {
			q.Waiting[i].Run = in.To
		}
	}
	for i := range q.Superseded {
		if q.Superseded[i].UID == in.UID {
			q.Superseded[i].Run = in.To
		}
		if q.Superseded[i].By == in.From {
			q.Superseded[i].By = in.To
		}
	}
	return nil
}

// RollbackAbandoned records why a run is not rolled back, and releases the place in the queue. UID is that of
// the run which was to do it.
type RollbackAbandoned struct{ UID, Reason string }

func (in RollbackAbandoned) advance(m *machine) error {
	b := m.Rollback
	if b == nil || b.UID != in.UID {
		return errUnchanged
	}
	m.Rollback, m.Queue = nil, m.Queue.Leave(b.UID)
	m.note(b.Of, "", in.Reason)
	m.settleBase()
	m.emit(stages.Event{Type: stages.RollbackRefused, Run: b.OfRun, Message: in.Reason})
	return nil
}

// TakenBackBy returns the name of the run that is to roll back the run of a UID, or that does and has not
// ended, or "".
func (s *State) TakenBackBy(uid string) string {
	if s.Rollback != nil && s.Rollback.Of == uid {
		return s.Rollback.Run
	}
	for i := range s.Runs {
		if r := &s.Runs[i]; r.RollbackOf == uid && r.Ended == "" {
			return r.Name
		}
	}
	return ""
}

// reserves reports whether the place of a UID in the queue is that of a run which is to roll another one back
// and is not admitted yet.
func (s *State) reserves(uid string) bool {
	return s.Rollback != nil && s.Deleting == nil && s.Rollback.UID == uid
}

// reserve records that a run is to be rolled back, and puts the run that does so into the queue, in the place of all
// others.
func (m *machine) reserve(uid, run, name string, u stages.RollbackRequest) error {
	entry := Entry{UID: m.facts.ID, Run: name}
	queue, _, err := m.Queue.Enter(entry, stages.SupersedeActive)
	if err != nil {
		return err
	}
	m.Queue = queue
	m.Rollback = &PendingRollback{Of: uid, OfRun: run, Run: name, UID: entry.UID, RollbackRequest: u, Since: m.facts.Now}
	return nil
}

// rollbackRefusal says why a run that has ended cannot be rolled back, or "".
func (s *State) rollbackRefusal(uid string, r *Result) string {
	switch {
	case r.TakesBack != "":
		return "it takes back run " + r.TakesBack + " itself: take that back once more, or roll out the snapshot that is to be there"
	case r.NoRollback:
		return "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
	case s.Deleting != nil:
		return "the placement is being deleted"
	case s.Rollback != nil:
		return "run " + s.Rollback.OfRun + " is about to be"
	case s.Base == nil:
		return "what the clusters had before it is not known: a run has changed them since, or was deleted"
	case s.Base.UID != uid:
		return "run " + s.Base.Run + " has changed clusters since: take that back, or roll out the snapshot that is to be there"
	case r.Changed == 0:
		return "it has not changed any cluster"
	default:
		return ""
	}
}

// busy says which run has the placement, or "".
func (m *machine) busy() string {
	if m.Queue.Active == nil {
		return ""
	}
	return "run " + m.Queue.Active.Run + " has placement " + m.facts.Spec.Name + ": take that back, or wait until it has ended"
}

// owesRollback reports whether a run is to be rolled back, and that was not recorded.
func (s *State) owesRollback(uid string, r *Result) bool {
	known := s.entry(uid)
	return r.RollbackRequest != nil && r.State == stages.Failed && known != nil && known.RolledBackBy+known.RollbackRefused == "" &&
		(s.Rollback == nil || s.Rollback.Of != uid)
}

// recordRollback records that a run which has ended is to be rolled back, or why it is not. by is the run that takes its place
// in the queue, if any does.
func (m *machine) recordRollback(uid, name string, r *Result, by string) {
	if !m.owesRollback(uid, r) {
		return
	}
	why := m.rollbackRefusal(uid, r)
	if by != "" {
		why = "run " + by + " takes its place"
	}
	why = cmp.Or(why, m.busy())
	if why == "" {
		err := m.reserve(uid, name, cmp.Or(r.RollbackRequest.Run, r.RollbackName), *r.RollbackRequest)
		if err == nil {
			return
		}
		why = err.Error()
	}
	m.note(uid, "", why)
	m.emit(stages.Event{Type: stages.RollbackRefused, Run: name, Message: why})
}

// note records which run rolls back the one of a UID, or why none does.
func (m *machine) note(uid, by, kept string) {
	if r := m.entry(uid); r != nil {
		r.RolledBackBy, r.RollbackRefused = by, kept
	}
}

// rebase records what the clusters had before a run, by the bindings and indexes from before its end was
// taken in. A rollback leaves that as it is, so that what it could not do can be done once more.
func (m *machine) rebase(uid, name string, r *Result, before Generation, inUse []int) {
	switch {
	case !r.Started || r.TakesBack != "":
	case r.NoRollback || r.Final:
		m.Base = nil
	case m.Base != nil && m.Base.UID == uid: // the run was started again
	default:
		m.Base = m.BaseOf(uid, name, before, inUse)
	}
}

// BaseOf returns what the clusters had before a run of which the end is not recorded, as far as bindings
// have it. Of a run that was started again it is what they had before its first attempt.
func (s *State) BaseOf(uid, name string, before Generation, inUse []int) *Base {
	if s.Base != nil && s.Base.UID == uid {
		return s.Base
	}
	return &Base{UID: uid, Run: name, Bindings: before, InUse: inUse}
}

// settleBase forgets what the clusters had before a run which is forgotten, and so cannot be rolled back. A
// run that is rolling it back needs the snapshots until it has ended.
func (m *machine) settleBase() {
	if m.Base != nil && m.entry(m.Base.UID) == nil && m.TakenBackBy(m.Base.UID) == "" {
		m.Base = nil
	}
}

// IrreversibleMarked marks a snapshot as one that no cluster is rolled back past, or with Reversible takes the
// mark away.
type IrreversibleMarked struct {
	Index      int
	Reversible bool
	By         string
}

func (in IrreversibleMarked) advance(m *machine) error {
	if err := m.open(); err != nil {
		return err
	}
	at, marked := slices.BinarySearch(m.Irreversible, in.Index)
	switch {
	case marked != in.Reversible:
		return errUnchanged
	case marked:
		m.Irreversible = slices.Delete(m.Irreversible, at, at+1)
		m.emit(stages.Event{Type: stages.SnapshotReversible, Index: &in.Index, By: in.By})
		return nil
	}
	if _, err := m.SnapshotAt(in.Index); err != nil {
		return err
	}
	m.Irreversible = slices.Insert(m.Irreversible, at, in.Index)
	m.emit(stages.Event{Type: stages.SnapshotIrreversible, Index: &in.Index, By: in.By})
	return nil
}

// SnapshotAt returns the snapshot of an index, verified. The error is ErrNotFound where it is not kept.
func (s *State) SnapshotAt(index int) (snapshot.Snapshot, error) {
	for _, kept := range s.Snapshots {
		if kept.Index == index {
			return kept, kept.Verify()
		}
	}
	return snapshot.Snapshot{}, fmt.Errorf("snapshot %d, of %s: %w", index, s.Indexes(), ErrNotFound)
}

// Bars returns the first irreversible snapshot that a cluster would be rolled back past on its way from one index
// to another, either of which may be [None]; false where there is none.
func (s *State) Bars(from, to int) (int, bool) {
	for _, k := range s.Irreversible {
		if to < k && k <= from {
			return k, true
		}
	}
	return 0, false
}

// Earlier is what a cluster had, by the bindings before a run that has brought the snapshot of index to it, with the
// reason why it cannot get that again, if there is one: what step.RollBack asks.
func (s *State) Earlier(h Binding, index int) stages.Previous {
	out := stages.Previous{Index: h.Applied, Revision: h.Revision}
	if k, ok := s.Bars(index, h.Applied); ok {
		out.Keep = fmt.Sprintf("snapshot %d is irreversible", k)
		return out
	}
	if h.Applied == None {
		return out
	}
	kept, err := s.SnapshotAt(h.Applied)
	switch {
	case err != nil:
		out.Keep = fmt.Sprintf("it had snapshot %d, which is not there any more", h.Applied)
	case h.Revision == "":
		out.Keep = fmt.Sprintf("what it had of snapshot %d is not known: the run that brought it is forgotten", h.Applied)
	}
	out.Snapshot = kept.Digest
	return out
}
