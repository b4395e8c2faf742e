package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/stages"
)

// Error is an error of the API. [Client] returns it. It matches, by errors.Is, the same errors as
// the engine's error: backend.ErrNotFound, ErrConflict, ErrPermanent and ErrFenced,
// approval.ErrRefused, errdef.ErrDeleting, errdef.ErrChanged and errdef.ErrPlanChanged.
type Error struct {
	// Code is the status code of the answer.
	Code int `json:"code"`
	// Reason is one of the reasons in the documentation of the package.
	Reason string `json:"reason"`
	// Message is for people, and may change.
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// UnansweredError is the error of a request that no server has answered. A later request may be
// answered, for example after the server has started again.
type UnansweredError struct {
	// Server is [ClientOptions.Server], or the address of the server.
	Server string
	// Since is when the server was first noticed not to answer.
	Since time.Time
	Err   error
	// named reports whether Server is not the address, so that Err means nothing to people.
	named bool
}

func (e *UnansweredError) Error() string {
	text := "no engine answers on " + e.Server + " since " + e.Since.UTC().Format(time.TimeOnly)
	if e.named {
		return text
	}
	return text + ": " + e.Err.Error()
}

func (e *UnansweredError) Unwrap() error { return e.Err }

// Is reports whether the engine's error matched target.
func (e *Error) Is(target error) bool {
	for _, k := range kinds {
		if k.reason == e.Reason {
			return target == k.is || k.also != nil && target == k.also
		}
	}
	return false
}

// kinds are the errors of an engine that are matched by errors.Is. The first that matches counts.
var kinds = []struct { //nolint:gochecknoglobals // a constant table
	is     error
	code   int
	reason string
	// also is the kind of package backend that the error matches, too.
	also error
}{
	{is: backend.ErrNotFound, code: http.StatusNotFound, reason: "NotFound"},
	{is: errdef.ErrDeleting, code: http.StatusConflict, reason: "Deleting", also: backend.ErrPermanent},
	{is: errdef.ErrChanged, code: http.StatusPreconditionFailed, reason: "Changed", also: backend.ErrConflict},
	{is: errdef.ErrPlanChanged, code: http.StatusConflict, reason: "PlanChanged"},
	{is: approval.ErrRefused, code: http.StatusConflict, reason: "Refused"},
	{is: backend.ErrConflict, code: http.StatusConflict, reason: "Conflict"},
	{is: backend.ErrFenced, code: http.StatusConflict, reason: "Fenced"},
	{is: backend.ErrPermanent, code: http.StatusUnprocessableEntity, reason: "Permanent"},
	{is: context.DeadlineExceeded, code: http.StatusGatewayTimeout, reason: "Timeout"},
}

// errorOf converts an error to the API's error.
func errorOf(err error) *Error {
	if e, is := errors.AsType[*Error](err); is {
		return e
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return &Error{k.code, k.reason, err.Error()}
		}
	}
	if _, is := errors.AsType[*stages.RefusedError](err); is {
		return &Error{http.StatusConflict, "Refused", err.Error()}
	}
	if _, is := errors.AsType[*stages.RejectedError](err); is {
		return &Error{http.StatusConflict, "Rejected", err.Error()}
	}
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return &Error{http.StatusRequestEntityTooLarge, "TooLarge", err.Error()}
	}
	if _, is := errors.AsType[*field.Error](err); is || isAggregate(err) {
		return &Error{http.StatusUnprocessableEntity, "Invalid", err.Error()}
	}
	return &Error{http.StatusInternalServerError, "Failed", err.Error()}
}

// isAggregate reports whether err wraps the problems of a document.
func isAggregate(err error) bool {
	all, is := errors.AsType[interface {
		error
		Errors() []error
	}](err)
	if !is || len(all.Errors()) == 0 {
		return false
	}
	_, is = errors.AsType[*field.Error](all.Errors()[0])
	return is
}

func badRequest(err error) error {
	return &Error{http.StatusBadRequest, "BadRequest", err.Error()}
}

// WriteError answers a request with an error in the format of the API, for a program that serves a
// part of the API itself. An [*Error] is written unchanged.
func WriteError(w http.ResponseWriter, err error) {
	e := errorOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(struct {
		Error *Error `json:"error"`
	}{e})
}
