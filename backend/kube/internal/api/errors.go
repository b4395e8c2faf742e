// Package api is what the backends on API servers share: the client of a hub, and errors in the kinds of package
// backend that quote nothing of an object.
package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// ErrTerminating is transient: it ends when the namespace is gone.
var ErrTerminating = errors.New("the namespace is being deleted")

// ErrEstablishing is transient.
var ErrEstablishing = errors.New("the kind was defined just now and is not served yet")

// IsExpired reports whether a resourceVersion is too old to go on from.
func IsExpired(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

// IsForbidden reports whether the user lacks a right.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// IsLasting reports whether a watch will not work by trying again.
func IsLasting(err error) bool {
	return IsForbidden(err) || IsUnserved(err) || errors.Is(err, backend.ErrPermanent) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// IsUnserved reports whether an API server does not have the kind that was asked for, rather than the
// object: only then it names none.
func IsUnserved(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotFound {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == ""
}

// Classify says what a call was doing to which object when err came, in the
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
func Classify(op, object string, err error) error {
	return classified(op, object, isSecret(object), err)
}

// ClassifyRecord is classify for a record, which is a Secret.
func ClassifyRecord(op, key string, err error) error { return classified(op, key, true, err) }

func classified(op, object string, secret bool, err error) error {
	if err == nil {
		return nil
	}
	if known := (*apiError)(nil); errors.As(err, &known) {
		return err
	}
	if known := (*backend.Error)(nil); errors.As(err, &known) {
		return err
	}
	described := &apiError{text: Describe(secret, err), kind: KindOf(op, err), cause: causeOf(err)}
	if _, lost := errors.AsType[*url.Error](err); lost { // the reason comes first, because it is about the cluster and not the object
		described.text += ": " + op + " " + object
		return described
	}
	return &backend.Error{Op: op, Object: object, Err: described}
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

// KindOf returns the kind of err, or nil where it is transient.
func KindOf(op string, err error) error {
	for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent} {
		if errors.Is(err, kind) {
			return kindLike(err, kind)
		}
	}
	status, ok := StatusOf(err)
	switch {
	case meta.IsNoMatchError(err), ok && NoSuchKind(status):
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
		return unservedKind{backend.ErrNotFound}
	}
	return unservedKind{backend.ErrPermanent}
}

// kindLike is a kind for an error that matches it already, which keeps whether that says that there is no such kind of object.
func kindLike(err, kind error) error {
	if errors.Is(err, backend.ErrNoSuchKind) {
		return unservedKind{kind}
	}
	return kind
}

// unservedKind is a kind of error that a kind of object has which the server does not serve.
type unservedKind struct{ error }

// Unwrap returns both.
func (u unservedKind) Unwrap() []error { return []error{u.error, backend.ErrNoSuchKind} }

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

// ErrNoServer is transient.
var ErrNoServer = errors.New("the address does not lead to an API server at present: it answers 404 for what every API server has")

// NoSuchKind tells a path that the server does not serve from an object that it
// does not have: the former is answered by no handler of the kind.
func NoSuchKind(status metav1.Status) bool {
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

// StatusOf returns what an API server answered, if err is that.
func StatusOf(err error) (metav1.Status, bool) {
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		return api.Status(), true
	}
	return metav1.Status{}, false
}

// Permanent makes an error ErrPermanent unless it is of a kind already.
func Permanent(err error) error {
	if errors.Is(err, backend.ErrPermanent) {
		return err
	}
	return fmt.Errorf("%w: %w", err, backend.ErrPermanent)
}

// GVKOf returns the kind of an object.
func GVKOf(id snapshot.ID) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
}
