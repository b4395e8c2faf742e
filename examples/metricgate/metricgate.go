// Package metricgate holds a run after a stage until a Prometheus server has said five times that a metric is good, and ends it
// where it is bad. A host gives the provider to its engine, and the stage to its strategies:
//
//	provider, err := prometheus.New(prometheus.Config{URL: "http://prometheus:9090"})
//	fleet.Config{Metrics: map[string]backend.MetricProvider{"prometheus": provider}, ...}
//
// The test runs such a host:
//
//	go test ./examples/metricgate
package metricgate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// Gated returns a stage whose clusters are selected by a label, and after which the value of a query is at most limit five times,
// one a second; one that is more ends the run, and takes it back where the strategy has a RollbackPolicy.
func Gated(tier, query string, limit float64) stages.Stage {
	return stages.Stage{
		Name: tier, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}},
		After: []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{
			Name: "errors", Query: query, Max: &limit, Interval: time.Second, Count: 5,
		}}}},
	}
}
