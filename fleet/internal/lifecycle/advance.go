package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/slipway-dev/slipway/stages"
)

// Input is an event or a request for a placement. The package documentation lists all its types.
type Input interface {
	advance(m *machine) error
}

// Spec holds the parts of a placement's declaration that concern its runs and snapshots.
type Spec struct {
	// Name is the name of the placement, for errors.
	Name string
	// Admission is the policy for a new run while another run is active.
	Admission stages.Admission
	// HistoryLimit is the number of snapshots to keep, 0 for snapshot.DefaultLimit. RunHistory is
	// the number of ended runs to keep, 0 for 50.
	HistoryLimit, RunHistory int
}

// Facts holds the facts that an input needs besides the state. The driver must read them after the
// state, and again after each conflict of a save. If a fact is missing, the outcome names it in
// Need; the zero value holds no facts.
type Facts struct {
	Spec Spec
	// Now is the current time. ID is a unique string that no other call received: it becomes the ID
	// of a generation of the bindings, or the UID of a rollback run.
	Now stages.Instant
	ID  string
	// Bindings are the bindings of the state's generation, nil if they were not read. BindingsLost
	// reports whether they can never be read.
	Bindings     Bindings
	BindingsLost bool
	// Runs holds the facts about runs, by UID.
	Runs map[string]RunFact
	// Inventory holds the names of all clusters of the inventory, nil if they were not read.
	// NoInventory reports whether they cannot be read now.
	Inventory   map[string]bool
	NoInventory bool
	// Planned reports whether a rollback run was planned on the state of [Need].Rollback, without
	// an error.
	Planned bool
}

// Found is the result of reading the record of a run.
type Found int

// The values of [Found].
const (
	// NotRead means that the driver has not read the record; it is the zero value.
	NotRead Found = iota
	// Absent means that there is no record, or only a record with another UID.
	Absent
	// Unreadable means that the record is damaged or has a newer format, so it can never be read.
	Unreadable
	// Present means that the record was read.
	Present
)

// RunFact holds the facts about a run.
type RunFact struct {
	Found Found
	// Ended reports whether the run has ended. Attempt is its attempt, Epoch the epoch of its
	// lease.
	Ended   bool
	Attempt int
	Epoch   int64
	// Result is the result of the run on its clusters, derived from its record, plan and pages, or
	// only from the plan if the run is [Absent]: see [ResultOf]. It is nil if those were not read.
	// Lost reports whether they can never be read.
	Result *Result
	Lost   bool
}

// Need names the missing facts. If it is not zero, the state of the outcome must not be saved.
type Need struct {
	// Bindings asks for Facts.Bindings, Runs for the records of runs, Results for complete RunFacts
	// of runs, Inventory for Facts.Inventory.
	Bindings  bool
	Runs      []Entry
	Results   []Entry
	Inventory bool
	// Contents asks the driver to store the contents and the plan of the admitted run again. It
	// must then repeat the input with the GCGeneration that the outcome's state had before that.
	Contents bool
	// Rollback asks for the plan of a run that rolls back the run of the input. The driver plans it
	// on the outcome's state, which is the state at that time. If the planning fails, the driver
	// reports the error and abandons the input.
	Rollback bool
}

// IsZero reports whether nothing is missing.
func (n Need) IsZero() bool {
	return !n.Bindings && len(n.Runs)+len(n.Results) == 0 && !n.Inventory && !n.Contents && !n.Rollback
}

// Effect is an action that the driver must carry out. Each effect may be repeated.
type Effect interface{ effect() }

// StoreBindings stores the bindings of a new generation, see [Bindings.Pages], before the save of
// the state that names it. If that save fails, no state will ever name the generation.
type StoreBindings struct {
	Generation Generation
	Bindings   Bindings
}

// StoreSelection stores the names of the clusters that the selection of the input picks, before the
// save of the state that names it. Names that are stored already must be stored again, so that a
// collection which has seen them spares them.
type StoreSelection struct{ Selection Selection }

// Supersede stores a Supersede command for Run, which By supersedes. The ID of the command is
// derived from the UID of By, so that there is only one command.
type Supersede struct{ Run, By Entry }

// DropBindings deletes the generations of the bindings, up to the current one, that the state does
// not name, see [State.Names]. If a crash prevents it, a later collection deletes them.
type DropBindings struct{}

// Collect deletes unreferenced data, in a collection of its own: [CollectionBegun], [Collected].
type Collect struct{}

func (StoreBindings) effect()  {}
func (StoreSelection) effect() {}
func (Supersede) effect()      {}
func (DropBindings) effect()   {}
func (Collect) effect()        {}

// Outcome is the result of an input.
type Outcome struct {
	// State is the next state. Changed reports whether it must be saved.
	State   State
	Changed bool
	// Need names the missing facts. If it is not zero, all other fields except State are empty.
	Need Need
	// Before are the effects to carry out before the save, After the effects to carry out after it,
	// or at once if nothing changed.
	Before, After []Effect
	// Events are the events to commit with the state. They have no times and no placement name.
	Events []stages.Event
	// Turn is set for [RunAdmitted], [TurnAsked] and [RetryAsked].
	Turn Turn
}

// The kinds of errors, besides [*DeletingError] and [*stages.RejectedError]. Each error matches
// one.
var (
	// ErrStale: the request was decided on another state. Begin again.
	ErrStale = errors.New("another writer changed the placement")
	// ErrOutdated: the run was decided on another [State.Version]. Decide again.
	ErrOutdated = errors.New("a run of the placement was created, ended or deleted since that was decided: read the placement again")
	// ErrNotFound: the placement does not know the run or the snapshot, or has forgotten it.
	ErrNotFound = errors.New("not found")
	// ErrFenced: another engine has taken the run or ended it.
	ErrFenced = errors.New("fenced")
	// ErrRefused: the request is impossible, and a retry does not help.
	ErrRefused = errors.New("refused")
	// ErrIncomplete: the run was recorded but never admitted, and its plan no longer fits the
	// placement: the snapshot or the rollback request is gone, or a cluster has changed.
	ErrIncomplete = errors.New("the run cannot be admitted any more")
	// ErrBindingsLost: the input needs the bindings, which can never be read.
	ErrBindingsLost = errors.New("the bindings cannot be read")
	// ErrDeleted: the run was made for another placement of this name, which was deleted.
	ErrDeleted = errors.New("the placement was deleted")
)

// DeletingError means that the placement is being deleted and therefore accepts nothing new.
type DeletingError struct {
	Placement string
	Since     stages.Instant
}

func (e *DeletingError) Error() string {
	return fmt.Sprintf("placement %s is being deleted since %s", e.Placement, e.Since.Time().Format("2006-01-02T15:04:05Z07:00"))
}

// The errors that end a transition early: facts are missing, or nothing must be saved.
var (
	errNeed      = errors.New("facts are missing")
	errUnchanged = errors.New("unchanged")
)

// Advance returns the outcome of an input. It is a function of its arguments and changes none of
// them. After an error the driver must not save or do anything.
func Advance(s State, in Input, f Facts) (Outcome, error) {
	m := &machine{State: s.clone(), facts: f}
	err := in.advance(m)
	switch {
	case errors.Is(err, errNeed):
		return Outcome{State: m.State, Need: m.out.Need}, nil
	case errors.Is(err, errUnchanged):
		return Outcome{State: s, Turn: m.out.Turn, After: m.out.After}, nil
	case err != nil:
		return Outcome{State: s}, err
	}
	m.compact()
	out := m.out
	out.State, out.Changed = m.State, !reflect.DeepEqual(s, m.State)
	if !out.Changed {
		return Outcome{State: s, Turn: out.Turn, After: out.After}, nil
	}
	var before []Effect
	for _, w := range m.written {
		if m.Names(w.Generation) {
			before = append(before, w)
		}
	}
	out.Before = append(before, out.Before...)
	return out, nil
}

// machine is a state in transition to the next one.
type machine struct {
	State
	facts Facts
	out   Outcome
	// bindings are the bindings of the state's generation, nil until they are needed. written are
	// the generations that this input made.
	bindings Bindings
	written  []StoreBindings
}

func (m *machine) emit(e stages.Event) { m.out.Events = append(m.out.Events, e) }

func (m *machine) after(effects ...Effect) { m.out.After = append(m.out.After, effects...) }

// supersede asks runs to make way for the run by.
func (m *machine) supersede(by Entry, runs []Entry) {
	for _, r := range runs {
		m.after(Supersede{Run: r, By: by})
	}
}

// bound returns the bindings. The caller may change them in place, and must then call rebind.
func (m *machine) bound() (Bindings, error) {
	switch {
	case m.bindings != nil:
	case m.Bindings.Pages == 0:
		m.bindings = Bindings{}
	case m.facts.BindingsLost:
		return nil, ErrBindingsLost
	case m.facts.Bindings == nil:
		m.out.Need.Bindings = true
		return nil, errNeed
	default:
		m.bindings = maps.Clone(m.facts.Bindings)
	}
	return m.bindings, nil
}

// rebind stores the bindings as a new generation.
func (m *machine) rebind() {
	m.Bindings = Generation{Generation: m.Bindings.Generation + 1, ID: m.facts.ID, Pages: m.bindings.pages()}
	m.InUse = m.bindings.InUse()
	m.written = append(m.written, StoreBindings{m.Bindings, maps.Clone(m.bindings)})
}

// read returns the facts from the record of a run.
func (m *machine) read(e Entry) (RunFact, error) {
	f := m.facts.Runs[e.UID]
	if f.Found == NotRead {
		m.out.Need.Runs = append(m.out.Need.Runs, e)
		return f, errNeed
	}
	return f, nil
}

// result returns the result of a run on its clusters, or nil if it is lost.
func (m *machine) result(e Entry) (*Result, error) {
	f := m.facts.Runs[e.UID]
	switch {
	case f.Result != nil:
		return f.Result, nil
	case f.Lost:
		return nil, nil
	}
	m.out.Need.Results = append(m.out.Need.Results, e)
	return nil, errNeed
}

// open returns an error if the placement is being deleted.
func (m *machine) open() error { return m.Open(m.facts.Spec.Name) }

// Open returns a [*DeletingError] for the placement with this name if it is being deleted.
func (s *State) Open(name string) error {
	if s.Deleting == nil {
		return nil
	}
	return &DeletingError{Placement: name, Since: s.Deleting.Since}
}

// RunTaken records that an engine takes a run. Epoch is the epoch of its lease and must be the
// state's epoch plus one.
type RunTaken struct{ Epoch int64 }

func (in RunTaken) advance(m *machine) error {
	if in.Epoch != m.Epoch+1 {
		return fmt.Errorf("epoch %d follows %d: %w", in.Epoch, m.Epoch, ErrStale)
	}
	m.Epoch = in.Epoch
	return nil
}

// SelectionChanged records a selection of clusters: the policy with PolicyDigest picks that number
// of Clusters, whose names are stored in Pages.
type SelectionChanged struct {
	PolicyDigest, Digest string
	Clusters, Pages      int
}

func (in SelectionChanged) advance(m *machine) error {
	if err := m.open(); err != nil {
		return err
	}
	m.recordSelection(in)
	return nil
}

// recordSelection records a selection if it is new or its clusters were not stored.
func (m *machine) recordSelection(in SelectionChanged) {
	old := m.Selection
	same := old != nil && old.Digest == in.Digest
	if same && (old.Pages > 0 || in.Clusters == 0) {
		return
	}
	m.Selection = &Selection{m.SelectionIndex(in.PolicyDigest), in.PolicyDigest, in.Digest, in.Clusters, in.Pages}
	m.out.Before = append(m.out.Before, StoreSelection{*m.Selection})
	if !same {
		index := m.Selection.Index
		m.emit(stages.Event{Type: stages.SelectionChanged, Index: &index, Digest: in.Digest, Count: in.Clusters})
	}
}

// SelectionIndex returns the index that the next selection gets if the policy with this digest
// makes it.
func (s *State) SelectionIndex(policy string) int {
	switch d := s.Selection; {
	case d == nil:
		return 0
	case d.PolicyDigest != policy:
		return d.Index + 1
	default:
		return d.Index
	}
}

// RollbackError is the error of an impossible rollback. It matches [ErrRefused].
type RollbackError struct{ Run, Reason string }

func (e *RollbackError) Error() string {
	return "run " + e.Run + " cannot be rolled back: " + e.Reason
}

// Unwrap returns ErrRefused.
func (e *RollbackError) Unwrap() error { return ErrRefused }

// refuse returns the error for an impossible rollback.
func refuse(run, why string) error {
	return &RollbackError{run, cmp.Or(why, "no reason is known")}
}
