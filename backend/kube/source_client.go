package kube

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// hubClients read a hub. They share connections.
type hubClients struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	kinds    discovery.DiscoveryInterface
	web      *http.Client
}

func newHubClients(cfg *rest.Config) (*hubClients, error) {
	cfg = hubConfig(cfg)
	web, err := kubehttp.ClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	c := &hubClients{web: web}
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, web); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), web); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	asking := *web // what it is asked has no context
	asking.Timeout = answerTimeout
	if c.kinds, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, &asking); err != nil {
		return nil, fmt.Errorf("the client of the hub: %w", err)
	}
	return c, nil
}

// hubConfig returns a copy of cfg with the defaults of this package. Without a
// limit of its own the hub's priority and fairness decide how fast to go.
func hubConfig(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "slipway")
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	cfg.Timeout = 0 // it would end watches
	cfg.DisableCompression = cfg.DisableCompression || isLoopback(cfg.Host)
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = rest.NoWarnings{} // the default writes to the log of the process
	}
	return cfg
}
