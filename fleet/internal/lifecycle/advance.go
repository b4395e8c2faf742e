package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/slipway-dev/slipway/stages"
)

// Input is something that happened to a placement or is asked of it: one of the types that the package documentation
// lists. There are no others.
type Input interface {
	advance(m *machine) error
}

// Spec is what the declaration of the placement says about its runs and snapshots.
type Spec struct {
	// Name is that of the placement, for errors.
	Name string
	// Admission is what becomes of a run that comes while another one has the placement.
	Admission stages.Admission
	// HistoryLimit is how many snapshots are kept, 0 for snapshot.DefaultLimit; RunHistory how many runs that
	// have ended are, 0 for 50.
	HistoryLimit, RunHistory int
}

// Facts is what is known when an input comes, besides the state. All of it has to be read after the state
// was, and is read again when the save of the outcome met a conflict. The zero value knows nothing: the
// outcome then says what is needed.
type Facts struct {
	Spec Spec
	// Now is the time, and ID a unique string that no other call was given: that of a generation
	// of the bindings, and the UID of a run that rolls another one back.
	Now stages.Instant
	ID  string
	// Bindings are those of the state's generation, nil where they were not read. BindingsLost reports
	// whether they never can be.
	Bindings     Bindings
	BindingsLost bool
	// Runs is what was read of runs, by UID.
	Runs map[string]RunFact
	// Inventory has the names of all clusters that there are, nil where they were not read. NoInventory
	// reports whether they cannot be read now.
	Inventory   map[string]bool
	NoInventory bool
	// Planned reports whether a run that rolls back was planned on the state of [Need].Rollback, without an error.
	Planned bool
}

// Found is the result of reading the record of a run.
type Found int

// What can become of it.
const (
	// NotRead is the zero value.
	NotRead Found = iota
	// Absent: there is no record, or one of another UID.
	Absent
	// Unreadable: there is one that cannot be read and never will be, be it damaged or of a newer format.
	Unreadable
	// Present: it was read.
	Present
)

// RunFact is what was read of a run.
type RunFact struct {
	Found Found
	// Ended reports whether the run has ended, Attempt is its attempt, Epoch that of its lease.
	Ended   bool
	Attempt int
	Epoch   int64
	// Result is what the run has come to on its clusters, by its record, plan and pages; of a run that is
	// [Absent], by its plan: see [ResultOf]. It is nil where that was not read. Lost reports whether it never can be.
	Result *Result
	Lost   bool
}

// Need says which facts are missing. The state of the outcome is then not to be saved.
type Need struct {
	// Bindings asks for Facts.Bindings, Runs for the records of runs, Results for all of
	// the RunFact of runs, Inventory for Facts.Inventory.
	Bindings  bool
	Runs      []Entry
	Results   []Entry
	Inventory bool
	// Contents asks for the contents and the plan of the run that is admitted to be stored again: the input is
	// repeated with the GCGeneration of the outcome's state as it was before that.
	Contents bool
	// Rollback asks for the plan of a run that rolls back the run of the input, made of the outcome's state, which
	// is as it will be then. Where it cannot be made the driver reports why and gives up.
	Rollback bool
}

// IsZero reports whether nothing is missing.
func (n Need) IsZero() bool {
	return !n.Bindings && len(n.Runs)+len(n.Results) == 0 && !n.Inventory && !n.Contents && !n.Rollback
}

// Effect is something that a driver has to carry out. Each may be repeated.
type Effect interface{ effect() }

// StoreBindings stores the bindings of a new generation, see [Bindings.Pages], before the state that names it is
// saved. When that save fails, nothing will ever name the generation.
type StoreBindings struct {
	Generation Generation
	Bindings   Bindings
}

// StoreSelection stores the names of the clusters that the selection of the input picks, before the state that
// names it is saved. What is stored already is stored again, so that a collection which has seen it spares it.
type StoreSelection struct{ Selection Selection }

// Supersede stores a Supersede command for Run, whose place the run By takes. The ID of the command is made of
// the UID of By, so that there is one.
type Supersede struct{ Run, By Entry }

// DropBindings deletes the generations of the bindings up to the state's that the state does not name, see
// [State.Names]. What of that is lost is collected later.
type DropBindings struct{}

// Collect deletes what nothing refers to any more, in a collection of its own: [CollectionBegun], [Collected].
type Collect struct{}

func (StoreBindings) effect()  {}
func (StoreSelection) effect() {}
func (Supersede) effect()      {}
func (DropBindings) effect()   {}
func (Collect) effect()        {}

// Outcome is the result of an input.
type Outcome struct {
	// State is the next state. Changed reports whether it has to be saved.
	State   State
	Changed bool
	// Need is what has to be known first. Where it is not zero, the rest but State is empty.
	Need Need
	// Before are the effects to carry out before the save, After those after it, or at once where nothing changed.
	Before, After []Effect
	// Events are those to commit with the state, without their times and the name of the placement.
	Events []stages.Event
	// Turn is set for [RunAdmitted], [TurnAsked] and [RetryAsked].
	Turn Turn
}

// The kinds of error, besides [*DeletingError] and [*RejectedError]. Each error matches one.
var (
	// ErrStale: what was asked for was decided on another state. Begin again.
	ErrStale = errors.New("the placement has changed meanwhile")
	// ErrOutdated: the run was decided on another [State.Version]. Decide again.
	ErrOutdated = errors.New("a run of the placement was created, ended or deleted since that was decided")
	// ErrNotFound: the placement does not know the run or snapshot, or not any more.
	ErrNotFound = errors.New("not found")
	// ErrFenced: another engine has the run, or has brought it to its end.
	ErrFenced = errors.New("fenced")
	// ErrRefused: it is not possible, and trying again does not help.
	ErrRefused = errors.New("refused")
	// ErrIncomplete: the run was recorded and never admitted, and what it was made of or for is gone.
	ErrIncomplete = errors.New("the run cannot be admitted any more")
	// ErrBindingsLost: the input needs the bindings, which can never be read.
	ErrBindingsLost = errors.New("the bindings cannot be read")
	// ErrDeleted: the run was made for another placement of this name, which was deleted.
	ErrDeleted = errors.New("the placement was deleted")
)

// DeletingError says that the placement is being deleted, and so takes nothing new.
type DeletingError struct {
	Placement string
	Since     stages.Instant
}

func (e *DeletingError) Error() string {
	return fmt.Sprintf("placement %s is being deleted since %s", e.Placement, e.Since.Time().Format("2006-01-02T15:04:05Z07:00"))
}

// The errors that end a transition early: where facts are missing, and where nothing is to be saved.
var (
	errNeed      = errors.New("facts are missing")
	errUnchanged = errors.New("unchanged")
)

// Advance returns the outcome of an input. It is a function of its arguments and changes none of them. On an
// error nothing is to be saved or done.
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

// machine is a state on its way to the next one.
type machine struct {
	State
	facts Facts
	out   Outcome
	// bindings are those of the state's generation, nil until they are needed, and written the generations
	// that this input made.
	bindings Bindings
	written  []StoreBindings
}

func (m *machine) emit(e stages.Event) { m.out.Events = append(m.out.Events, e) }

func (m *machine) after(effects ...Effect) { m.out.After = append(m.out.After, effects...) }

// supersede asks runs to make way for another one.
func (m *machine) supersede(by Entry, runs []Entry) {
	for _, r := range runs {
		m.after(Supersede{Run: r, By: by})
	}
}

// bound returns the bindings, to be changed in place and then given to rebind.
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

// rebind makes the bindings a new generation.
func (m *machine) rebind() {
	m.Bindings = Generation{Generation: m.Bindings.Generation + 1, ID: m.facts.ID, Pages: m.bindings.pages()}
	m.InUse = m.bindings.InUse()
	m.written = append(m.written, StoreBindings{m.Bindings, maps.Clone(m.bindings)})
}

// read returns what was read of the record of a run.
func (m *machine) read(e Entry) (RunFact, error) {
	f := m.facts.Runs[e.UID]
	if f.Found == NotRead {
		m.out.Need.Runs = append(m.out.Need.Runs, e)
		return f, errNeed
	}
	return f, nil
}

// result returns what a run has come to on its clusters; nil where that cannot be known any more.
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

// open returns an error where the placement is being deleted.
func (m *machine) open() error { return m.Open(m.facts.Spec.Name) }

// Open returns a [*DeletingError] where the placement of that name is being deleted.
func (s *State) Open(name string) error {
	if s.Deleting == nil {
		return nil
	}
	return &DeletingError{Placement: name, Since: s.Deleting.Since}
}

// RunTaken is the input for an engine that takes a run: its lease gets the Epoch, which is one more than the
// state's.
type RunTaken struct{ Epoch int64 }

func (in RunTaken) advance(m *machine) error {
	if in.Epoch != m.Epoch+1 {
		return fmt.Errorf("epoch %d follows %d: %w", in.Epoch, m.Epoch, ErrStale)
	}
	m.Epoch = in.Epoch
	return nil
}

// SelectionChanged is the input for a selection on the clusters of the placement: the policy of PolicyDigest
// picks so many, which are stored in Pages.
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

// recordSelection records a selection where it is new, or its clusters were not stored.
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

// SelectionIndex is the index of a selection by the policy of a digest, were it the next one.
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

// refuse is an error of something that is not possible.
func refuse(run, why string) error {
	return fmt.Errorf("run %s cannot be taken back: %s: %w", run, cmp.Or(why, "no reason is known"), ErrRefused)
}
