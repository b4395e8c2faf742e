package objects

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes reports whether an error may be gone the next time: it is none that the API
// server gives for what is asked, or for who asks.
func Passes(err error) bool {
	switch code := apierrors.APIStatus(nil); {
	case errors.As(err, &code):
		return code.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err)
	default:
		return true
	}
}
