package backend

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of error a backend returns, to be tested with [errors.Is]. Any
// other error is transient: the caller tries again later.
var (
	// ErrNotFound: there is no such key, object or cluster.
	ErrNotFound = errors.New("not found")
	// ErrConflict: another writer was first. Reload and decide again.
	ErrConflict = errors.New("conflict")
	// ErrFenced: a newer epoch exists. Stop acting.
	ErrFenced = errors.New("fenced by a newer epoch")
	// ErrPermanent: trying again does not help until something changes: forbidden, invalid, no such
	// kind.
	ErrPermanent = errors.New("permanent error")
	// ErrNoSuchKind: the cluster does not serve the kind of the object. Such an error also matches
	// ErrNotFound for a read, a deletion or a watch, and ErrPermanent for an apply.
	ErrNoSuchKind = errors.New("no such kind")
)

// FieldConflictError is the error of an apply with [ApplyOptions.RefuseConflicts] that would change
// fields of other managers. It matches ErrPermanent.
type FieldConflictError struct {
	// Managers are the other managers, each once; "" stands for unknown managers.
	Managers []string
}

func (e *FieldConflictError) Error() string {
	return fmt.Sprintf("fields belong to other managers and are not taken from them: %.200q", e.Managers)
}

// Unwrap returns ErrPermanent.
func (e *FieldConflictError) Unwrap() error { return ErrPermanent }

// SchemaError is the error of an apply if the only problems of the object are fields that the
// schema of its kind lacks, or several items of a list with the same key. A create or an update by
// kubectl accepts such an object without those fields. It matches ErrPermanent.
type SchemaError struct {
	// Unknown are the paths of fields that the schema does not have, as structured-merge-diff
	// writes paths: .spec.containers[name="web"].colour
	Unknown []string
	// Repeated are the keys that several items of a list have, each as the path of such an item:
	// .spec.containers[name="web"].env[name="A"]
	Repeated []string
}

func (e *SchemaError) Error() string {
	var said []string
	if len(e.Unknown) > 0 {
		said = append(said, fmt.Sprintf("the schema of the kind does not have %.400s", strings.Join(e.Unknown, ", ")))
	}
	if len(e.Repeated) > 0 {
		said = append(said, fmt.Sprintf("items of a list have the same key: %.400s", strings.Join(e.Repeated, ", ")))
	}
	return strings.Join(said, "; ")
}

// Unwrap returns ErrPermanent.
func (e *SchemaError) Unwrap() error { return ErrPermanent }

// Error names a failed operation of a backend and the object of the operation. Implementations wrap
// one of the kinds above, or the transient cause, in Err.
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
