package kubehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
)

// IfReady returns a transport to the API server at base on which a missing right is an answer of a
// server that is ready. A starting API server refuses requests that a role allows, because it has
// not read the roles yet; a caller would take such a refusal for final.
//
// If the server refuses a request with 403 for a missing right, the transport asks whether the
// server is ready. If it is, the transport sends the request once more, and that answer counts.
// If it is not, the answer is 503. Refusals for another reason, for example of an admission
// webhook, pass unchanged, and so does the refusal of a request that cannot be sent twice.
func IfReady(through http.RoundTripper, base *url.URL) http.RoundTripper {
	return ifReady{through, base}
}

type ifReady struct {
	http.RoundTripper

	base *url.URL
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (t ifReady) CloseIdleConnections() { net.CloseIdleConnectionsFor(t.RoundTripper) }

// RoundTrip implements [http.RoundTripper].
func (t ifReady) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	body, err := drain(resp)
	if err != nil {
		return nil, err
	}
	again, ok := repeated(r)
	if !ok || !lacksRight(body) {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
	ready, err := t.isReady(r.Context())
	switch {
	case err != nil:
		return nil, err
	case !ready:
		return unavailable(resp)
	}
	return t.RoundTripper.RoundTrip(again)
}

// repeated returns a request that can be sent after r, or false if the body of r can be read only
// once.
func repeated(r *http.Request) (*http.Request, bool) {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	var err error
	again.Body, err = r.GetBody()
	return again, err == nil
}

// lacksRight reports whether an API server's authorizers wrote the body of a refusal, in JSON or
// Protocol Buffers. Their refusals name the user.
func lacksRight(body []byte) bool { return bytes.Contains(body, []byte("forbidden: User ")) }

// isReady reports whether the API server has read the roles. /readyz answers that to every user by
// default. If the user may not ask it, the server has read the roles if it shows its versions,
// which every client needs.
func (t ifReady) isReady(ctx context.Context) (bool, error) {
	code, err := t.ask(ctx, "readyz")
	if err == nil && code == http.StatusForbidden {
		code, err = t.ask(ctx, "api")
	}
	// A proxy may know neither path.
	return code < http.StatusInternalServerError && code != http.StatusForbidden, err
}

func (t ifReady) ask(ctx context.Context, path string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return 0, fmt.Errorf("whether the API server is ready, since it refused a request: %w", err)
	}
	_, err = drain(resp)
	return resp.StatusCode, err
}

// unavailable returns 503 in place of a refusal.
func unavailable(refusal *http.Response) (*http.Response, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  "the API server is not ready: it refuses requests before it has read the roles",
		Reason:   metav1.StatusReasonServiceUnavailable,
		Code:     http.StatusServiceUnavailable,
	})
	if err != nil {
		return nil, err
	}
	resp := *refusal
	resp.StatusCode, resp.Status = http.StatusServiceUnavailable, "503 Service Unavailable"
	resp.Header = http.Header{"Content-Type": {"application/json"}}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &resp, nil
}

// maxRefusal bounds the body of a refusal.
const maxRefusal = 64 << 10

// drain reads and closes the body of an answer.
func drain(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	return body, errors.Join(err, resp.Body.Close())
}
