package kubeenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conflict answers 409: another writer changed the object in between.
func Conflict() Fault { return Answer(http.StatusConflict, metav1.StatusReasonConflict) }

// Gone answers 410: the resource version is too old, to a watch before its first event and to a
// list that is continued.
func Gone() Fault { return Answer(http.StatusGone, metav1.StatusReasonExpired) }

// TooManyRequests answers 429 and asks to come back later. client-go does so up to ten times by
// itself, in whole seconds; less than one is no request to wait, and reaches the caller.
func TooManyRequests(after time.Duration) Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := answer(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		if err == nil && after >= time.Second {
			response.Header.Set("Retry-After", strconv.Itoa(int(after/time.Second)))
		}
		return response, err
	}
}

// LacksRight answers 403 as an API server does if the user lacks a right.
func LacksRight() Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		refuse(r)
		s := status(http.StatusForbidden, metav1.StatusReasonForbidden)
		s.Message = fmt.Sprintf("forbidden: User \"kubeenv\" cannot %s path %q: a fault of the test", strings.ToLower(r.Method), r.URL.Path)
		body, err := json.Marshal(s)
		return respond(r, http.StatusForbidden, body), err
	}
}

// Answer answers with a status code and a reason, and the request does not reach the server.
func Answer(code int, reason metav1.StatusReason) Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) { return answer(r, code, reason) }
}

// ResetBefore resets the connection before the request reaches the server.
func ResetBefore() Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		refuse(r)
		return nil, reset()
	}
}

// ResetAfter lets the server carry the request out and resets the connection before its answer: the
// client cannot know whether it happened.
func ResetAfter() Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		// The server has finished after the complete answer.
		_, err = io.Copy(io.Discard, response.Body)
		return nil, errors.Join(reset(), err, response.Body.Close())
	}
}

// Delay holds a request back, or until its context ends, and passes it on.
func Delay(d time.Duration) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		wait := time.NewTimer(d)
		defer wait.Stop()
		select {
		case <-wait.C:
			return next.RoundTrip(r)
		case <-r.Context().Done():
			refuse(r)
			return nil, r.Context().Err()
		}
	}
}

// refuse closes the body of a request that is not passed on.
func refuse(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// reset is the error of a connection that the other side has reset.
func reset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// answer returns an error answer of a server in JSON, which every client accepts.
func answer(r *http.Request, code int, reason metav1.StatusReason) (*http.Response, error) {
	refuse(r)
	body, err := json.Marshal(status(code, reason))
	return respond(r, code, body), err
}

func status(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  fmt.Sprintf("kubeenv: a fault of the test: %d %s", code, reason),
		Reason:   reason,
		Code:     int32(code),
	}
}

func respond(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}
