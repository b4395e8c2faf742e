package api

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// IsLoopback reports whether an API server is on this machine, so that compression is only a
// cost.
func IsLoopback(host string) bool {
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// HubClients read a hub. They share connections.
type HubClients struct {
	Objects  dynamic.Interface
	Metadata metadata.Interface
	Kinds    discovery.DiscoveryInterface
	Web      *http.Client
}

// NewHubClients returns clients that make no request before they are used.
func NewHubClients(cfg *rest.Config) (*HubClients, error) {
	cfg = HubConfig(cfg)
	web, err := kubehttp.ClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	c := &HubClients{Web: web}
	if c.Objects, err = dynamic.NewForConfigAndClient(cfg, web); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	if c.Metadata, err = kubehttp.Metadata(cfg, web); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	asking := *web // requests of discovery have no context
	asking.Timeout = AnswerTimeout
	if c.Kinds, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, &asking); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	return c, nil
}

// HubConfig returns a copy of cfg with the defaults of this package. If cfg has no rate limit,
// the hub's priority and fairness limit the rate.
func HubConfig(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "slipway")
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	cfg.Timeout = 0 // it would end watches
	cfg.DisableCompression = cfg.DisableCompression || IsLoopback(cfg.Host)
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = rest.NoWarnings{} // the default writes to the log of the process
	}
	return cfg
}

// AnswerTimeout limits the time of an API server for a page of a list, or for the start of a
// watch.
const AnswerTimeout = 30 * time.Second
