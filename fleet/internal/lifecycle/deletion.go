package lifecycle

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages"
)

// DeleteRequested asks for the placement to be deleted. From then on it takes nothing new but the run that cleans its
// clusters, of the name Deletion.Run. Asked again, it changes nothing.
type DeleteRequested struct{ Deletion Deletion }

func (in DeleteRequested) advance(m *machine) error {
	if m.Deleting != nil {
		return errUnchanged
	}
	if in.Deletion.Run == "" {
		return fmt.Errorf("a deletion needs the name of the run that cleans: %w", ErrRefused)
	}
	m.Deleting = &in.Deletion
	m.emit(stages.Event{Type: stages.PlacementDeleting, By: in.Deletion.By, Message: string(in.Deletion.End)})
	return nil
}

// DeletionContinued asks all runs but the one that cleans to make way for it, also those that do not stand in the queue
// because they were never started. It changes nothing.
type DeletionContinued struct{ Entry }

func (in DeletionContinued) advance(m *machine) error {
	for _, e := range m.unended() {
		if e.UID != in.UID && m.Deleting != nil {
			m.supersede(in.Entry, []Entry{e})
		}
	}
	return errUnchanged
}

// Emptied makes the state of a placement whose clusters are done with refer to nothing, so that all that is stored
// of it can be deleted, and then its record. Events reports whether events of the placement are still stored, in
// which case the driver drops them from the record with this.
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

// IsEmpty reports whether the state refers to nothing that is stored but for retired runs.
func (s *State) IsEmpty() bool {
	return len(s.Runs)+len(s.Snapshots) == 0 && s.Selection == nil && s.Bindings == Generation{} && s.Base == nil && s.Rollback == nil
}

// cleans reports whether a run of that name is the one that cleans the clusters of a placement which is being deleted.
func (s *State) cleans(run string) bool { return s.Deleting != nil && s.Deleting.Run == run }
