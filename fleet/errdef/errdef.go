// Package errdef defines the errors of an engine. Each has the operation, the cause and the noun:
// the placement, run or other thing that the operation was about.
//
// A program tells the causes apart by errors.Is with [ErrNotFound], [ErrDeleting], [ErrPlanChanged]
// and [ErrChanged] of this package and with the kinds of package backend, and never by a text. It
// gets the noun by errors.As with an [*Error]. Invalid input matches no kind: it is an
// errors.Aggregate of field.Error values of k8s.io/apimachinery, found by errors.As.
//
// Neighbours: the methods of fleet.Engine return these errors, fleet/httpapi answers with them.
package errdef

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// The causes by which a program can distinguish errors, besides the kinds of package backend.
var (
	// ErrNotFound: a noun that the caller named does not exist. It matches backend.ErrNotFound.
	ErrNotFound = fmt.Errorf("the engine does not have it: %w", backend.ErrNotFound)
	// ErrDeleting: the placement is being deleted, and accepts nothing new until the deletion has
	// ended. It matches backend.ErrPermanent.
	ErrDeleting = fmt.Errorf("the placement is being deleted: %w", backend.ErrPermanent)
	// ErrPlanChanged: the caller named the digest of a previewed plan, and the run would now have
	// another plan.
	ErrPlanChanged = errors.New("the plan has changed")
	// ErrChanged: the declaration has changed since the caller read it. It matches
	// backend.ErrConflict.
	ErrChanged = fmt.Errorf("the declaration has changed: %w", backend.ErrConflict)
)

// Kind is a kind of noun.
type Kind string

// The kinds of nouns.
const (
	Placement Kind = "placement"
	Run       Kind = "run"
	Snapshot  Kind = "snapshot"
	Selection Kind = "selection"
	Deletion  Kind = "deletion"
	Cluster   Kind = "cluster"
	Request   Kind = "request"
	Cap       Kind = "cap"
	Strategy  Kind = "strategy"
)

// The operations that are refused.
const (
	Read   = "read"
	Change = "change"
	Create = "create"
)

// Error is an operation that an engine refused.
type Error struct {
	// Op is the operation: Read, Change or Create.
	Op string
	// Kind and Name identify the noun, the thing that the operation was about.
	Kind Kind
	Name string
	// Problem is the predicate of the sentence about the noun, for people: "does not exist".
	Problem string
	// Hint is the remedy, for people; it may be empty.
	Hint string
	// Err is the cause, which errors.Is finds: an error of this package or a kind of package
	// backend.
	Err error
}

func (e *Error) Error() string {
	text := string(e.Kind) + " " + e.Name + " " + e.Problem
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// NotFound returns the error of a noun that does not exist, and a hint, which may be empty.
func NotFound(kind Kind, name, hint string) *Error {
	return &Error{Op: Read, Kind: kind, Name: name, Problem: "does not exist", Hint: hint, Err: ErrNotFound}
}

// Exists returns the error of a run whose name is taken. It matches backend.ErrConflict.
func Exists(run string) *Error {
	return &Error{
		Op: Create, Kind: Run, Name: run, Problem: "exists already",
		Hint: "choose another name, or delete it first", Err: backend.ErrConflict,
	}
}

// NotReversible returns the error of a run that cannot be rolled back, with the reason. It matches
// backend.ErrPermanent.
func NotReversible(run, reason string) *Error {
	return &Error{Op: Change, Kind: Run, Name: run, Problem: "cannot be rolled back", Hint: reason, Err: backend.ErrPermanent}
}

// Replaced returns the error of a run that was deleted and whose name another run now has.
func Replaced(run string) *Error {
	return NotFound(Run, run, "it was deleted, and another run has its name")
}

// Deleting returns the error of a placement that is being deleted since a time.
func Deleting(placement string, since time.Time) *Error {
	return &Error{
		Op: Change, Kind: Placement, Name: placement, Problem: "is being deleted since " + since.Format(time.RFC3339),
		Hint: "declare it again after the end of the deletion", Err: ErrDeleting,
	}
}

// PlanChanged returns the error of a run whose caller required the plan with digest want, although
// the plan now has digest got.
func PlanChanged(run, want, got string) *Error {
	return &Error{
		Op: Create, Kind: Run, Name: run, Problem: "would have plan " + got + " instead of the requested plan " + want,
		Hint: "preview it again", Err: ErrPlanChanged,
	}
}

// Changed returns the error for a declaration that has changed since the caller read it.
func Changed(kind Kind, name string) *Error {
	return &Error{Op: Change, Kind: kind, Name: name, Problem: "has changed since it was read", Hint: "read it again", Err: ErrChanged}
}

// OtherOwner returns the error of a placement that has another owner than want. It matches
// backend.ErrConflict.
func OtherOwner(placement, have, want string) *Error {
	return &Error{
		Op: Change, Kind: Placement, Name: placement, Problem: "belongs to " + owner(have) + " and not to " + owner(want),
		Hint: "delete it first, or choose another name", Err: backend.ErrConflict,
	}
}

func owner(name string) string {
	if name == "" {
		return "no owner"
	}
	return "owner " + strconv.Quote(name)
}

// IsMissing reports whether an error says that a thing of this kind does not exist.
func IsMissing(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind && errors.Is(e, ErrNotFound)
}
