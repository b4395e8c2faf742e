package objects

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes reports whether an error may disappear by itself: the API server gives it neither for
// the request nor for the identity of the caller.
func Passes(err error) bool {
	switch code := apierrors.APIStatus(nil); {
	case errors.As(err, &code):
		return code.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err)
	default:
		return true
	}
}
