package target

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/backend"
	prom "github.com/slipway-dev/slipway/backend/metrics/prometheus"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	celhealth "github.com/slipway-dev/slipway/health/cel"
)

// Measures are the flags of a verb that drives runs for judging objects and measuring checks.
type Measures struct {
	rules      string
	prometheus prom.Config
}

// AddFlags adds the flags.
func (m *Measures) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&m.rules, "health-rules", "", "YAML or JSON file with rules in CEL, which say when the objects of a kind are healthy")
	flags.StringVar(&m.prometheus.URL, "prometheus", "", "URL of the Prometheus server for the checks of strategies")
	flags.StringVar(&m.prometheus.BearerTokenFile, "prometheus-token-file", "", "file with the bearer token for Prometheus, which is read for each request")
}

// Configure completes the configuration of an engine. Rules of placements are evaluated even if
// the flags name none.
func (m *Measures) Configure(c *fleet.Config) error {
	var rules []health.Rule
	if m.rules != "" {
		if err := cli.ReadFile(m.rules, &rules); err != nil {
			return fmt.Errorf("--health-rules: %w", err)
		}
	}
	prober, err := celhealth.New(rules, celhealth.Options{})
	if err != nil {
		return fmt.Errorf("--health-rules: %s: %w", m.rules, err)
	}
	c.Prober = prober
	if m.prometheus.URL == "" {
		if m.prometheus.BearerTokenFile != "" {
			return cli.Usagef("--prometheus-token-file is set without --prometheus")
		}
		return nil
	}
	provider, err := prom.New(m.prometheus)
	if err != nil {
		return fmt.Errorf("--prometheus: %w", err)
	}
	c.Metrics = map[string]backend.MetricProvider{"prometheus": provider}
	return nil
}
