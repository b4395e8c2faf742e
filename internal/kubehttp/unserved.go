package kubehttp

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NoSuchKind reports whether an error is the answer to a path that the API server does not serve.
// The handler of a kind answers differently about a missing object.
func NoSuchKind(err error) bool {
	api := apierrors.APIStatus(nil)
	if !errors.As(err, &api) || api.Status().Reason != metav1.StatusReasonNotFound {
		return false
	}
	details := api.Status().Details
	return details == nil || slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}
