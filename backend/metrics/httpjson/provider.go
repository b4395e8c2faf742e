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

// Host is a service that may be asked, and what is sent to it and to no other. Of user name with password, BearerToken,
// BearerTokenFile and a header Authorization at most one is set.
type Host struct {
	// URL is http or https, without user info, query and fragment. Queries reach what is beneath its path and nothing else.
	URL string
	// BearerToken returns a token for each query; it is called concurrently. BearerTokenFile is the name of a file with one,
	// which is read for each query. Outside of Pods no other user may have access to it: its mode must be 0600.
	BearerToken     func(context.Context) (string, error)
	BearerTokenFile string
	// Username and Password are for basic authentication.
	Username, Password string
	// Headers are sent with each query.
	Headers http.Header
	// TLS has the authorities that are trusted, and client certificates. Default: those of the system, and none.
	TLS *tls.Config
}

// Config says which services are asked, and how.
type Config struct {
	// Hosts are the services, at least one. No other is ever asked. Where there is one, a query may leave its URL out.
	Hosts []Host
	// Networks are addresses that may be dialed though they are not public, such as those of the cluster's services. Without
	// them loopback, link-local, private and reserved addresses are refused, whatever name they have.
	Networks []netip.Prefix
	// Timeout is how long a query may take, at least 1 ms; default 10 s.
	Timeout time.Duration
	// MaxBytes bounds the answer, decompressed; default 1 MiB. MaxSamples bounds its samples; default 10,000.
	MaxBytes   int64
	MaxSamples int
}

// Provider is a [backend.MetricProvider] that asks services. It may be used concurrently.
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

// New returns a provider. It does not connect. An error says which field is wrong, and repeats no value of it.
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

// Measure sends the request of a query, and returns the numbers to which its pointer leads. The window of the query is not
// used: only the service knows how old its numbers are.
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
		// Paths are joined as they are written, so that nothing is resolved away.
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
	return nil, errors.New("its URL is beneath none of those that may be asked")
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
