package lifecycle

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages"
)

// DeleteRequested asks to delete the placement. From then on it accepts only the run that cleans
// its clusters; Deletion.Run is the name of that run. A placement that was never rolled out needs
// no such run, so the state has none. A repeated request changes nothing.
type DeleteRequested struct{ Deletion Deletion }

func (in DeleteRequested) advance(m *machine) error {
	if m.Deleting != nil {
		return errUnchanged
	}
	if in.Deletion.Run == "" {
		return fmt.Errorf("a deletion needs the name of the run that cleans: %w", ErrRefused)
	}
	if m.neverRolledOut() {
		in.Deletion.Run = ""
	}
	m.Deleting = &in.Deletion
	m.emit(stages.Event{Type: stages.PlacementDeleting, By: in.Deletion.By, Message: string(in.Deletion.End)})
	return nil
}

// DeletionContinued asks all unfinished runs to make way for the run that cleans the clusters,
// including runs outside of the queue because they were never started. It changes nothing.
type DeletionContinued struct{ Entry }

func (in DeletionContinued) advance(m *machine) error {
	for _, e := range m.unended() {
		if e.UID != in.UID && m.Deleting != nil {
			m.supersede(in.Entry, []Entry{e})
		}
	}
	return errUnchanged
}

// Emptied removes all references from the state of a placement whose clusters are clean or
// released, so that all its data can be deleted, and then its record. Events reports whether the
// record still stores events of the placement; the driver then drops them from the record with this
// input.
type Emptied struct {
	UID    string
	Events bool
}

func (in Emptied) advance(m *machine) error {
	switch {
	case m.UID != in.UID || m.IsEmpty() && !in.Events:
		return errUnchanged
	case m.Deleting == nil:
		return fmt.Errorf("the placement is not being deleted: %w", ErrRefused)
	}
	m.drop(func(*Run) bool { return true })
	m.State = State{
		UID: m.UID, Epoch: m.Epoch, NextIndex: m.NextIndex, Ended: m.Ended, Retired: m.Retired, Deleting: m.Deleting,
		GCGeneration: m.GCGeneration + 1,
	}
	return nil
}

// IsEmpty reports whether the state refers to no stored data except retired runs.
func (s *State) IsEmpty() bool {
	return len(s.Runs)+len(s.Snapshots) == 0 && s.Selection == nil && s.Bindings == Generation{} && s.Base == nil && s.Rollback == nil
}

// neverRolledOut reports whether the placement never had a snapshot. Then it never had a run
// either, so that no cluster has an object of it.
func (s *State) neverRolledOut() bool { return s.NextIndex == 0 && s.isUnbound() }

// isUnbound reports whether the state names no run and no bindings.
func (s *State) isUnbound() bool {
	return len(s.Runs)+len(s.Retired) == 0 && s.Bindings == Generation{} && s.Rollback == nil
}

// cleans reports whether the run with this name cleans the clusters of the placement because it is
// being deleted.
func (s *State) cleans(run string) bool {
	return s.Deleting != nil && s.Deleting.Run == run && run != ""
}
