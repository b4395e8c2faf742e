package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// advancer is Advance, or a broken version of it.
type advancer func(State, Input, Facts) (Outcome, error)

// record is the stored record of a run, with its plan.
type record struct {
	Entry
	plan       string
	clusters   []Reached
	new        []string // the clusters that the run was planned for as new ones
	evicts     []string
	state      stages.State
	attempt    int
	epoch      int64
	started    bool
	hold       bool
	catchUp    bool
	noBack     bool
	noPages    bool // its plan or pages cannot be read
	broken     bool // its record cannot be read
	of         string
	rollbackOf string
	back       string // the name of the run that it rolls back
	request    *stages.RollbackRequest
	stored     int64 // the GCGeneration when its contents were stored
	// acting reports whether it may change clusters now, closed whether its engine has recorded its
	// end.
	acting, closed bool
	// before are the bindings from when it first began.
	before Bindings
	// retrying reports whether it must start again, stuck whether it never ends by itself.
	retrying, stuck bool
	// taken is the last attempt whose result was recorded.
	taken int
	// acted is the newest epoch of its changes of clusters and of its recorded end.
	acted int64
	// superseder is the run that supersedes it.
	superseder string
}

func (r *record) ended() bool {
	switch r.state {
	case stages.Completed, stages.Failed, stages.Aborted, stages.Superseded:
		return true
	default:
		return false
	}
}

func (r *record) result() Result {
	out := Result{
		State: r.state, Attempt: r.attempt, Index: r.Index, Clusters: slices.Clone(r.clusters), Started: r.started, Complete: r.state == stages.Completed,
		RollsBack: r.back, NoRollback: r.noBack, RollbackRequest: r.request, Whole: !r.catchUp && r.back == "", Final: r.Run == deletionRun, RollbackName: r.Run + "-rollback",
	}
	for _, c := range r.clusters {
		if c.Got == Proven || c.Got == Attempted {
			out.Changed++
		}
	}
	return out
}

// env is the environment of a placement: a store, runs and clusters. It is a driver of [Advance].
type env struct {
	advance   advancer
	spec      Spec
	stored    []byte
	read      State // the stored state
	revision  int
	pages     map[Generation]Bindings
	lost      bool // the bindings cannot be read
	runs      map[string]*record
	deleted   map[string]*record
	plans     map[string][]Reached // by UID, also of deleted runs
	inventory map[string]bool
	noFleet   bool // the inventory cannot be read
	ids       int
	now       stages.Instant

	// fault is called between the steps of a driver. It returns an error if the driver dies there.
	fault func(step string) error
	// watch is called with each saved outcome.
	watch func(before State, in Input, f Facts, out Outcome)
	// told are the events and done the effects since they were last read.
	told []stages.Event
	done []Effect
}

// deletionRun is the name of the run that cleans the clusters of a deleted placement.
const deletionRun = "deletion-web"

const startOfTime = 1767225600000 // 2026-01-01

func newEnv() *env {
	w := &env{
		advance: Advance, spec: Spec{Name: "web"}, pages: map[Generation]Bindings{}, runs: map[string]*record{}, deleted: map[string]*record{}, plans: map[string][]Reached{},
		inventory: map[string]bool{}, now: startOfTime,
		fault: func(string) error { return nil }, watch: func(State, Input, Facts, Outcome) {},
	}
	w.save(State{UID: "placement-1"})
	return w
}

func (w *env) save(s State) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	w.stored = b
	w.revision++
	w.read = State{}
	if err := json.Unmarshal(w.stored, &w.read); err != nil {
		panic(err)
	}
}

func (w *env) state() State { return w.read }

func (w *env) bindings(g Generation) Bindings {
	b := Bindings{}
	maps.Copy(b, w.pages[g])
	return b
}

// tell is a driver: it reads the state, advances it with the facts that it needs, saves it unless
// it has changed since the read, and carries out the effects.
func (w *env) tell(in Input) (Outcome, error) {
	for {
		s, revision := w.state(), w.revision
		w.ids++
		f := Facts{Spec: w.spec, Now: w.now, ID: "id-" + strconv.Itoa(w.ids)}
		if err := w.fault("read"); err != nil {
			return Outcome{}, err
		}
		out, err := w.settle(s, &in, &f)
		if err != nil {
			return out, err
		}
		if !out.Changed {
			w.carryOut(s, out.After)
			return out, nil
		}
		w.carryOut(out.State, out.Before)
		if err := w.fault("save"); err != nil {
			return Outcome{}, err
		}
		if w.revision != revision {
			continue
		}
		w.save(out.State)
		w.told = append(w.told, out.Events...)
		w.watch(s, in, f, out)
		if err := w.fault("act"); err != nil {
			return Outcome{}, err
		}
		w.carryOut(out.State, out.After)
		return out, nil
	}
}

// settle advances a state with all the facts that it needs.
func (w *env) settle(s State, in *Input, f *Facts) (Outcome, error) {
	for range 20 {
		out, err := w.advance(s, *in, *f)
		if err != nil || out.Need.IsZero() {
			return out, err
		}
		if err := w.learn(in, f, &out); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, errors.New("it always needs more facts")
}

// learn reads the needed facts.
func (w *env) learn(in *Input, f *Facts, out *Outcome) error {
	need := out.Need
	if need.Bindings {
		f.Bindings, f.BindingsLost = w.bindings(w.state().Bindings), w.lost
	}
	if f.Runs == nil {
		f.Runs = map[string]RunFact{}
	}
	for _, e := range slices.Concat(need.Runs, need.Results) {
		r := w.runs[e.Run]
		fact := RunFact{Found: Absent}
		switch {
		case r != nil && r.broken:
			fact.Found = Unreadable
		case r != nil && r.UID == e.UID:
			fact = RunFact{Found: Present, Ended: r.ended(), Attempt: r.attempt, Epoch: r.epoch}
		}
		f.Runs[e.UID] = fact
	}
	for _, e := range need.Results {
		fact := f.Runs[e.UID]
		r := w.runs[e.Run]
		switch {
		case fact.Found == Present && r.noPages:
			fact.Lost = true
		case fact.Found == Present:
			result := r.result()
			fact.Result = &result
		default:
			plan, ok := w.plans[e.UID]
			fact.Result, fact.Lost = &Result{Clusters: attempted(plan)}, !ok
			if !ok {
				fact.Result = nil
			}
		}
		f.Runs[e.UID] = fact
	}
	if need.Inventory {
		f.Inventory, f.NoInventory = maps.Clone(w.inventory), w.noFleet
	}
	if admitted, ok := (*in).(RunAdmitted); ok && need.Contents {
		admitted.GCGeneration = out.State.GCGeneration
		*in = admitted
	}
	if asked, ok := (*in).(RollbackRequested); ok && need.Rollback {
		of := w.runs[asked.Run]
		if f.Planned = of != nil && len(w.clustersBack(&out.State, of)) > 0; !f.Planned {
			return errNothingBack
		}
	}
	return nil
}

// attempted returns the result of a plan whose run is unknown.
func attempted(plan []Reached) []Reached {
	out := slices.Clone(plan)
	for i := range out {
		out[i].Got = Attempted
	}
	return out
}

func (w *env) carryOut(s State, effects []Effect) {
	for _, e := range effects {
		w.done = append(w.done, e)
		switch e := e.(type) {
		case StoreBindings:
			w.pages[e.Generation] = maps.Clone(e.Bindings)
		case Supersede:
			if r := w.runs[e.Run.Run]; r != nil && r.UID == e.Run.UID {
				r.superseder = e.By.Run
			}
		case DropBindings:
			for g := range w.pages {
				if g.Generation <= s.Bindings.Generation && !s.Names(g) {
					delete(w.pages, g)
				}
			}
		case StoreSelection, Collect:
		}
	}
}

// snapshot takes a snapshot, for a run that is created next or for none.
func (w *env) snapshot(forRun bool) error {
	s := w.state()
	set := snapshot.Set{Digest: snapshot.Digest([]byte(strconv.Itoa(s.NextIndex)))}
	_, err := w.tell(SnapshotTaken{
		Snapshot: snapshot.New(w.spec.Name, s.NextIndex, set, "", w.now.Time()), UID: s.UID, GCGeneration: s.GCGeneration, ForRun: forRun,
	})
	return err
}

// create records a run, as a driver does before it is admitted.
func (w *env) create(r *record) {
	w.ids++
	if r.UID == "" {
		r.UID = "u" + strconv.Itoa(w.ids) + "-" + r.Run
	}
	s := w.state()
	r.plan, r.state, r.of, r.stored = "plan-"+r.UID, stages.NotStarted, s.UID, s.GCGeneration
	w.runs[r.Run] = r
	w.plans[r.UID] = slices.Clone(r.clusters)
}

// admit admits a recorded run.
func (w *env) admit(r *record) (Outcome, error) {
	in := RunAdmitted{
		Entry: r.Entry, Plan: r.plan, Count: len(r.clusters), Of: r.of, By: "ann", Hold: r.hold, RollbackOf: r.rollbackOf, GCGeneration: r.stored, New: r.new, Recovered: true,
		Evicts: r.evicts,
	}
	for _, c := range r.clusters {
		if c.Index != None {
			in.Clusters = append(in.Clusters, c.Cluster)
		}
	}
	return w.tell(in)
}

// begin lets the active run change clusters.
func (w *env) begin(r *record) {
	r.acting, r.started, r.state = true, true, stages.Running
	r.attempt++
	if r.before == nil {
		r.before = w.bindings(w.state().Bindings)
	}
}

// planBack returns the run that rolls another run back to the bindings from before it.
func (w *env) planBack() (*record, error) {
	s := w.state()
	b := s.Rollback
	of := w.runs[b.OfRun]
	switch {
	case of == nil || of.UID != b.Of:
		return nil, fmt.Errorf("run %s was deleted", b.OfRun)
	case s.Base == nil || s.Base.UID != b.Of:
		return nil, fmt.Errorf("what the clusters had before run %s is not known", b.OfRun)
	}
	out := &record{Entry: Entry{UID: b.UID, Run: b.Run}, rollbackOf: b.Of, back: b.OfRun, clusters: w.clustersBack(&s, of)}
	if len(out.clusters) == 0 {
		return nil, errNothingBack
	}
	for _, c := range out.clusters {
		out.Index = max(out.Index, c.Index)
	}
	if !s.hasSnapshot(out.Index) { // all clusters had nothing, so the plan uses the snapshot of the run
		out.Index = of.Index
	}
	return out, nil
}

var errNothingBack = errors.New("every cluster stays as it is")

// clustersBack returns the clusters that a rollback changes, with their earlier snapshots.
func (w *env) clustersBack(s *State, of *record) (out []Reached) {
	before := w.bindings(s.Base.Bindings)
	for _, c := range of.clusters {
		had := s.Earlier(before.Of(c.Cluster), c.Index)
		back := false
		for _, r := range w.runs {
			back = back || r.rollbackOf == of.UID && slices.ContainsFunc(r.clusters, func(b Reached) bool { return b.Cluster == c.Cluster && b.Got == Proven })
		}
		if c.Index != None && c.Got != Untouched && c.Got != Gone && had.Keep == "" && !back {
			out = append(out, Reached{Cluster: c.Cluster, Index: had.Index, Revision: had.Revision})
		}
	}
	return out
}

// undoOf returns a request to roll a run back.
func undoOf(name string) stages.RollbackRequest {
	return stages.RollbackRequest{Cause: stages.OnCommand, Run: name, By: approval.Identity{Name: "ann"}, Message: "it is slow"}
}
