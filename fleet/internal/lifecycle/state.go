package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// State is the state of a placement: plain data, embedded in the stored record of the placement under the
// names of its JSON. It is a value: [Advance] returns another one. Slices and pointers of it are not changed
// in place.
type State struct {
	// UID distinguishes the placement from others of its name.
	UID string `json:"uid"`
	// Epoch is the last fencing epoch that was handed out.
	Epoch int64 `json:"epoch"`
	// NextIndex is the index of the next snapshot.
	NextIndex int `json:"nextIndex"`
	// Snapshots are those that are kept, ascending by index; the last is the latest.
	Snapshots []snapshot.Snapshot `json:"snapshots,omitempty"`
	Selection *Selection          `json:"selection,omitempty"`
	// InUse are the indexes that a cluster may hold by the bindings, ascending. Whole is the one that
	// every cluster last came to, Previous the one before it.
	InUse    []int `json:"inUse,omitempty"`
	Whole    *int  `json:"whole,omitempty"`
	Previous *int  `json:"previous,omitempty"`
	// Bindings is the generation of the bindings that counts.
	Bindings Generation `json:"bindings,omitzero"`
	// Queue is which run has the placement, and which come next.
	Queue Queue `json:"queue,omitzero"`
	// Runs are those that were admitted and are not forgotten, in that order.
	Runs []Run `json:"runs,omitempty"`
	// Ended counts the runs that have ended.
	Ended int64 `json:"ended,omitempty"`
	// Retired are runs that are forgotten, and of which something may still be stored.
	Retired []Run `json:"retired,omitempty"`
	// Deleting is set while the placement is being deleted.
	Deleting *Deletion `json:"deleting,omitempty"`
	// GCGeneration counts the deletions of contents and plans. What was stored before it was raised is
	// stored again before a record refers to it.
	GCGeneration int64 `json:"gcGeneration,omitempty"`
	// Base is what the clusters had before the last run that changed any, where that can be rolled back.
	Base *Base `json:"base,omitempty"`
	// Rollback is set from when a run is to be rolled back until the run that does so is admitted.
	Rollback *PendingRollback `json:"rollback,omitempty"`
	// Irreversible are the indexes that no cluster is rolled back past, ascending.
	Irreversible []int `json:"irreversible,omitempty"`
}

// Selection is the last selection about the clusters of the placement. Their names are stored apart.
type Selection struct {
	Index        int    `json:"index"`
	PolicyDigest string `json:"policyDigest"`
	Digest       string `json:"digest"`
	Clusters     int    `json:"clusters"`
	// Pages is how many pages of names there are; 0 where the names are not stored.
	Pages int `json:"pages,omitempty"`
}

// Run is a run as its placement knows it.
type Run struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Index is that of the snapshot, Plan the digest of the plan.
	Index int    `json:"index"`
	Plan  string `json:"plan"`
	// Ended is the state in which the run ended, empty before that was recorded.
	Ended stages.State `json:"ended,omitempty"`
	// Restart is the attempt that is being started of a run that had failed.
	Restart int `json:"restart,omitempty"`
	// Nth is the place of the run among those that have ended, from 1; 0 for others.
	Nth int64 `json:"nth,omitempty"`
	// RollbackOf is the UID of the run that this one rolls back. RolledBackBy is the name of the run that rolls this
	// one back, RollbackRefused why none does.
	RollbackOf      string `json:"rollbackOf,omitempty"`
	RolledBackBy    string `json:"rolledBackBy,omitempty"`
	RollbackRefused string `json:"rollbackRefused,omitempty"`
	// Evicts are the clusters that the run cleans where it does nothing else, see stages.Removal.
	Evicts []string `json:"evicts,omitempty"`
}

// Base is what the clusters had before a run: the bindings as they were when its end was taken in. No other
// run has the placement while one changes clusters, so that they are from before its first change.
type Base struct {
	UID      string     `json:"uid"`
	Run      string     `json:"run"`
	Bindings Generation `json:"bindings,omitzero"`
	InUse    []int      `json:"inUse,omitempty"`
}

// PendingRollback is a run that is to roll another one back and is not admitted yet. It has its place in the queue
// and its UID already, so that there is one run, whichever engine records it.
type PendingRollback struct {
	// Of is the UID of the run that is rolled back, OfRun its name.
	Of              string                 `json:"of"`
	OfRun           string                 `json:"ofRun"`
	Run             string                 `json:"run"`
	UID             string                 `json:"uid"`
	RollbackRequest stages.RollbackRequest `json:"request"`
	Since           stages.Instant         `json:"since"`
}

// End says what a deletion does with the objects of the placement.
type End string

// The two ends of a placement.
const (
	DeleteObjects End = "Delete"
	OrphanObjects End = "Orphan"
)

// Deletion is what was asked for when a placement was deleted.
type Deletion struct {
	By             string              `json:"by,omitempty"`
	Since          stages.Instant      `json:"since"`
	Deadline       time.Duration       `json:"deadline"`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency"`
	End            End                 `json:"end"`
	// Run is the name of the run that cleans the clusters.
	Run string `json:"run"`
}

// Run returns the admitted run of a UID; false where the placement does not know it.
func (s *State) Run(uid string) (Run, bool) {
	if r := s.entry(uid); r != nil {
		return *r, true
	}
	return Run{}, false
}

// entry is the run of a UID, to be changed in place, or nil.
func (s *State) entry(uid string) *Run {
	for i := range s.Runs {
		if s.Runs[i].UID == uid {
			return &s.Runs[i]
		}
	}
	return nil
}

// Evicting returns the clusters that are not to be picked, because a run which has not ended evicts them, each with
// the name of that run.
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

// hasSnapshot reports whether the snapshot of an index is kept.
func (s *State) hasSnapshot(index int) bool {
	return slices.ContainsFunc(s.Snapshots, func(s snapshot.Snapshot) bool { return s.Index == index })
}

// unended are the admitted runs whose end was not recorded, in the order of their admission.
func (s *State) unended() (out []Entry) {
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Ended == "" {
			out = append(out, Entry{UID: r.UID, Run: r.Name, Index: r.Index})
		}
	}
	return out
}

// clone returns a copy that shares nothing which an input changes in place.
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

// compact makes empty lists nil, as they are when the state was stored and read again.
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
