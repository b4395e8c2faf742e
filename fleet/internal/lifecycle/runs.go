package lifecycle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// RunEnded records that a run has ended, and its result on its clusters. This releases the
// placement. An engine that finds an ended run with an unreleased lease repeats the input. The
// driver must read the record of the run after the state, because an engine that takes the run over
// writes the new epoch into the state first.
type RunEnded struct {
	Entry
	// Epoch is the epoch of the lease that the engine held at the end of the run.
	Epoch  int64
	Result Result
}

func (in RunEnded) advance(m *machine) error {
	f, err := m.read(in.Entry)
	if err != nil {
		return err
	}
	if f.Found != Present || f.Epoch != in.Epoch {
		return fmt.Errorf("run %s has ended at epoch %d, and another engine has it now: %w", in.Run, in.Epoch, ErrFenced)
	}
	r := m.entry(in.UID)
	if r == nil || r.Ended == in.Result.State && !m.owesRollback(in.UID, &in.Result) {
		return errUnchanged
	}
	if err := m.takeIn(in.UID, in.Run, &in.Result); err != nil {
		return err
	}
	m.trim()
	return nil
}

// takeIn records the end of a run: it updates the bindings, releases the placement, and decides
// about a rollback. The bindings are updated once for each attempt of the run. A rollback may be
// requested after that, when other runs have changed clusters since.
func (m *machine) takeIn(uid, name string, result *Result) error {
	r := m.entry(uid)
	if r.Ended == "" && r.Restart <= result.Attempt {
		before, inUse := m.Bindings, m.InUse
		if err := m.reached(uid, result); err != nil {
			return err
		}
		m.rebase(uid, name, result, before, inUse)
	}
	by := m.superseder(uid)
	r.Ended = result.State
	m.number(r)
	m.Queue = m.Queue.Leave(uid)
	m.recordRollback(uid, name, result, by)
	m.settleBase()
	return nil
}

// reached records the result of a run in the bindings. If the run covers its whole selection,
// clusters with bindings outside of the plan have left the inventory or joined it later; reached
// then needs the inventory to tell these apart.
func (m *machine) reached(uid string, result *Result) error {
	bindings, err := m.bound()
	if err != nil {
		return err
	}
	planned, err := m.plannedByOthers(uid, bindings.cleaned(result))
	if err != nil {
		return err
	}
	changed := bindings.take(result, planned)
	if unplanned := bindings.unplanned(result); result.Whole && len(unplanned) > 0 && !m.facts.NoInventory {
		if m.facts.Inventory == nil {
			m.out.Need.Inventory = true
			return errNeed
		}
		for _, name := range unplanned {
			if !m.facts.Inventory[name] {
				changed = bindings.lose(name) || changed
			}
		}
	}
	if changed {
		m.rebind()
	}
	m.InUse = bindings.InUse()
	everywhere := result.Whole || len(m.InUse) == 1 && m.InUse[0] == result.Index
	if everywhere && result.Complete {
		if m.Whole != nil && *m.Whole != result.Index {
			m.Previous = m.Whole
		}
		index := result.Index
		m.Whole = &index
	}
	return nil
}

// plannedByOthers returns the subset of clusters that an admitted run other than uid may update
// before it ends. It returns all of them if the plan of such a run is lost.
func (m *machine) plannedByOthers(uid string, clusters map[string]bool) (map[string]bool, error) {
	planned := map[string]bool{}
	if len(clusters) == 0 {
		return planned, nil
	}
	var missing error
	for _, e := range m.unended() {
		if e.UID == uid {
			continue
		}
		r, err := m.result(e)
		switch {
		case err != nil:
			missing = err
		case r == nil:
			return clusters, nil
		default:
			for i := range r.Clusters {
				if c := &r.Clusters[i]; c.Index != None && clusters[c.Cluster] {
					planned[c.Cluster] = true
				}
			}
		}
	}
	return planned, missing
}

// RunDeleted records that the record of a run was deleted, in any state of the run, and releases
// the placement. A run that the placement does not know is retired too, because some of its data
// may be stored.
type RunDeleted struct {
	Entry
	Plan string
	// Started reports whether the run may have changed clusters.
	Started bool
}

func (in RunDeleted) advance(m *machine) error {
	r := m.entry(in.UID)
	if r == nil {
		m.after(Collect{})
		if !m.isRetired(in.UID) {
			m.Retired = append(m.Retired, Run{Name: in.Run, UID: in.UID, Plan: in.Plan})
		}
		return nil
	}
	known := Entry{UID: r.UID, Run: r.Name, Index: r.Index}
	attempted := in.Started && r.Ended == ""
	m.drop(func(r *Run) bool { return r.UID == in.UID })
	if attempted {
		if err := m.markUnfinished(known); err != nil {
			return err
		}
	}
	m.trim()
	m.emit(stages.Event{Type: stages.RunDeleted, Run: known.Run})
	m.out.After = []Effect{Collect{}}
	return nil
}

// RunAbandoned retires a recorded run that cannot be admitted. It changes nothing if the run was
// admitted since.
type RunAbandoned struct {
	Entry
	Plan string
}

func (in RunAbandoned) advance(m *machine) error {
	if m.entry(in.UID) != nil {
		return errUnchanged
	}
	m.after(Collect{})
	if !m.isRetired(in.UID) {
		m.Retired = append(m.Retired, Run{Name: in.Run, UID: in.UID, Plan: in.Plan})
	}
	return nil
}

// markUnfinished records that clusters may have the snapshot of a run that was deleted before it
// ended. The bindings from before that run are unknown from then on, so no run can be rolled back
// to them.
func (m *machine) markUnfinished(e Entry) error {
	if m.Base != nil && m.RolledBackBy(m.Base.UID) == "" {
		m.Base = nil
	}
	bindings, err := m.bound()
	if errors.Is(err, ErrBindingsLost) {
		if at, known := slices.BinarySearch(m.InUse, e.Index); !known {
			m.InUse = slices.Insert(m.InUse, at, e.Index)
		}
		return nil
	}
	if err != nil {
		return err
	}
	r, err := m.result(e)
	if err != nil {
		return err
	}
	if r == nil {
		bindings.markAllAttempted(e.Index)
	} else if !bindings.markAttempted(r) {
		return nil
	}
	m.rebind()
	return nil
}
