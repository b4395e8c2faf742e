package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// State is the state of a placement: plain data that the stored record of the placement embeds
// under its JSON names. It is a value: [Advance] returns a new one, and no code changes its slices
// and pointers in place.
type State struct {
	// UID distinguishes the placement from others of the same name.
	UID string `json:"uid"`
	// Epoch is the last fencing epoch that an engine received.
	Epoch int64 `json:"epoch"`
	// NextIndex is the index of the next snapshot.
	NextIndex int `json:"nextIndex"`
	// Snapshots are the kept snapshots, ascending by index; the last is the latest.
	Snapshots []snapshot.Snapshot `json:"snapshots,omitempty"`
	Selection *Selection          `json:"selection,omitempty"`
	// InUse are the indexes that a cluster may have according to the bindings, ascending. Whole is
	// the last index that every cluster reached, Previous the one before it.
	InUse    []int `json:"inUse,omitempty"`
	Whole    *int  `json:"whole,omitempty"`
	Previous *int  `json:"previous,omitempty"`
	// Bindings is the current generation of the bindings.
	Bindings Generation `json:"bindings,omitzero"`
	// Queue holds the active run and the waiting runs.
	Queue Queue `json:"queue,omitzero"`
	// Runs are the admitted runs that are not forgotten, in the order of their admission.
	Runs []Run `json:"runs,omitempty"`
	// Ended counts the runs that have ended.
	Ended int64 `json:"ended,omitempty"`
	// Retired are forgotten runs that may still have stored data.
	Retired []Run `json:"retired,omitempty"`
	// Deleting is set while the placement is being deleted.
	Deleting *Deletion `json:"deleting,omitempty"`
	// GCGeneration counts the deletions of contents and plans. Data that was stored before the last
	// increment must be stored again before a record refers to it.
	GCGeneration int64 `json:"gcGeneration,omitempty"`
	// Base holds the bindings from before the last run that changed any cluster, if that run can be
	// rolled back.
	Base *Base `json:"base,omitempty"`
	// Rollback is set from the request of a rollback until the run that performs it is admitted.
	Rollback *PendingRollback `json:"rollback,omitempty"`
	// Irreversible are the indexes that no cluster may be rolled back past, ascending.
	Irreversible []int `json:"irreversible,omitempty"`
}

// Selection is the last selection of clusters. The names of the clusters are stored separately.
type Selection struct {
	Index        int    `json:"index"`
	PolicyDigest string `json:"policyDigest"`
	Digest       string `json:"digest"`
	Clusters     int    `json:"clusters"`
	// Pages is the number of stored pages of names; 0 if the names are not stored.
	Pages int `json:"pages,omitempty"`
}

// Run is a run as its placement knows it.
type Run struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Index is the index of the snapshot, Plan the digest of the plan.
	Index int    `json:"index"`
	Plan  string `json:"plan"`
	// Ended is the final state of the run, empty until the end is recorded.
	Ended stages.State `json:"ended,omitempty"`
	// Restart is the attempt that a retry of the failed run starts.
	Restart int `json:"restart,omitempty"`
	// Nth is the position of the run among the runs that have ended, from 1; 0 for others.
	Nth int64 `json:"nth,omitempty"`
	// RollbackOf is the UID of the run that this run rolls back. RolledBackBy is the name of the
	// run that rolls this run back, RollbackRefused the reason why none does.
	RollbackOf      string `json:"rollbackOf,omitempty"`
	RolledBackBy    string `json:"rolledBackBy,omitempty"`
	RollbackRefused string `json:"rollbackRefused,omitempty"`
	// Evicts are the clusters that the run cleans if it does nothing else, see stages.Removal.
	Evicts []string `json:"evicts,omitempty"`
}

// Base holds the bindings from before a run. They are copied when the result of the run is
// recorded. No other run is active while a run changes clusters, so they are still the bindings
// from before its first change.
type Base struct {
	UID      string     `json:"uid"`
	Run      string     `json:"run"`
	Bindings Generation `json:"bindings,omitzero"`
	InUse    []int      `json:"inUse,omitempty"`
}

// PendingRollback is a run that rolls another run back and is not admitted yet. It already has its
// place in the queue and its UID, so that every engine records the same run.
type PendingRollback struct {
	// Of is the UID of the run to roll back, OfRun its name.
	Of              string                 `json:"of"`
	OfRun           string                 `json:"ofRun"`
	Run             string                 `json:"run"`
	UID             string                 `json:"uid"`
	RollbackRequest stages.RollbackRequest `json:"request"`
	Since           stages.Instant         `json:"since"`
}

// End is the fate of the objects of a placement when it is deleted.
type End string

// The values of [End].
const (
	DeleteObjects End = "Delete"
	OrphanObjects End = "Orphan"
)

// Deletion is the request to delete a placement.
type Deletion struct {
	By             string              `json:"by,omitempty"`
	Since          stages.Instant      `json:"since"`
	Deadline       metav1.Duration     `json:"deadline"`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency"`
	End            End                 `json:"end"`
	// Run is the name of the run that cleans the clusters; empty if the placement was never rolled
	// out, because no cluster has objects of it.
	Run string `json:"run,omitempty"`
}

// Run returns the admitted run with this UID, or false if the placement does not know it.
func (s *State) Run(uid string) (Run, bool) {
	if r := s.entry(uid); r != nil {
		return *r, true
	}
	return Run{}, false
}

// entry returns a pointer to the run with this UID for changes in place, or nil.
func (s *State) entry(uid string) *Run {
	for i := range s.Runs {
		if s.Runs[i].UID == uid {
			return &s.Runs[i]
		}
	}
	return nil
}

// Evicting returns the clusters that no selection may pick because an unfinished run evicts them,
// each with the name of that run.
func (s *State) Evicting() map[string]string {
	out := map[string]string{}
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Ended == "" {
			for _, cluster := range r.Evicts {
				out[cluster] = r.Name
			}
		}
	}
	return out
}

func (s *State) isRetired(uid string) bool {
	return slices.ContainsFunc(s.Retired, func(r Run) bool { return r.UID == uid })
}

// hasSnapshot reports whether the snapshot with this index is kept.
func (s *State) hasSnapshot(index int) bool {
	return slices.ContainsFunc(s.Snapshots, func(s snapshot.Snapshot) bool { return s.Index == index })
}

// unended returns the admitted runs without a recorded end, in the order of their admission.
func (s *State) unended() (out []Entry) {
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Ended == "" {
			out = append(out, Entry{UID: r.UID, Run: r.Name, Index: r.Index})
		}
	}
	return out
}

// clone returns a copy. The copy shares no memory that an input changes in place.
func (s *State) clone() State {
	c := *s
	c.Snapshots, c.InUse, c.Irreversible = slices.Clone(s.Snapshots), slices.Clone(s.InUse), slices.Clone(s.Irreversible)
	c.Runs, c.Retired = slices.Clone(s.Runs), slices.Clone(s.Retired)
	if s.Rollback != nil {
		b := *s.Rollback
		c.Rollback = &b
	}
	return c
}

// compact sets empty lists to nil, because a state that was stored and read again has nil there
// too.
func (s *State) compact() {
	s.Snapshots, s.InUse, s.Irreversible = orNil(s.Snapshots), orNil(s.InUse), orNil(s.Irreversible)
	s.Runs, s.Retired = orNil(s.Runs), orNil(s.Retired)
	s.Queue.Waiting, s.Queue.Superseded = orNil(s.Queue.Waiting), orNil(s.Queue.Superseded)
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
