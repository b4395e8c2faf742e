package member

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/slipway-dev/slipway/internal/backoff"
)

// client makes requests to one API server. It reads answers within limits, follows no redirects,
// because they would carry the credentials elsewhere, and writes no logs.
type client struct {
	base       *url.URL
	transports transports
	limiter    flowcontrol.RateLimiter
	limits     Limits
	timeout    time.Duration
}

// request is a request to an API server.
type request struct {
	verb, path  string
	query       url.Values
	contentType string
	accept      string
	body        []byte
}

const (
	jsonType  = "application/json"
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
)

func newClient(cfg *rest.Config, o Options) (*client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, o.UserAgent)
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the address of the API server: %w", err)
	}
	c := &client{base: base, limiter: limiterFor(cfg, o), limits: o.Limits, timeout: o.RequestTimeout}
	return c, c.transports.open(cfg, base, o)
}

func limiterFor(cfg *rest.Config, o Options) flowcontrol.RateLimiter {
	qps, burst := o.QPS, o.Burst
	if cfg.QPS != 0 {
		qps, burst = cfg.QPS, cmp.Or(cfg.Burst, int(2*cfg.QPS))
	}
	switch {
	case cfg.RateLimiter != nil:
		return cfg.RateLimiter
	case qps < 0:
		return flowcontrol.NewFakeAlwaysRateLimiter()
	}
	return flowcontrol.NewTokenBucketRateLimiter(qps, max(burst, 1))
}

func (c *client) close() { c.transports.close() }

// do makes a request and returns the answer. The error of an API server that refuses is an
// apierrors.APIStatus.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	l, leave := c.transports.enter()
	defer leave()
	return c.over(ctx, l, r)
}

// over is do over a transport that the caller has entered.
func (c *client) over(ctx context.Context, l *transport, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.send(ctx, l, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return c.limits.read(answer.Body, answer.ContentLength)
}

// patience is the maximum number of repetitions of a request that the API server was too busy to
// read, and longestPause is the longest wait that the server may request.
const (
	patience     = 3
	longestPause = 5 * time.Second
)

// send repeats a request while the API server is too busy. The caller must close the body of the
// answer.
func (c *client) send(ctx context.Context, l *transport, r request) (*http.Response, error) {
	for tries := 0; ; tries++ {
		if err := c.limiter.Wait(ctx); err != nil {
			return nil, cmp.Or(ctx.Err(), err)
		}
		answer, err := c.once(ctx, l, r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode < http.StatusMultipleChoices {
			return answer, nil
		}
		pause, busy := busyFor(answer)
		err = refusal(r, answer)
		if !busy || tries == patience || !backoff.Sleep(ctx, pause) {
			return nil, err
		}
	}
}

func (c *client) once(ctx context.Context, l *transport, r request) (*http.Response, error) {
	to := *c.base
	to.Path, to.RawPath = "", ""
	u := to.String() + trimSlash(c.base.EscapedPath()) + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, r.verb, u, bytes.NewReader(r.body))
	if err != nil {
		return nil, errors.New("the path of the object makes no URL")
	}
	q.Header.Set("Accept", cmp.Or(r.accept, jsonType))
	if r.contentType != "" {
		q.Header.Set("Content-Type", r.contentType)
	}
	return l.http.Do(q)
}

// busyFor reports whether the API server refused the request unread because it is busy and a
// retry is worthwhile, and after which delay.
func busyFor(answer *http.Response) (time.Duration, bool) {
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || answer.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	pause := time.Duration(min(seconds, 3600)) * time.Second
	return pause, pause <= longestPause
}

// stream makes a request whose answer lasts until it is closed or ctx ends.
func (c *client) stream(ctx context.Context, r request) (io.ReadCloser, error) {
	answer, err := c.send(ctx, &c.transports.wide, r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}
