package objects

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes reports whether a retry may succeed. It returns false only if the API server refuses the
// request or the caller; conflicts and too many requests may pass.
func Passes(err error) bool {
	switch code := apierrors.APIStatus(nil); {
	case errors.As(err, &code):
		return code.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err)
	default:
		return true
	}
}
