package member

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// longestStatus limits how much of a refusal is read.
const longestStatus = 64 << 10

// refusal returns the error in an API server's answer, and closes the answer. It does not quote
// an answer that is no Status.
func refusal(r request, answer *http.Response) error {
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestStatus))
	var status metav1.Status
	if err != nil || json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Status != metav1.StatusFailure {
		return apierrors.NewGenericServerResponse(answer.StatusCode, strings.ToLower(r.verb), schema.GroupResource{}, "", "", 0, true)
	}
	status.Code = int32(answer.StatusCode)
	return &apierrors.StatusError{ErrStatus: status}
}

// failed returns the error of a method about an object.
func failed(op string, id snapshot.ID, err error) error { return api.Classify(op, id.String(), err) }

func trimSlash(s string) string { return strings.TrimSuffix(s, "/") }
