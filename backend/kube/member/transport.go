package member

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	kubetransport "k8s.io/client-go/transport"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// transport is an HTTP client for an API server with one connection at a time. Without HTTP/2,
// the wide transport has one connection for each concurrent request.
type transport struct {
	http        *http.Client
	connections connections
	// dials counts the attempted connections; recognized is their number when the cluster was
	// recognized over this transport. See conn.recognizeOver.
	dials, recognized atomic.Int64
}

// transports are the two transports to one API server, which are not shared. A request over
// HTTP/1.1 costs both sides less, but only one is possible at a time; concurrent requests and
// watches share an HTTP/2 connection.
type transports struct {
	wide, narrow transport
	// taken reports whether the narrow transport is in use or does not exist.
	taken atomic.Bool
}

// enter returns the transport for a request, and a function that the caller must call after
// reading the answer.
func (ls *transports) enter() (l *transport, leave func()) {
	if ls.taken.Swap(true) {
		return &ls.wide, func() {}
	}
	return &ls.narrow, func() { ls.taken.Store(false) }
}

func (ls *transports) close() {
	ls.wide.connections.close()
	ls.narrow.connections.close()
}

// open makes the transports to the API server at base. A transport of the host is used for all
// requests.
func (ls *transports) open(cfg *rest.Config, base *url.URL, o Options) error {
	tc, err := cfg.TransportConfig()
	if err != nil {
		return fmt.Errorf("the credentials: %w", err)
	}
	if tc.Transport != nil {
		ls.taken.Store(true)
		return ls.wide.over(tc, base, tc.Transport)
	}
	wide, err := newTransport(cfg, tc, o, &ls.wide)
	if err != nil {
		return err
	}
	wide.ForceAttemptHTTP2 = true
	wide.HTTP2 = &http.HTTP2Config{SendPingTimeout: o.RequestTimeout / 2, PingTimeout: o.RequestTimeout / 2}
	narrow, err := newTransport(cfg, tc, o, &ls.narrow)
	if err != nil {
		return err
	}
	narrow.Protocols = &http.Protocols{}
	narrow.Protocols.SetHTTP1(true)
	narrow.MaxConnsPerHost = 1
	if err := ls.wide.over(tc, base, used{wide, &ls.wide.connections}); err != nil {
		return err
	}
	return ls.narrow.over(tc, base, used{narrow, &ls.narrow.connections})
}

// over sets the innermost transport, with the credentials and wrappers of tc. The client follows no
// redirects, and takes a missing right for the answer of a server that is ready.
func (l *transport) over(tc *kubetransport.Config, base *url.URL, innermost http.RoundTripper) error {
	rt, err := kubetransport.HTTPWrappersForConfig(tc, innermost)
	l.http = &http.Client{Transport: kubehttp.IfReady(rt, base), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return err
}

// idleTimeout is less than the 90 s after which an API server closes an idle connection, so that
// no request meets a closing connection.
const idleTimeout = time.Minute

func newTransport(cfg *rest.Config, tc *kubetransport.Config, o Options, of *transport) (*http.Transport, error) {
	tlsConfig, err := kubetransport.TLSConfigFor(tc)
	if err != nil {
		return nil, fmt.Errorf("the certificates: %w", err)
	}
	t := &http.Transport{
		TLSClientConfig:        tlsConfig,
		DialContext:            of.dialing(dialOf(tc, o)),
		TLSHandshakeTimeout:    o.DialTimeout,
		ResponseHeaderTimeout:  o.RequestTimeout,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     cfg.DisableCompression || api.IsLoopback(cfg.Host),
		MaxResponseHeaderBytes: 64 << 10,
		Proxy:                  cfg.Proxy,
	}
	if o.ProxyFromEnvironment && t.Proxy == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func dialOf(tc *kubetransport.Config, o Options) dialFunc {
	if tc.DialHolder != nil {
		return tc.DialHolder.Dial
	}
	return (&net.Dialer{Timeout: o.DialTimeout, KeepAlive: o.RequestTimeout}).DialContext
}

// dialing counts the dials of the transport and keeps its connections.
func (l *transport) dialing(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := dialable(ctx); err != nil {
			return nil, err
		}
		l.dials.Add(1)
		return l.connections.dial(ctx, dial, network, address)
	}
}
