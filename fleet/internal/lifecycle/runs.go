package lifecycle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// RunEnded records that a run has ended, and what it brought to its clusters; the placement is free then. It is
// repeated by every engine that finds the run ended and not given back. Its record is read for it, after the state:
// an engine that takes the run over writes the epoch into the state first.
type RunEnded struct {
	Entry
	// Epoch is that of the lease under which the run was driven.
	Epoch  int64
	Result Result
}

func (in RunEnded) advance(m *machine) error {
	f, err := m.read(in.Entry)
	if err != nil {
		return err
	}
	if f.Found != Present || f.Epoch != in.Epoch {
		return fmt.Errorf("run %s has ended at epoch %d, and another engine has it by now: %w", in.Run, in.Epoch, ErrFenced)
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

// takeIn records what the end of a run means: what the clusters have, that the placement is free, and whether the run
// is rolled back. What a run brought is recorded once for each of its attempts. It may be asked to be rolled back
// after that, and other runs have changed clusters since then.
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

// reached records what a run brought to its clusters. A run of all clusters that there are knows which others may
// have something: they have left the inventory, or joined it later.
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

// plannedByOthers returns those of some clusters that an admitted run other than uid may update before it
// ends: all of them if the plan of such a run cannot be read any more.
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

// RunDeleted records that a run's record was deleted, whatever its state, and releases the placement. One
// that the placement does not know is retired all the same: something may be stored of it.
type RunDeleted struct {
	Entry
	Plan string
	// Started reports whether clusters may have what the run brought.
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
	doubtful := in.Started && r.Ended == ""
	m.drop(func(r *Run) bool { return r.UID == in.UID })
	if doubtful {
		if err := m.leftBehind(known); err != nil {
			return err
		}
	}
	m.trim()
	m.emit(stages.Event{Type: stages.RunDeleted, Run: known.Run})
	m.out.After = []Effect{Collect{}}
	return nil
}

// RunAbandoned retires a run that was recorded and cannot be admitted, unless it was admitted meanwhile.
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

// leftBehind records that clusters may have what a run brought that was deleted before it ended. What clusters had
// before is not known any more then.
func (m *machine) leftBehind(e Entry) error {
	if m.Base != nil && m.TakenBackBy(m.Base.UID) == "" {
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
		bindings.doubtAll(e.Index)
	} else if !bindings.doubt(r) {
		return nil
	}
	m.rebind()
	return nil
}
