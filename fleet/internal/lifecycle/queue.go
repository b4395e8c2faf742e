package lifecycle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/stages"
)

// RunRequested asks whether the placement would admit a run, before anything is stored of it. It changes nothing;
// the error is a [*RejectedError] where it would be rejected.
type RunRequested struct {
	Entry
	// Hold and RollbackOf are those of the [RunAdmitted] to come.
	Hold       bool
	RollbackOf string
}

func (in RunRequested) advance(m *machine) error {
	if err := m.dequeue(); err != nil {
		return err
	}
	err := m.enqueue(in.Entry, in.Hold, in.RollbackOf != "")
	m.out.Turn = Turn{}
	return orUnchanged(err)
}

// RunAdmitted makes a run whose record is stored one of the placement's. It is repeated by every engine that finds
// the run recorded and not admitted.
type RunAdmitted struct {
	Entry
	// Plan is the digest of the plan, Clusters are those that it updates, and Count is how many it has in all.
	Plan     string
	Clusters []string
	Count    int
	// New are those of Clusters that the plan expects to have nothing, and that no run was to bring anything before.
	New []string
	// Of is the UID of the placement that the run was made for, empty where its record does not have it.
	Of string
	// By is the identity that started the run. Hold keeps it out of the queue until it is started.
	By   string
	Hold bool
	// RollbackOf is the UID of the run that this one rolls back.
	RollbackOf string
	// Evicts are the clusters that the run cleans where it does nothing else. They are not picked until it has ended.
	Evicts []string
	// GCGeneration is the placement's when the contents and the plan of the run were stored.
	GCGeneration int64
	// Version, where it is not empty, is the [State.Version] that the run was decided on.
	Version string
	// Recovered reports whether the run was recorded by a process that did not live to see it admitted, so that
	// nothing of it can be made again.
	Recovered bool
	// Selection is the one that picked the clusters; nil where there is none, or its clusters are not known.
	Selection *SelectionChanged
}

func (in RunAdmitted) advance(m *machine) error {
	if m.entry(in.UID) != nil {
		return errUnchanged
	}
	if err := m.accepts(&in); err != nil {
		return err
	}
	if err := m.CheckVersion(in.Version); err != nil {
		return fmt.Errorf("run %s: %w", in.Run, err)
	}
	own, err := m.readAll(append(m.unended(), in.Entry))
	if err != nil {
		return err
	}
	if own.Found == Absent || m.isRetired(in.UID) {
		return fmt.Errorf("run %s was deleted before it was admitted: try again: %w", in.Run, ErrStale)
	}
	if !m.hasSnapshot(in.Index) && !m.cleans(in.Run) {
		kind := ErrStale
		if in.Recovered {
			kind = ErrIncomplete
		}
		return fmt.Errorf("run %s: snapshot %d was dropped before the run was recorded, placement %s has %s: %w",
			in.Run, in.Index, m.facts.Spec.Name, m.Indexes(), kind)
	}
	if in.GCGeneration != m.GCGeneration {
		m.out.Need.Contents = true
		return errNeed
	}
	if err := m.dropDeleted(); err != nil {
		return err
	}
	if err := m.clearWay(); err != nil {
		return err
	}
	if err := m.enqueue(in.Entry, in.Hold, in.RollbackOf != ""); err != nil {
		return err
	}
	bindings, err := m.bound()
	if err != nil {
		return err
	}
	if err := in.checkNew(bindings); err != nil {
		return err
	}
	if err := in.checkEvicted(m.Evicting()); err != nil {
		return err
	}
	if bindings.add(in.Clusters) {
		m.rebind()
	}
	m.Runs = append(m.Runs, Run{Name: in.Run, UID: in.UID, Index: in.Index, Plan: in.Plan, RollbackOf: in.RollbackOf, Evicts: in.Evicts})
	if in.Selection != nil {
		m.recordSelection(*in.Selection)
	}
	message := ""
	if b := m.Rollback; b != nil && b.UID == in.UID {
		m.Rollback = nil
		m.note(b.Of, b.Run, "")
		message = "takes back run " + b.OfRun + ": " + b.RollbackRequest.Message
	}
	m.emit(stages.Event{
		Type: stages.RunCreated, Run: in.Run, Index: &in.Index, Digest: in.Plan, Count: in.Count, By: in.By, Message: message,
	})
	if m.Bindings.Generation > 1 { // there were others before
		m.after(DropBindings{})
	}
	return nil
}

// checkNew returns an error where a cluster that the plan has for new is not, by what was admitted since it was planned.
func (in RunAdmitted) checkNew(bindings Bindings) error {
	kind := ErrStale
	if in.Recovered {
		kind = ErrIncomplete
	}
	for _, name := range in.New {
		if _, known := bindings[name]; known {
			return fmt.Errorf("run %s: it was planned for cluster %s as a new one, and another run was to bring that something since: %w", in.Run, name, kind)
		}
	}
	return nil
}

// checkEvicted returns an error where the run is to update a cluster that another one evicts since it was planned: it
// would bring back what is taken away.
func (in RunAdmitted) checkEvicted(evicting map[string]string) error {
	kind := ErrStale
	if in.Recovered {
		kind = ErrIncomplete
	}
	for _, name := range in.Clusters {
		if by, is := evicting[name]; is && in.RollbackOf == "" {
			return fmt.Errorf("run %s: it was planned for cluster %s, which run %s evicts since: %w", in.Run, name, by, kind)
		}
	}
	return nil
}

// accepts returns an error where a run does not belong to the placement: it was made for another one of its name, the
// placement is being deleted, or the run rolls another one back and that is not asked for any more.
func (m *machine) accepts(in *RunAdmitted) error {
	switch {
	case in.Of != "" && in.Of != m.UID:
		return fmt.Errorf("run %s: the placement %s that it was made for was deleted: create it again: %w", in.Run, m.facts.Spec.Name, ErrDeleted)
	case m.cleans(in.Run):
		return nil
	case m.Deleting != nil:
		return m.open()
	case in.RollbackOf != "" && (m.Rollback == nil || m.Rollback.UID != in.UID):
		return fmt.Errorf("run %s: its rollback is not asked for any more: %w", in.Run, ErrIncomplete)
	default:
		return nil
	}
}

// readAll asks for the records of all runs and for the bindings at once, and returns what was read of the last run.
func (m *machine) readAll(runs []Entry) (last RunFact, err error) {
	_, missing := m.bound()
	if missing != nil && !errors.Is(missing, errNeed) {
		missing = nil // where that matters it is found again
	}
	for _, r := range runs {
		if last, err = m.read(r); err != nil {
			missing = err
		}
	}
	return last, missing
}

// dropDeleted forgets runs that were deleted while another engine was admitting them. A run is recorded before it is
// admitted, so that one which has not ended and has no record was deleted.
func (m *machine) dropDeleted() error {
	for _, e := range m.unended() {
		f, err := m.read(e)
		if err != nil {
			return err
		}
		if f.Found != Absent {
			continue
		}
		m.emit(stages.Event{Type: stages.RunDeleted, Run: e.Run})
		m.drop(func(r *Run) bool { return r.UID == e.UID })
		if err := m.leftBehind(e); err != nil {
			return err
		}
	}
	return nil
}

// TurnAsked is a run that has not started and asks whether it may. A run that waits asks again until it starts.
type TurnAsked struct {
	Entry
	// Epoch is that of the lease under which the run is driven.
	Epoch int64
}

func (in TurnAsked) advance(m *machine) error {
	if err := m.awaits(in.UID); err != nil {
		return err
	}
	if m.Deleting != nil && !m.cleans(in.Run) {
		m.out.Turn.SupersededBy = m.Deleting.Run
		return errUnchanged
	}
	if active := m.Queue.Active; active == nil || active.UID != in.UID {
		if err := m.clearWay(); err != nil {
			return err
		}
		if f := m.facts.Runs[in.UID]; f.Found == Absent || f.Found == Present && f.Ended {
			return fmt.Errorf("run %s has ended or was deleted: %w", in.Run, ErrFenced)
		}
	}
	if err := m.enter(in.Entry, lateAdmission(m.facts.Spec.Admission)); err != nil {
		return err
	}
	m.out.Turn.Retake = m.out.Turn.Starts && in.Epoch != m.Epoch
	return nil
}

// awaits returns why a run that has not started, as far as its driver knows, does not belong into the queue: it
// was brought to its end, or deleted.
func (s *State) awaits(uid string) error {
	switch r := s.entry(uid); {
	case r == nil:
		return fmt.Errorf("the run was deleted: %w", ErrNotFound)
	case r.Ended != "":
		return fmt.Errorf("run %s has ended, it is %s: %w", r.Name, r.Ended, ErrFenced)
	default:
		return nil
	}
}

// HasTurn reports whether a run that has not started has the placement, with nothing left to be done before it
// starts. It is then not necessary to ask with [TurnAsked]. It is safe when the state is old: a run keeps its place
// until it has ended.
func (s *State) HasTurn(e Entry, a stages.Admission) bool {
	if active := s.Queue.Active; active == nil || active.UID != e.UID || s.Deleting != nil || s.awaits(e.UID) != nil {
		return false
	}
	_, v, err := s.Queue.Enter(e, lateAdmission(a))
	return err == nil && v.Starts && v.SupersededBy == "" && len(v.Supersedes) == 0
}

// RetryAsked is a run that has failed and is to be started again. It gets the placement where no other run has it
// or waits for it: the turn then starts, and otherwise waits for that run. Asked again, after a crash, it may have been
// superseded meanwhile.
type RetryAsked struct {
	Entry
	// Attempt is the one to be started, Epoch that of the lease under which the run is driven.
	Attempt int
	Epoch   int64
}

func (in RetryAsked) advance(m *machine) error {
	if m.Deleting != nil {
		m.out.Turn.WaitsFor = m.Deleting.Run
		return errUnchanged
	}
	if m.entry(in.UID) == nil {
		return fmt.Errorf("the run was deleted: %w", ErrNotFound)
	}
	if err := m.clearWay(); err != nil {
		return err
	}
	first := in.Entry
	if m.Queue.Active != nil {
		first = *m.Queue.Active
	} else if next, ok := m.Queue.Next(); ok {
		first = next
	}
	if first.UID != in.UID {
		m.out.Turn.WaitsFor = first.Run
		return errUnchanged
	}
	if err := m.bindAgain(in.Entry); err != nil {
		return err
	}
	if err := m.enter(in.Entry, stages.QueueRun); err != nil {
		return err
	}
	m.out.Turn.Retake = m.out.Turn.Starts && in.Epoch != m.Epoch
	r := m.entry(in.UID)
	r.Ended, r.Nth, r.Restart = "", 0, in.Attempt
	return nil
}

// bindAgain gives the clusters that a run is to update bindings again, because another run may have cleaned some of
// them after the run had failed. It does nothing if the bindings or the plan of the run cannot be read any more.
func (m *machine) bindAgain(e Entry) error {
	bindings, err := m.bound()
	if errors.Is(err, ErrBindingsLost) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := m.result(e)
	if err != nil || r == nil {
		return err
	}
	var updated []string
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.Index != None {
			updated = append(updated, c.Cluster)
		}
	}
	if bindings.add(updated) {
		m.rebind()
	}
	return nil
}

// clearWay records that the run which has the placement has ended or was deleted, and takes those out of the queue
// that are next and have.
func (m *machine) clearWay() error {
	if err := m.clearActive(); err != nil || m.Queue.Active != nil {
		return err
	}
	return m.dequeue()
}

// clearActive takes the run that has the placement out of the queue where it has ended or was deleted. How it ended is
// taken in first, in case its engine did not live to do so: no run may change a cluster before it is known what
// the clusters have. A run whose record cannot be read is waited for; one that has ended, and whose plan or pages
// cannot be read, leaves as if it was deleted.
func (m *machine) clearActive() error {
	active := m.Queue.Active
	if active == nil || m.reserves(active.UID) {
		return nil
	}
	f, err := m.read(*active)
	switch {
	case err != nil:
		return err
	case f.Found == Unreadable || f.Found == Present && (!f.Ended || m.restarts(active.UID, f.Attempt)):
		return nil
	case f.Found == Present && m.entry(active.UID) != nil:
		r, err := m.result(*active)
		if err != nil {
			return err
		}
		if r != nil {
			return m.takeIn(active.UID, active.Run, r)
		}
	}
	m.Queue = m.Queue.Leave(active.UID)
	return nil
}

// dequeue takes runs out of the front of the queue that have ended or were deleted, so that no run waits for them.
// How a run that has the placement ended is for [machine.clearActive] to take in.
func (m *machine) dequeue() error {
	for {
		first := m.Queue.Active
		if next, ok := m.Queue.Next(); ok {
			first = &next
		}
		if first == nil || m.reserves(first.UID) {
			return nil
		}
		f, err := m.read(*first)
		if err != nil {
			return err
		}
		if f.Found == Unreadable || f.Found == Present && (!f.Ended || m.restarts(first.UID, f.Attempt)) {
			return nil
		}
		m.Queue = m.Queue.Leave(first.UID)
	}
}

// restarts reports whether a run that has failed in an attempt is about to be started again.
func (s *State) restarts(uid string, attempt int) bool {
	r := s.entry(uid)
	return r != nil && r.Restart > attempt
}

// enqueue puts a run into the queue, unless it is held. The run that cleans the clusters of a placement which is
// deleted, and one that rolls another one back, supersede all others.
func (m *machine) enqueue(e Entry, hold, rollback bool) error {
	if hold {
		return nil
	}
	admission := m.facts.Spec.Admission
	if rollback || m.cleans(e.Run) {
		admission = stages.SupersedeActive
	}
	return m.enter(e, admission)
}

func (m *machine) enter(e Entry, a stages.Admission) (err error) {
	if r := m.entry(e.UID); r != nil {
		e.Evicts = len(r.Evicts) > 0
	}
	if m.Queue, m.out.Turn, err = m.Queue.Enter(e, a); err == nil {
		m.supersede(e, m.out.Turn.Supersedes)
	}
	return err
}

// lateAdmission is how a run that was admitted before enters the queue: it is too late to reject it.
func lateAdmission(a stages.Admission) stages.Admission {
	if a == stages.RejectRun {
		return stages.QueueRun
	}
	return a
}

// superseder names the run that takes the place of another one in the queue, or "".
func (s *State) superseder(uid string) string {
	for _, e := range s.Queue.Superseded {
		if e.UID == uid {
			return e.By
		}
	}
	return ""
}

// Indexes lists the indexes of the snapshots that are kept, for an error.
func (s *State) Indexes() string {
	if len(s.Snapshots) == 0 {
		return "no snapshot yet"
	}
	var all []string
	for _, s := range s.Snapshots {
		all = append(all, strconv.Itoa(s.Index))
	}
	return "the indexes " + strings.Join(all, ", ")
}

// orUnchanged is the end of an input that only asks.
func orUnchanged(err error) error {
	if err != nil {
		return err
	}
	return errUnchanged
}
