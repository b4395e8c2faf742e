package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackRequested asks to roll back a run that has ended. [State.RolledBackBy] of the outcome is
// the run that does so. If a rollback is impossible, the error is ErrRefused.
type RollbackRequested struct {
	Entry
	// Result is the result of the run on its clusters.
	Result Result
	// RollbackRequest has the name of the run that will roll it back.
	RollbackRequest stages.RollbackRequest
}

func (in RollbackRequested) advance(m *machine) error {
	if m.RolledBackBy(in.UID) != "" {
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

// RollbackRenamed renames the pending rollback run from From to To, because another run has the
// name From. The rollback run keeps its place in the queue.
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

// RollbackAbandoned records why a run is not rolled back, and releases the place in the queue. UID
// is the UID of the pending rollback run.
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

// RolledBackBy returns the name of the pending or unfinished run that rolls back the run with this
// UID, or "".
func (s *State) RolledBackBy(uid string) string {
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

// reserves reports whether the place of this UID in the queue is reserved for a pending rollback.
func (s *State) reserves(uid string) bool {
	return s.Rollback != nil && s.Deleting == nil && s.Rollback.UID == uid
}

// reserve records a pending rollback and enqueues its run, which supersedes all others.
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

// rollOut is the remedy if a run cannot be rolled back.
const rollOut = "roll out the snapshot that the clusters should have, by a run with its index"

// NoBase is the reason why no ended run can be rolled back, with the remedy.
const NoBase = "the revisions that the clusters had before it are not known, because a run without a rollback, for example the eviction of a drain, has changed them since or a run was deleted: " + rollOut

// OtherBase returns the reason why only run can be rolled back, with the remedy. It does not advise
// to roll run back, because run is the last run that changed clusters after that, too.
func OtherBase(run string) string {
	return "run " + run + " has changed clusters since, and only the last run that changed clusters can be rolled back: " + rollOut
}

// ofRollback returns the reason why a rollback is not rolled back, with the remedy.
func (s *State) ofRollback(uid string, r *Result) string {
	if known := s.entry(uid); known != nil && s.Base != nil && s.Base.UID == known.RollbackOf && r.State != stages.Completed {
		return "it rolls back run " + r.RollsBack + " itself: to complete that, roll run " + r.RollsBack + " back once more"
	}
	return "it rolls back run " + r.RollsBack + " itself, and no run rolls back a rollback: " + rollOut
}

// rollbackRefusal returns the reason why a run that has ended cannot be rolled back, or "". The
// reason ends with a remedy. Whoever follows the remedies from run to run must reach one that names
// no run.
func (s *State) rollbackRefusal(uid string, r *Result) string {
	switch {
	case r.RollsBack != "":
		return s.ofRollback(uid, r)
	case r.Changed == 0:
		return "it has not changed any cluster, so there is nothing to roll back"
	case r.NoRollback:
		return "its strategy has no rollback: " + rollOut
	case s.Deleting != nil:
		return "the placement is being deleted"
	case s.Rollback != nil:
		return "run " + s.Rollback.OfRun + " is about to be rolled back: wait for the end of that rollback"
	case s.Base == nil:
		return NoBase
	case s.Base.UID != uid:
		return OtherBase(s.Base.Run)
	default:
		return ""
	}
}

// busy returns the reason that another run is active, or "".
func (m *machine) busy() string {
	active := m.Queue.Active
	if active == nil {
		return ""
	}
	why := "run " + active.Run + " has placement " + m.facts.Spec.Name
	if known := m.entry(active.UID); m.reserves(active.UID) || known != nil && known.RollbackOf != "" {
		return why + ": wait until it has ended"
	}
	return why + ": roll that run back, or wait until it has ended"
}

// owesRollback reports whether the failed run requests a rollback that is neither recorded nor
// refused yet.
func (s *State) owesRollback(uid string, r *Result) bool {
	known := s.entry(uid)
	return r.RollbackRequest != nil && r.State == stages.Failed && known != nil && known.RolledBackBy+known.RollbackRefused == "" &&
		(s.Rollback == nil || s.Rollback.Of != uid)
}

// recordRollback records the rollback that an ended run requests, or why it is refused. by is the
// name of the run that supersedes the run in the queue, or "".
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

// note records the name of the run that rolls back the run with this UID, or why none does.
func (m *machine) note(uid, by, kept string) {
	if r := m.entry(uid); r != nil {
		r.RolledBackBy, r.RollbackRefused = by, kept
	}
}

// rebase updates Base after a run: before and inUse are the bindings and indexes from before its
// result was recorded. A rollback run leaves Base unchanged, so that an incomplete rollback can be
// repeated.
func (m *machine) rebase(uid, name string, r *Result, before Generation, inUse []int) {
	switch {
	case !r.Started || r.RollsBack != "":
	case r.NoRollback || r.Final:
		m.Base = nil
	case m.Base != nil && m.Base.UID == uid: // the run was retried
	default:
		m.Base = m.BaseOf(uid, name, before, inUse)
	}
}

// BaseOf returns the bindings from before a run whose end is not recorded; for a retried run, the
// bindings from before its first attempt.
func (s *State) BaseOf(uid, name string, before Generation, inUse []int) *Base {
	if s.Base != nil && s.Base.UID == uid {
		return s.Base
	}
	return &Base{UID: uid, Run: name, Bindings: before, InUse: inUse}
}

// settleBase forgets the bindings from before a run that is itself forgotten, because it can no
// longer be rolled back. They are kept until an unfinished rollback of it has ended, because that
// run needs the snapshots.
func (m *machine) settleBase() {
	if m.Base != nil && m.entry(m.Base.UID) == nil && m.RolledBackBy(m.Base.UID) == "" {
		m.Base = nil
	}
}

// IrreversibleMarked marks a snapshot that no cluster may be rolled back past, or removes the mark
// if Reversible is set.
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

// SnapshotAt returns the verified snapshot with this index. The error is ErrNotFound if it is not
// kept.
func (s *State) SnapshotAt(index int) (snapshot.Snapshot, error) {
	for _, kept := range s.Snapshots {
		if kept.Index == index {
			return kept, kept.Verify()
		}
	}
	return snapshot.Snapshot{}, fmt.Errorf("snapshot %d, of %s: %w", index, s.Indexes(), ErrNotFound)
}

// Bars returns the first irreversible snapshot between the indexes from and to that forbids a
// cluster's rollback, or false if there is none. Either index may be [None].
func (s *State) Bars(from, to int) (int, bool) {
	for _, k := range s.Irreversible {
		if to < k && k <= from {
			return k, true
		}
	}
	return 0, false
}

// Earlier returns the earlier content of a cluster for step.RollBack. h is its binding from before
// a run that brought it the snapshot with this index. Keep has the reason if the cluster cannot get
// its earlier content again.
func (s *State) Earlier(h Binding, index int) stages.Previous {
	out := stages.Previous{Index: h.ProvenIndex, Revision: h.Revision}
	if k, ok := s.Bars(index, h.ProvenIndex); ok {
		out.Keep = fmt.Sprintf("snapshot %d is irreversible", k)
		return out
	}
	if h.ProvenIndex == None {
		return out
	}
	kept, err := s.SnapshotAt(h.ProvenIndex)
	switch {
	case err != nil:
		out.Keep = fmt.Sprintf("it had snapshot %d, which is not there any more", h.ProvenIndex)
	case h.Revision == "":
		out.Keep = fmt.Sprintf("what it had of snapshot %d is not known: the run that brought it is forgotten", h.ProvenIndex)
	}
	out.Snapshot = kept.Digest
	return out
}
