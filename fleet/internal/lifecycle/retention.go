package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RunHistory is the number of ended runs to keep unless the placement sets another.
const RunHistory = 50

// SnapshotTaken adds the latest snapshot. The snapshot was made for the next index, its contents
// were stored at GCGeneration, for the placement with UID. If one of these has changed, the error
// is ErrStale.
type SnapshotTaken struct {
	Snapshot     snapshot.Snapshot
	UID          string
	GCGeneration int64
	// ForRun reports whether a run of the snapshot is created next. Then snapshots beyond the limit
	// are forgotten when the run ends: a collection between the two would delay the run, and make
	// its creator store the plan twice.
	ForRun bool
}

func (in SnapshotTaken) advance(m *machine) error {
	s := in.Snapshot
	if s.Index != m.NextIndex || in.GCGeneration != m.GCGeneration || in.UID != m.UID {
		return fmt.Errorf("snapshot %d was taken for an older state: %w", s.Index, ErrStale)
	}
	if err := m.open(); err != nil {
		return err
	}
	m.NextIndex++
	m.Snapshots = append(m.Snapshots, s)
	if !in.ForRun {
		m.trim()
	}
	m.emit(stages.Event{Type: stages.SnapshotTaken, Index: &s.Index, Digest: s.Digest, Count: s.Objects, Message: s.Name()})
	return nil
}

// CollectionBegun announces the deletion of all contents and plans to which the state has no
// reference; GCGeneration is the generation of that state. The driver must not repeat the input on
// another revision of the record, because the collection has searched only this revision.
type CollectionBegun struct{ GCGeneration int64 }

func (in CollectionBegun) advance(m *machine) error {
	if in.GCGeneration != m.GCGeneration {
		return fmt.Errorf("another collection has begun: %w", ErrStale)
	}
	m.GCGeneration++
	return nil
}

// Collected forgets retired runs without stored data, by UID.
type Collected struct{ UIDs []string }

func (in Collected) advance(m *machine) error {
	m.Retired = slices.DeleteFunc(m.Retired, func(r Run) bool { return slices.Contains(in.UIDs, r.UID) })
	return nil
}

// trim forgets snapshots and ended runs beyond their limits, unless they are needed.
func (m *machine) trim() {
	m.retire()
	drop := snapshot.Retain(m.Snapshots, m.facts.Spec.HistoryLimit, m.needed())
	m.Snapshots = slices.DeleteFunc(m.Snapshots, func(s snapshot.Snapshot) bool { return slices.Contains(drop, s.Index) })
	if len(drop) > 0 || len(m.Retired) > 0 {
		m.after(Collect{})
	}
}

// retire forgets the ended runs beyond the limit, in the order of their ends. It keeps a run with a
// pending rollback, because the planning needs it.
func (m *machine) retire() {
	var ended []int64
	for i := range m.Runs {
		if r := &m.Runs[i]; r.Ended != "" {
			m.number(r)
			ended = append(ended, r.Nth)
		}
	}
	keep := cmp.Or(max(0, m.facts.Spec.RunHistory), RunHistory)
	if len(ended) <= keep {
		return
	}
	slices.Sort(ended)
	m.drop(func(r *Run) bool {
		return r.Nth != 0 && r.Nth < ended[len(ended)-keep] && (m.Rollback == nil || m.Rollback.Of != r.UID)
	})
}

// number counts a run that has ended, unless it is counted already.
func (m *machine) number(r *Run) {
	if r.Nth == 0 {
		m.Ended++
		r.Nth = m.Ended
	}
}

// drop forgets the runs that match. The next collection deletes their stored data.
func (m *machine) drop(match func(*Run) bool) {
	kept := m.Runs[:0:0]
	for i := range m.Runs {
		r := m.Runs[i]
		if !match(&r) {
			kept = append(kept, r)
			continue
		}
		m.Queue = m.Queue.Leave(r.UID)
		if !m.isRetired(r.UID) {
			m.Retired = append(m.Retired, r)
		}
	}
	m.Runs = kept
	m.settleBase()
}

// needed returns the indexes that a cluster, a run or a rollback needs, and Whole and Previous,
// because the next snapshot is compared with Whole.
func (s *State) needed() map[int]bool {
	out := map[int]bool{}
	for _, i := range s.InUse {
		out[i] = true
	}
	if s.Base != nil {
		for _, i := range s.Base.InUse {
			out[i] = true
		}
	}
	for _, i := range []*int{s.Whole, s.Previous} {
		if i != nil {
			out[*i] = true
		}
	}
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Ended == "" || r.Ended == stages.Failed || s.Rollback != nil && s.Rollback.Of == r.UID {
			out[r.Index] = true
		}
	}
	return out
}
