// Package metricgate holds a run after a stage until a metric has been good five times, and ends it where the metric is bad. The
// host gives its engine a provider of measurements, as in the test, which is such a host.
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
