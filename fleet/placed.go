package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// PlacedCluster is the recorded state of a placement on one cluster.
type PlacedCluster struct {
	Name string `json:"name"`
	// UID is the UID of the cluster in the plan that brought its revision; empty if that plan was
	// deleted with its run.
	UID string `json:"uid,omitempty"`
	// Index is the snapshot that the cluster was last proven to have, -1 for none. Revision is the
	// digest of that snapshot's objects for the cluster, after overrides. Since is the time at which
	// the stage ended that last proved the revision. It is zero until that stage has ended, and if the
	// run of the stage is no longer in the history.
	Index    int       `json:"index"`
	Revision string    `json:"revision,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Tried is the index of the snapshot that a run last tried to bring to the cluster, which may have
	// it in part. It equals Index if that snapshot was proven.
	Tried int `json:"tried"`
	// Policy identifies the placement's policy for which the cluster was last updated: the index of a
	// selection plus one, or 0 if it is not known. The selection belongs to the run that is under way
	// if it has reached the cluster, and otherwise to the run that last proved the revision. A
	// selection by another policy has another index.
	Policy int `json:"policy,omitempty"`
	// Run is the run that is under way and has the cluster in its plan, and State is the cluster's
	// state in that run; both are empty if there is no such run.
	Run   string       `json:"run,omitempty"`
	State stages.State `json:"state,omitempty"`
}

// summary is the recorded state of all clusters of a placement.
type summary struct {
	clusters map[string]*PlacedCluster
	// unknown are the clusters whose revision has not been found yet, by the index that they have.
	unknown map[int]map[string]bool
}

// yield yields the clusters that have or may have objects, ascending by name, or err if it is not
// nil.
func (s *summary) yield(err error, yield func(PlacedCluster, error) bool) {
	if err != nil {
		yield(PlacedCluster{}, err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.clusters)) {
		c := s.clusters[name]
		if (c.Index != lifecycle.None || c.Tried != lifecycle.None || c.Run != "") && !yield(*c, nil) {
			return
		}
	}
}

// summarize reads the recorded state of the clusters.
func summarize(ctx context.Context, st *state.State, rec *record.Placement) (*summary, error) {
	held, err := st.BindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	s := &summary{map[string]*PlacedCluster{}, map[int]map[string]bool{}}
	for name, h := range held {
		s.clusters[name] = &PlacedCluster{Name: name, Index: h.ProvenIndex, Tried: h.Attempted, Revision: h.Revision, Policy: h.Policy}
		s.miss(name, h.ProvenIndex)
	}
	for _, r := range slices.Backward(rec.Runs) {
		if r.Ended != "" && r.RollbackOf == "" && len(s.unknown[r.Index]) == 0 {
			continue
		}
		status, err := st.Status(ctx, r.Name)
		if state.IsNotFound(err) || err == nil && (status.Run.UID != r.UID || status.Run.Started == 0) {
			continue // it was deleted in between, or has not begun
		}
		if err != nil {
			return nil, err
		}
		s.take(&status, r.Ended == "")
	}
	return s, nil
}

// miss notes that the revision of a cluster at an index is not known yet.
func (s *summary) miss(name string, index int) {
	if s.unknown[index] == nil {
		s.unknown[index] = map[string]bool{}
	}
	s.unknown[index][name] = true
}

// take adds the results of a run. The bindings do not include the results of a run that is under
// way.
func (s *summary) take(status *state.RunStatus, underway bool) {
	p := status.Plan
	for pos, state := range status.Run.States(p) {
		planned := &p.Clusters[pos]
		c := s.clusters[planned.Name]
		if c == nil && underway {
			c = &PlacedCluster{Name: planned.Name, Index: lifecycle.None, Tried: lifecycle.None}
			s.clusters[planned.Name] = c
		}
		if c == nil {
			continue
		}
		if underway {
			s.bring(c, status, pos, state)
		}
		if state == stages.Completed && planned.Revision >= 0 && s.unknown[p.IndexAt(pos)][planned.Name] {
			stage, _ := p.StageOf(pos)
			c.UID, c.Revision, c.Since = planned.UID, p.Revisions[planned.Revision], status.Run.Form(runstate.Key{}).Stages[stage].Done.Time()
			delete(s.unknown[p.IndexAt(pos)], planned.Name)
		}
	}
}

// bring adds the result of a run that is under way for one cluster.
func (s *summary) bring(c *PlacedCluster, status *state.RunStatus, pos int, state stages.State) {
	planned, index := &status.Plan.Clusters[pos], status.Plan.IndexAt(pos)
	c.Run, c.State = status.Run.Name, state
	switch {
	case state == stages.Completed && planned.Revision < 0:
		delete(s.unknown[c.Index], c.Name)
		c.Index, c.Tried, c.Revision, c.Policy = lifecycle.None, lifecycle.None, "", 0
	case state == stages.Completed:
		delete(s.unknown[c.Index], c.Name)
		c.Index, c.Tried, c.Policy = index, index, status.Selection+1
		s.miss(c.Name, index)
	case state != stages.NotStarted && planned.Revision >= 0:
		c.Tried, c.Policy = index, status.Selection+1
	}
}
