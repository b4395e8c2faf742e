// Package kubehttp makes the HTTP clients by which the hub and its backend reach
// the hub's API server.
package kubehttp

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// ClientFor is [rest.HTTPClientFor] with a client that watches over HTTP/2, where
// all watches share a connection, and sends everything else over HTTP/1.1, where a
// request costs both sides less. A configuration with a transport or protocols of
// its own keeps them. Clients of the same configuration share connections.
func ClientFor(cfg *rest.Config) (*http.Client, error) {
	if cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		return rest.HTTPClientFor(cfg)
	}
	watches, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	requests, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: apart{watches, requests}, Timeout: cfg.Timeout}, nil
}

// apart sends watches over one transport and all other requests over another.
type apart struct{ watches, requests http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a apart) RoundTrip(r *http.Request) (*http.Response, error) {
	if isWatch(r.URL.RawQuery) {
		return a.watches.RoundTrip(r)
	}
	return a.requests.RoundTrip(r)
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (a apart) CloseIdleConnections() {
	net.CloseIdleConnectionsFor(a.watches)
	net.CloseIdleConnectionsFor(a.requests)
}

func isWatch(query string) bool {
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter == "watch=true" || parameter == "watch=1" {
			return true
		}
	}
	return false
}
