package httpjson

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/internal/outbound"
)

// Defaults of a [Config].
const (
	DefaultTimeout    = 10 * time.Second
	DefaultMaxBytes   = 1 << 20
	DefaultMaxSamples = 10_000
)

// Host is a permitted service with the credentials for it. No other host receives these
// credentials. At most one of these may be set: user name with password, BearerToken,
// BearerTokenFile, and a header Authorization.
type Host struct {
	// URL is http or https, without user info, query and fragment. Queries reach only URLs below its
	// path.
	URL string
	// BearerToken returns a token for each query and is called concurrently. BearerTokenFile is the
	// name of a file with a token, which is read for each query. Outside of Pods no other user may
	// have access to the file: its mode must be 0600.
	BearerToken     func(context.Context) (string, error)
	BearerTokenFile string
	// Username and Password are for basic authentication.
	Username, Password string
	// Headers are sent with each query.
	Headers http.Header
	// TLS configures trusted authorities and client certificates. Default: the authorities of the
	// system, and no client certificate.
	TLS *tls.Config
}

// Config configures the permitted services and the limits of queries.
type Config struct {
	// Hosts are the permitted services, at least one. With a single host, a query may omit the host
	// in its URL.
	Hosts []Host
	// Networks are permitted addresses that are not public, such as the addresses of the cluster's
	// services. All other loopback, link-local, private and reserved addresses are refused, whatever
	// name resolves to them.
	Networks []netip.Prefix
	// Timeout is the maximum duration of a query, at least 1 ms; default 10 s.
	Timeout time.Duration
	// MaxBytes bounds the answer, decompressed; default 1 MiB. MaxSamples bounds its samples;
	// default 10,000.
	MaxBytes   int64
	MaxSamples int
}

// Provider is a [backend.MetricProvider] that queries HTTP services. It may be used concurrently.
type Provider struct {
	hosts   []host
	limits  outbound.Limits
	samples int
}

type host struct {
	endpoint outbound.Endpoint
	next     http.RoundTripper
}

var _ backend.MetricProvider = (*Provider)(nil)

// New returns a provider without connecting to a service. If a field of cfg is
// invalid, the error names the field and does not contain its value.
func New(cfg Config) (*Provider, error) {
	p := &Provider{limits: outbound.Limits{Timeout: DefaultTimeout, Bytes: DefaultMaxBytes}, samples: DefaultMaxSamples}
	if cfg.Timeout != 0 {
		p.limits.Timeout = cfg.Timeout
	}
	if cfg.MaxBytes != 0 {
		p.limits.Bytes = cfg.MaxBytes
	}
	if cfg.MaxSamples != 0 {
		p.samples = cfg.MaxSamples
	}
	switch {
	case len(cfg.Hosts) == 0:
		return nil, errors.New("httpjson: Hosts: none is given")
	case p.limits.Timeout < time.Millisecond:
		return nil, errors.New("httpjson: Timeout is too small")
	case p.limits.Bytes < 1:
		return nil, errors.New("httpjson: MaxBytes is too small")
	case p.samples < 1:
		return nil, errors.New("httpjson: MaxSamples is too small")
	}
	for _, network := range cfg.Networks {
		if !network.IsValid() {
			return nil, errors.New("httpjson: Networks: a prefix is not valid")
		}
	}
	dialer := outbound.PublicDialer(cfg.Networks)
	for i := range cfg.Hosts {
		h := &cfg.Hosts[i]
		u, err := outbound.ParseURL(h.URL)
		if err != nil {
			return nil, fmt.Errorf("httpjson: Hosts[%d]: URL: %w", i, err)
		}
		endpoint := outbound.Endpoint{
			URL: u, Header: h.Headers, Username: h.Username, Password: h.Password, Token: h.BearerToken, TokenFile: h.BearerTokenFile,
		}
		if err := endpoint.Prepare(); err != nil {
			return nil, fmt.Errorf("httpjson: Hosts[%d]: %w", i, err)
		}
		p.hosts = append(p.hosts, host{endpoint: endpoint, next: outbound.Transport(dialer, h.TLS)})
	}
	return p, nil
}

// Measure sends the request of a query, and returns the numbers that its pointer selects. It does
// not use the window of the query, because only the service knows the age of its numbers.
func (p *Provider) Measure(ctx context.Context, q backend.MetricQuery) ([]backend.Sample, error) {
	asked, err := parse(q.Text)
	if err != nil {
		return nil, fmt.Errorf("httpjson: query: %w", err)
	}
	h, err := p.locate(asked)
	if err != nil {
		return nil, fmt.Errorf("httpjson: query: %w", err)
	}
	call, ctx, cancel, err := outbound.Begin(ctx, h.next, &h.endpoint, p.limits)
	if err != nil {
		return nil, fmt.Errorf("httpjson: %w", err)
	}
	defer cancel()
	body, err := send(ctx, call, asked)
	if err != nil {
		return nil, fmt.Errorf("httpjson: %w", call.Error(ctx, err))
	}
	samples, err := read(body, asked.pointer, p.samples)
	if err != nil {
		return nil, errors.New("httpjson: " + call.Text(err.Error()))
	}
	return samples, nil
}

// locate returns the host of a query, and completes its URL.
func (p *Provider) locate(asked *question) (*host, error) {
	if asked.url.Host == "" {
		if len(p.hosts) > 1 {
			return nil, errors.New("there are several hosts: begin with http:// or https://")
		}
		base := p.hosts[0].endpoint.URL
		// Joining must not resolve path segments.
		asked.url.Path = strings.TrimRight(base.Path, "/") + asked.url.Path
		asked.url.RawPath = strings.TrimRight(base.EscapedPath(), "/") + asked.url.EscapedPath()
		asked.url.Scheme, asked.url.Host = base.Scheme, base.Host
	}
	for i := range p.hosts {
		base := p.hosts[i].endpoint.URL
		if outbound.Origin(base) == outbound.Origin(asked.url) && outbound.Beneath(base, asked.url) {
			return &p.hosts[i], nil
		}
	}
	return nil, errors.New("its URL is below none of the allowed URLs")
}

// send returns the body of the answer.
func send(ctx context.Context, call *outbound.Call, asked *question) (body []byte, err error) {
	var content io.Reader = http.NoBody
	if asked.method == http.MethodPost {
		content = strings.NewReader(asked.body)
	}
	req, err := http.NewRequestWithContext(ctx, asked.method, asked.url.String(), content)
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	req.Header.Set("Accept", "application/json")
	if asked.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := call.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("the answer has status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return io.ReadAll(resp.Body)
}
