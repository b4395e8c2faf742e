// Package api contains the shared parts of the backends on API servers: the client of a hub, and
// errors in the kinds of package backend that quote nothing of an object.
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
	"github.com/slipway-dev/slipway/internal/kubehttp"
	"github.com/slipway-dev/slipway/snapshot"
)

// ErrTerminating is transient: it ends when the namespace is gone.
var ErrTerminating = errors.New("the namespace is being deleted")

// ErrEstablishing is transient.
var ErrEstablishing = errors.New("the kind was defined just now and is not served yet")

// IsExpired reports whether a resourceVersion is too old to continue a list or a watch.
func IsExpired(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

// IsForbidden reports whether the user lacks a right.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// IsLasting reports whether retrying a watch is useless.
func IsLasting(err error) bool {
	return IsForbidden(err) || IsUnserved(err) || errors.Is(err, backend.ErrPermanent) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// IsUnserved reports whether an API server does not serve the requested kind. An answer about a
// missing object names it; an answer about a missing kind names none.
func IsUnserved(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotFound {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == ""
}

// Classify adds the operation and the object to err and gives it a kind of package backend. nil
// stays nil, and a classified error stays as it is. An error of no kind is transient: an API
// server that is busy, unreachable or starting, or that rejects the credentials, because those
// are renewed without a change of the object.
//
// A kind of object that the server does not serve is ErrNotFound if op is "get", "delete" or
// "watch", and ErrPermanent otherwise, because such an object cannot be written.
//
// The text contains nothing of an object's content, see [Describe].
func Classify(op, object string, err error) error {
	return classified(op, object, isSecret(object), err)
}

// ClassifyRecord is Classify for a record, which is a Secret.
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
	if _, lost := errors.AsType[*url.Error](err); lost { // the reason is about the cluster, so it comes first
		described.text += ": " + op + " " + object
		return described
	}
	return &backend.Error{Op: op, Object: object, Err: described}
}

// apiError is an answer of an API server, or the reason why there was none.
type apiError struct {
	text string
	// kind is a kind of package backend, or nil for a transient error.
	kind, cause error
}

func (e *apiError) Error() string { return e.text }

// Unwrap returns the kind and the cause, so that the predicates of
// k8s.io/apimachinery/pkg/api/errors hold too.
func (e *apiError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.kind, e.cause}, func(err error) bool { return err == nil })
}

// KindOf returns the kind of err, or nil if it is transient.
func KindOf(op string, err error) error {
	for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent} {
		if errors.Is(err, kind) {
			return kindLike(err, kind)
		}
	}
	status, ok := StatusOf(err)
	switch {
	case meta.IsNoMatchError(err), kubehttp.NoSuchKind(err):
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

// kindOfUnserved returns the kind of an error about a kind of object that the server does not
// serve.
func kindOfUnserved(op string) error {
	switch op {
	case "get", "delete", "watch":
		return unservedKind{backend.ErrNotFound}
	}
	return unservedKind{backend.ErrPermanent}
}

// kindLike returns kind. If err is about an unserved kind of object, the result keeps that fact.
func kindLike(err, kind error) error {
	if errors.Is(err, backend.ErrNoSuchKind) {
		return unservedKind{kind}
	}
	return kind
}

// unservedKind is the kind of an error about a kind of object that the server does not serve.
type unservedKind struct{ error }

// Unwrap returns both.
func (u unservedKind) Unwrap() []error { return []error{u.error, backend.ErrNoSuchKind} }

// refused reports whether the server understood the request and will give the same answer again.
// Webhooks may answer with any code.
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
var ErrNoServer = errors.New("the address does not lead to an API server at present: it answers 404 for a path that every API server serves")

// StatusOf returns the answer of an API server, if err contains one.
func StatusOf(err error) (metav1.Status, bool) {
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		return api.Status(), true
	}
	return metav1.Status{}, false
}

// Permanent wraps an error with ErrPermanent unless it already is ErrPermanent.
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
