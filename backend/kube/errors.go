package kube

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
)

// classify says what a call was doing to which object when err came, in the
// kinds of package backend; nil stays nil, and an error that is classified
// already stays what it is. What is none of the kinds is transient: an API
// server that is busy, unreachable or starting, and credentials that it does
// not take, which are exchanged without anybody touching the object.
//
// A kind of object that the server does not serve is ErrNotFound where op is
// "get", "delete" or "watch", and ErrPermanent elsewhere: what is not there
// cannot be written.
//
// Nothing that an object contains is in the text, see [describe].
func classify(op, object string, err error) error {
	return classified(op, object, isSecret(object), err)
}

// classifyRecord is classify for a record, which is a Secret.
func classifyRecord(op, key string, err error) error { return classified(op, key, true, err) }

func classified(op, object string, secret bool, err error) error {
	if err == nil {
		return nil
	}
	if known := (*backend.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &backend.Error{Op: op, Object: object, Err: &apiError{
		text: describe(secret, err), kind: kindOf(op, err), cause: causeOf(err),
	}}
}

// apiError is what an API server answered, or why it did not.
type apiError struct {
	text string
	// kind is one of those of package backend, or nil for a transient error.
	kind, cause error
}

func (e *apiError) Error() string { return e.text }

// Unwrap returns the kind and the cause, so that the predicates of
// k8s.io/apimachinery/pkg/api/errors hold too.
func (e *apiError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.kind, e.cause}, func(err error) bool { return err == nil })
}

// kindOf returns the kind of err, or nil where it is transient.
func kindOf(op string, err error) error {
	for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	status, ok := statusOf(err)
	switch {
	case meta.IsNoMatchError(err), ok && noSuchKind(status):
		return kindOfUnserved(op)
	case !ok:
		return nil
	case apierrors.IsNotFound(err):
		return backend.ErrNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), status.Code == http.StatusConflict:
		return backend.ErrConflict
	case refused(err, status):
		return backend.ErrPermanent
	}
	return nil
}

// kindOfUnserved is the kind of an error that says that the server has no such
// kind of object.
func kindOfUnserved(op string) error {
	switch op {
	case "get", "delete", "watch":
		return backend.ErrNotFound
	}
	return backend.ErrPermanent
}

// refused reports whether the server understood the request and will answer the
// same again. Webhooks answer with whatever code they like.
func refused(err error, status metav1.Status) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err),
		apierrors.IsUnsupportedMediaType(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	case untyped(status.Message):
		return true
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
		return false
	}
	return status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError
}

// errNoServer is transient.
var errNoServer = errors.New("the address does not lead to an API server at present: it answers 404 for what every API server has")

// noSuchKind tells a path that the server does not serve from an object that it
// does not have: the former is answered by nobody who knows the kind.
func noSuchKind(status metav1.Status) bool {
	if status.Reason != metav1.StatusReasonNotFound {
		return false
	}
	if status.Details == nil {
		return true
	}
	for _, c := range status.Details.Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

func statusOf(err error) (metav1.Status, bool) {
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		return api.Status(), true
	}
	return metav1.Status{}, false
}
