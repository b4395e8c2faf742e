// Package kubehttp creates the HTTP clients that the hub and its backend use for the hub's API
// server.
package kubehttp

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// ClientFor is [rest.HTTPClientFor] with a client that sends watches over HTTP/2, so that they
// share a connection, and all other requests over HTTP/1.1, which costs less CPU on both sides. A
// configuration with its own transport or protocols keeps them. Clients of the same configuration
// share connections. CloseIdleConnections of the client closes them, whatever wrappers the
// configuration has. On this client, a missing right is an answer of a server that is ready, see
// [IfReady].
func ClientFor(cfg *rest.Config) (*http.Client, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := clientFor(cfg)
	if err != nil {
		return nil, err
	}
	client.Transport = IfReady(client.Transport, base)
	return client, nil
}

func clientFor(cfg *rest.Config) (*http.Client, error) {
	if cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		through, err := rest.TransportFor(cfg)
		if err != nil {
			return nil, err
		}
		return &http.Client{Transport: through, Timeout: cfg.Timeout}, nil
	}
	watches, err := transportFor(cfg)
	if err != nil {
		return nil, err
	}
	requests, err := transportFor(cfg, "http/1.1")
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: apart{watches, requests}, Timeout: cfg.Timeout}, nil
}

// wrapped is the transport of a configuration, with and without its wrappers.
type wrapped struct {
	http.RoundTripper

	base http.RoundTripper
}

func transportFor(cfg *rest.Config, protocols ...string) (out wrapped, err error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = protocols
	innermost := func(rt http.RoundTripper) http.RoundTripper {
		out.base = rt
		return rt
	}
	cfg.WrapTransport = transport.Wrappers(innermost, cfg.WrapTransport)
	out.RoundTripper, err = rest.TransportFor(cfg)
	return out, err
}

// apart sends watches over one transport and all other requests over another.
type apart struct{ watches, requests wrapped }

// RoundTrip implements [http.RoundTripper].
func (a apart) RoundTrip(r *http.Request) (*http.Response, error) {
	if isWatch(r.URL.RawQuery) {
		return a.watches.RoundTrip(r)
	}
	return a.requests.RoundTrip(r)
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (a apart) CloseIdleConnections() {
	net.CloseIdleConnectionsFor(a.watches.base)
	net.CloseIdleConnectionsFor(a.requests.base)
}

func isWatch(query string) bool {
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter == "watch=true" || parameter == "watch=1" {
			return true
		}
	}
	return false
}
