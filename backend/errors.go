package backend

import "errors"

// The kinds of error a backend returns, to be tested with [errors.Is]. Any
// other error is transient: the caller tries again later.
var (
	// ErrNotFound: there is no such key, object or cluster.
	ErrNotFound = errors.New("not found")
	// ErrConflict: another writer was first. Reload and decide again.
	ErrConflict = errors.New("conflict")
	// ErrFenced: a newer epoch exists. Stop acting.
	ErrFenced = errors.New("fenced by a newer epoch")
	// ErrPermanent: trying again does not help until something changes: forbidden, invalid, no such kind.
	ErrPermanent = errors.New("permanent error")
)

// Error is a failed operation of a backend and the object of it. Implementations wrap one of the kinds above,
// or the transient cause, in Err.
type Error struct {
	// Op is the method in lower case: get, put, delete, list, dial, apply.
	Op string
	// Object is the key, the object or the cluster.
	Object string
	Err    error
}

func (e *Error) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
