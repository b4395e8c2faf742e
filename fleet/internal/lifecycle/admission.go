package lifecycle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/stages"
)

// RunRequested asks whether the placement would admit a run, before any data of the run is stored.
// It changes nothing. If the placement would reject the run, the error is a
// [*stages.RejectedError].
type RunRequested struct {
	Entry
	// Hold and RollbackOf have the same values as in the later [RunAdmitted].
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

// RunAdmitted admits a run whose record is stored. Every engine that finds a recorded run which is
// not admitted repeats the input.
type RunAdmitted struct {
	Entry
	// Plan is the digest of the plan. Clusters are the clusters that the plan updates, Count the
	// number of all its clusters.
	Plan     string
	Clusters []string
	Count    int
	// New is the subset of Clusters without a binding when the run was planned: no run had brought
	// or was going to bring them anything.
	New []string
	// Of is the UID of the placement that the run was made for, empty if its record lacks it.
	Of string
	// By is the identity that created the run. Hold keeps the run out of the queue until it is
	// started.
	By   string
	Hold bool
	// RollbackOf is the UID of the run that this run rolls back.
	RollbackOf string
	// Evicts are the clusters that the run cleans if it does nothing else. No selection may pick
	// them until the run has ended.
	Evicts []string
	// GCGeneration is the placement's generation when the contents and the plan of the run were
	// stored.
	GCGeneration int64
	// Version is the [State.Version] that the run was decided on; empty accepts any version.
	Version string
	// Recovered reports whether another process recorded the run and died before it was admitted.
	// The contents and the plan of such a run cannot be made again.
	Recovered bool
	// Selection is the selection that picked the clusters; nil if there is none, or its clusters
	// are unknown.
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
		message = "rolls back run " + b.OfRun + ": " + b.RollbackRequest.Message
	}
	m.emit(stages.Event{
		Type: stages.RunCreated, Run: in.Run, Index: &in.Index, Digest: in.Plan, Count: in.Count, By: in.By, Message: message,
	})
	if m.Bindings.Generation > 1 { // there were others before
		m.after(DropBindings{})
	}
	return nil
}

// checkNew returns an error if one of the New clusters has a binding now, because another run was
// admitted since the planning.
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

// checkEvicted returns an error if the run updates a cluster that another run evicts now, because
// the run would bring the removed objects back. Rollbacks are exempt.
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

// accepts returns an error if the run does not belong to the placement: it was made for a deleted
// placement of the same name, the placement is being deleted, or the run is a rollback whose
// request is gone.
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

// readAll asks for the records of all runs and for the bindings at once, and returns the facts of
// the last run.
func (m *machine) readAll(runs []Entry) (last RunFact, err error) {
	_, missing := m.bound()
	if missing != nil && !errors.Is(missing, errNeed) {
		missing = nil // the caller finds the error again if it needs the bindings
	}
	for _, r := range runs {
		if last, err = m.read(r); err != nil {
			missing = err
		}
	}
	return last, missing
}

// dropDeleted forgets runs that were deleted while another engine admitted them. A run is recorded
// before it is admitted, so an unfinished run without a record was deleted.
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
		if err := m.markUnfinished(e); err != nil {
			return err
		}
	}
	return nil
}

// TurnAsked asks whether a run that has not started may start. A waiting run asks again until it
// starts.
type TurnAsked struct {
	Entry
	// Epoch is the epoch of the lease on the run.
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

// awaits returns an error if a run does not belong in the queue although its driver believes that
// it has not started: the run has ended or was deleted.
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

// HasTurn reports whether a run that has not started is active and has nothing left to do before it
// starts. The driver then need not ask with [TurnAsked]. It is safe if the state is old, because a
// run keeps its place until it has ended.
func (s *State) HasTurn(e Entry, a stages.Admission) bool {
	if active := s.Queue.Active; active == nil || active.UID != e.UID || s.Deleting != nil || s.awaits(e.UID) != nil {
		return false
	}
	_, v, err := s.Queue.Enter(e, lateAdmission(a))
	return err == nil && v.Starts && v.SupersededBy == "" && len(v.Supersedes) == 0
}

// RetryAsked asks whether a failed run may start again. If no other run is active or waits, the run
// becomes active and the turn says Starts. Otherwise WaitsFor names the first of those runs. If the
// input is repeated after a crash, the run may have been superseded since.
type RetryAsked struct {
	Entry
	// Attempt is the attempt to start, Epoch the epoch of the lease on the run.
	Attempt int
	Epoch   int64
}

func (in RetryAsked) advance(m *machine) error {
	if m.Deleting != nil && m.Deleting.Run != "" {
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

// bindAgain adds the missing bindings of the clusters that a run updates, because another run may
// have cleaned some of them after the run had failed. It does nothing if the bindings or the plan
// of the run are lost.
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

// clearWay removes the active run from the queue if it has ended or was deleted, and then the next
// waiting runs that have ended or were deleted.
func (m *machine) clearWay() error {
	if err := m.clearActive(); err != nil || m.Queue.Active != nil {
		return err
	}
	return m.dequeue()
}

// clearActive removes the active run from the queue if it has ended or was deleted. It first
// records the result of the run: its engine may have died before it did so, and no run may change a
// cluster before the bindings are up to date. A run with an unreadable record keeps its place. If
// the plan or the pages of an ended run are lost, the run leaves the queue as if it were deleted.
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

// dequeue removes runs from the front of the queue that have ended or were deleted, so that no run
// waits for them. It does not record the result of an active run, see [machine.clearActive].
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

// restarts reports whether a retry after the failed attempt has begun.
func (s *State) restarts(uid string, attempt int) bool {
	r := s.entry(uid)
	return r != nil && r.Restart > attempt
}

// enqueue puts a run into the queue unless it is held. A rollback supersedes all other runs, and so
// does the run that cleans the clusters of a deleted placement.
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

// lateAdmission returns the policy for a run that was admitted before: Reject becomes Queue,
// because it is too late to reject the run.
func lateAdmission(a stages.Admission) stages.Admission {
	if a == stages.RejectRun {
		return stages.QueueRun
	}
	return a
}

// superseder returns the name of the run that supersedes the run with this UID, or "".
func (s *State) superseder(uid string) string {
	for _, e := range s.Queue.Superseded {
		if e.UID == uid {
			return e.By
		}
	}
	return ""
}

// Indexes returns the indexes of the kept snapshots as text for an error.
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

// orUnchanged returns errUnchanged instead of nil, for an input that only asks.
func orUnchanged(err error) error {
	if err != nil {
		return err
	}
	return errUnchanged
}
