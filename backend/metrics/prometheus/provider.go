package prometheus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/internal/outbound"
)

// Defaults of a [Config].
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxLookback = 5 * time.Minute
	DefaultMaxBytes    = 10 << 20
	DefaultMaxSamples  = 10_000
)

// Config configures the server and the credentials. At most one of these may be set: user name
// with password, BearerToken, BearerTokenFile, and a header Authorization.
type Config struct {
	// URL is the http or https URL of the server, including the path of its API, such as
	// "https://mimir.example.com/prometheus". It has no user info.
	URL string
	// BearerToken returns a token for each query and is called concurrently. BearerTokenFile is the
	// name of a file with a token, which is read for each query. Outside of Pods no other user may
	// have access to the file: its mode must be 0600.
	BearerToken     func(context.Context) (string, error)
	BearerTokenFile string
	// Username and Password are for basic authentication.
	Username, Password string
	// Headers are sent with each query, for example X-Scope-OrgID.
	Headers http.Header
	// TLS configures trusted authorities and client certificates. Default: the authorities of the
	// system, and no client certificate.
	TLS *tls.Config
	// Transport replaces the transport of this package, for example for a proxy or for signed
	// requests. TLS must not be set with it.
	Transport http.RoundTripper
	// Timeout is the maximum duration of a query, at least 1 s; default 10 s. The server receives it
	// too.
	Timeout time.Duration
	// MaxLookback is the maximum age of a sample that an instant vector selector finds, at least 1
	// s; default 5 min, which is also a server's own default. A shorter window of the query replaces
	// it.
	MaxLookback time.Duration
	// MaxBytes bounds the answer, decompressed; default 10 MiB. MaxSamples bounds its samples;
	// default 10,000.
	MaxBytes   int64
	MaxSamples int
}

// Provider is a [backend.MetricProvider] that queries a server. It may be used concurrently.
type Provider struct {
	cfg      Config
	endpoint outbound.Endpoint
	next     http.RoundTripper
}

var _ backend.MetricProvider = (*Provider)(nil)

// New returns a provider without connecting to the server. If a field of cfg is
// invalid, the error names the field and does not contain its value.
func New(cfg Config) (*Provider, error) {
	u, err := outbound.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("prometheus: URL: %w", err)
	}
	p := &Provider{next: cfg.Transport, endpoint: outbound.Endpoint{
		URL: u, Header: cfg.Headers, Username: cfg.Username, Password: cfg.Password, Token: cfg.BearerToken, TokenFile: cfg.BearerTokenFile,
	}}
	if err := p.endpoint.Prepare(); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	if cfg.Transport != nil && cfg.TLS != nil {
		return nil, errors.New("prometheus: Transport and TLS: only one can be set")
	}
	if cfg.Transport == nil {
		p.next = outbound.Transport(outbound.Dialer(), cfg.TLS)
	}
	cfg.Timeout = orDefault(cfg.Timeout, DefaultTimeout)
	cfg.MaxLookback = orDefault(cfg.MaxLookback, DefaultMaxLookback)
	cfg.MaxBytes = orDefault(cfg.MaxBytes, DefaultMaxBytes)
	cfg.MaxSamples = orDefault(cfg.MaxSamples, DefaultMaxSamples)
	for _, field := range []struct {
		name       string
		got, least int64
	}{
		{"Timeout", int64(cfg.Timeout), int64(time.Second)},
		{"MaxLookback", int64(cfg.MaxLookback), int64(time.Second)},
		{"MaxBytes", cfg.MaxBytes, 1},
		{"MaxSamples", int64(cfg.MaxSamples), 1},
	} {
		if field.got < field.least {
			return nil, fmt.Errorf("prometheus: %s is too small", field.name)
		}
	}
	p.cfg = cfg
	return p, nil
}

func orDefault[T comparable](value, otherwise T) T {
	var unset T
	if value == unset {
		return otherwise
	}
	return value
}

// Measure queries the server for the current value of a query. A scalar is one sample without
// labels, an instant vector one sample for each of its elements; no element is no sample and no
// error. NaN and infinities are values.
func (p *Provider) Measure(ctx context.Context, q backend.MetricQuery) ([]backend.Sample, error) {
	call, ctx, cancel, err := outbound.Begin(ctx, p.next, &p.endpoint, outbound.Limits{Timeout: p.cfg.Timeout, Bytes: p.cfg.MaxBytes})
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	defer cancel()
	client, err := p.client(call)
	if err != nil {
		return nil, err
	}
	value, warnings, _, err := v1.NewAPI(client).Query(ctx, q.Text, time.Time{},
		v1.WithLookbackDelta(p.lookback(q.Window)), v1.WithTimeout(patience(ctx)))
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", explain(ctx, call, err))
	}
	for _, w := range warnings {
		// Older servers return remarks about the query among the warnings.
		if !strings.HasPrefix(w, "PromQL info:") {
			return nil, errors.New("prometheus: the answer may be incomplete: " + call.Text(w))
		}
	}
	samples, err := p.samples(value)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return samples, nil
}

// client returns the client of a call.
func (p *Provider) client(call *outbound.Call) (api.Client, error) {
	strict := call.Client()
	strict.Transport = strictly{strict.Transport}
	client, err := api.NewClient(api.Config{Address: p.endpoint.URL.String(), Client: strict})
	if err != nil {
		return nil, errors.New("prometheus: the URL is refused by the client")
	}
	return client, nil
}

// lookback returns the maximum age of a sample in whole seconds, because a server refuses
// fractions.
func (p *Provider) lookback(window time.Duration) time.Duration {
	return max(min(window, p.cfg.MaxLookback).Truncate(time.Second), time.Second)
}

// patience returns the timeout for the server in whole seconds, at least as long as the context.
func patience(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline).Truncate(time.Second), 0) + time.Second
}

var errString = errors.New("the result is a string: ask for a number or an instant vector")

// explain translates an error of the API.
func explain(ctx context.Context, call *outbound.Call, err error) error {
	answered := (*v1.Error)(nil)
	if !errors.As(err, &answered) {
		return call.Error(ctx, err)
	}
	kind, message := answered.Type, answered.Msg
	if kind == v1.ErrServer || kind == v1.ErrClient {
		kind, message = detail(answered)
	}
	switch kind {
	case v1.ErrBadData:
		return errors.New("the query is wrong: " + call.Text(strings.TrimPrefix(message, `invalid parameter "query": `)))
	case v1.ErrExec:
		return errors.New("the query failed: " + call.Text(message))
	case v1.ErrTimeout, v1.ErrCanceled:
		return errors.New("the server gave the query up: " + call.Text(message))
	case v1.ErrBadResponse:
		if strings.Contains(message, `unexpected value type "string"`) {
			return errString
		}
		// The message contains an excerpt of the body, which may be a page of a proxy.
		return errors.New("the answer is not one of the API of Prometheus")
	case v1.ErrServer, v1.ErrClient:
		return errors.New("the server refused: " + call.Text(message))
	default:
		return errors.New("the server failed: " + call.Text(message))
	}
}

// detail returns the server's message from an answer with a status that the client attributes to
// a proxy, for example 503 for a query that takes too long. It never returns a body that is not
// from the API.
func detail(e *v1.Error) (v1.ErrorType, string) {
	var body struct {
		Status    string
		ErrorType v1.ErrorType
		Error     string
	}
	if err := json.Unmarshal([]byte(e.Detail), &body); err != nil || body.Status != "error" || body.ErrorType == "" {
		return e.Type, e.Msg
	}
	return body.ErrorType, body.Error
}

// samples converts a value of the API.
func (p *Provider) samples(value model.Value) ([]backend.Sample, error) {
	switch v := value.(type) {
	case *model.Scalar:
		return []backend.Sample{{Value: float64(v.Value)}}, nil
	case model.Vector:
		if len(v) > p.cfg.MaxSamples {
			return nil, fmt.Errorf("the query has %d results, more than %d: aggregate them, for example by sum", len(v), p.cfg.MaxSamples)
		}
		samples := make([]backend.Sample, 0, len(v))
		for _, element := range v {
			if element.Histogram != nil {
				return nil, errors.New("the result is a native histogram: take a number of it, for example by histogram_quantile or histogram_sum")
			}
			samples = append(samples, backend.Sample{Labels: labels(element.Metric), Value: float64(element.Value)})
		}
		return samples, nil
	case model.Matrix:
		return nil, errors.New("the result is a range vector: take a number of each range, for example by rate or max_over_time")
	case *model.String:
		return nil, errString
	default:
		return nil, errors.New("the answer has no result")
	}
}

func labels(m model.Metric) map[string]string {
	out := make(map[string]string, len(m))
	for name, value := range m {
		out[string(name)] = string(value)
	}
	return out
}
